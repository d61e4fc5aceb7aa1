"""Work on the notebooks: `python -m tools.notebooks refresh|lint|strict|portable|margins|solve|stamp|badges`.

Without paths, on all of them.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tools import margins, notebook_lint, portability, stamping
from tools.kernels import NotebookError, strict
from tools.refresh import refresh
from tools.setup_cell import ROOT
from tools.solving import solve


def all_notebooks() -> list[Path]:
    """Return the collection's notebooks in the order of the chapters."""
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def _each(work: Callable[[Path], object], paths: Sequence[Path]) -> int:
    """Do the work two notebooks at a time, one line each; return the exit status."""
    failed = 0
    # Not by fork: a child forked while another thread holds a lock, as kernels are launched, waits for it for ever.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for path, future in [(path, pool.submit(work, path)) for path in paths]:
            try:
                future.result()
                print(f"{path.name}: done", flush=True)
            except NotebookError as error:
                failed = 1
                print(f"{path.name}: {error}", file=sys.stderr, flush=True)
    return failed


def _strict_here(path: Path) -> None:
    strict(Path(sys.executable), path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in {
        "refresh": "run in place and strip what must not be stored",
        "lint": "check the rules that every notebook keeps",
        "strict": "run under strict nbval",
        "stamp": "write the set-up cell and the badges that pyproject.toml's address asks for",
    }.items():
        commands.add_parser(name, help=text).add_argument("paths", nargs="*", type=Path)
    portable = commands.add_parser("portable", help="run under strict nbval in every setting that this machine has")
    portable.add_argument("paths", nargs="*", type=Path)
    portable.add_argument("--far", action="store_true", help="only the setting farthest from a usual machine")
    portable.add_argument("-o", "--out", type=Path, help="where to write the page (docs/portability.md)")
    measuring = commands.add_parser("margins", help="measure how far each claim stands from its bound")
    measuring.add_argument("paths", nargs="*", type=Path)
    measuring.add_argument("--seed-sets", type=int, default=10, help="how many sets of random numbers (default 10)")
    measuring.add_argument("--records", type=Path, default=ROOT / "build" / "margins", help="what is measured already")
    measuring.add_argument("-o", "--out", type=Path, help="where to write the page (docs/margins.md)")
    solving = commands.add_parser(
        "solve", help="put every solution in place of its stub and run: every check must pass"
    )
    solving.add_argument("path", type=Path)
    solving.add_argument("-o", "--out", type=Path, help="where to write the solved notebook")
    commands.add_parser("badges", help="write the repository's address everywhere").add_argument("repository")
    asked = parser.parse_args(arguments)
    try:
        paths = [p.resolve(strict=True) for p in getattr(asked, "paths", ())] or all_notebooks()
        match asked.command:
            case "refresh":
                return _each(refresh, paths)
            case "strict":
                return _each(_strict_here, paths)
            case "portable":
                outcomes = portability.run(paths, [portability.FAR] if asked.far else list(portability.grid()))
                print(portability.table(outcomes))
                if asked.out is not None:
                    asked.out.write_text(portability.page(outcomes), "utf-8")
                return any(outcome.problem for outcome in outcomes)
            case "margins":
                page = margins.table(margins.measure(paths, asked.seed_sets, asked.records.resolve()))
                print(page)
                if asked.out is not None:
                    asked.out.write_text(margins.HEAD + page, "utf-8")
            case "lint":
                found = [line for path in paths for line in notebook_lint.problems(path)]
                print("\n".join(found) if found else f"{len(paths)} notebooks keep the rules")
                return bool(found)
            case "solve":
                print("\n".join(solve(asked.path.resolve(strict=True), asked.out)))
            case "badges":
                stamping.write_address(asked.repository, ROOT)
                stamping.stamp(ROOT, paths)
            case "stamp":
                stamping.stamp(ROOT, paths)
    except (NotebookError, ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: notebooks that were not finished are as they were", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

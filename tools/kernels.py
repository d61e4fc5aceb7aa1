"""Running notebooks where nothing of the machine's user shows: a bare environment, one thread, strict nbval."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

CELL_SECONDS = 1800  # only what hangs is ended: the longest cell takes 20 s on a quiet machine
SANITIZER = Path(__file__).with_name("nbval.cfg")


class NotebookError(Exception):
    """A notebook that did not run or did not hold, in one line for its author."""


@contextlib.contextmanager
def clean_environment(changes: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Yield environment variables for kernels: English, one thread, nothing of the user's settings or profiles.

    `changes` come last: another number of threads, say.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "JUPYTER", "IPYTHON", "MPLBACKEND"))}
    with tempfile.TemporaryDirectory(prefix="addnorm-") as folder:
        ours = {
            "ADDNORM_LANG": "en",
            "IPYTHONDIR": folder,
            "JUPYTER_CONFIG_DIR": folder,
            "JUPYTER_DATA_DIR": folder,
            "JUPYTER_RUNTIME_DIR": folder,
            "JUPYTER_PLATFORM_DIRS": "1",
            "MKL_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        yield kept | ours | dict(changes or {})


def execute(
    notebook: nbformat.NotebookNode,
    folder: Path,
    changes: Mapping[str, str] | None = None,
    allow_errors: bool = False,
) -> None:
    """Run all cells in place, with `folder` as the working directory; `NotebookError` at the first failing cell.

    `changes` to the environment variables are made before the kernel starts. With `allow_errors` all cells are run.
    """
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        allow_errors=allow_errors,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    # jupyter_client looks a kernel up by this process's own environment, so that is what has to be clean.
    with clean_environment(changes) as environment, _in_force(environment):
        try:
            # Its warnings about itself are not the notebook's.
            client.execute(stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            where = next(i for i, c in enumerate(notebook.cells) if _failed(c))
            raise NotebookError(f"cell {where}: {error.ename}: {error.evalue}") from None
        except CellTimeoutError:
            raise NotebookError(f"a cell ran longer than {CELL_SECONDS} s") from None


def _failed(cell: nbformat.NotebookNode) -> bool:
    return any(o.output_type == "error" for o in cell.get("outputs", ()))


@contextlib.contextmanager
def _in_force(environment: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def strict(python: Path, path: Path, changes: Mapping[str, str] | None = None) -> None:
    """Run the notebook under strict nbval in the environment of `python`; raises `NotebookError` with nbval's words.

    `changes` to the environment variables are made before the kernel starts.
    """
    command = [str(python), "-m", "pytest", "--nbval", "--nbval-current-env", f"--nbval-cell-timeout={CELL_SECONDS}"]
    command += [f"--nbval-sanitize-with={SANITIZER}"]
    # The project's own pytest settings are meant for tests/, and Colab's set lacks the plugins that they name.
    command += ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={path.parent}", str(path)]
    with clean_environment(changes) as environment:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if run.returncode:
        raise NotebookError(f"{path.name} does not hold under strict nbval:\n{run.stdout}{run.stderr}")

"""Run notebooks in every setting that this machine can imitate, under strict nbval, and tell what differs."""

import datetime
import multiprocessing
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from addnorm_lib.__main__ import environment
from tools import bootstrap
from tools.kernels import NotebookError, strict
from tools.settings import OWN, SHORTENED, Setting, instruction_sets, texts, was_read

FAR = Setting("default", threads=2, text=SHORTENED)  # as far from a usual machine as one setting gets


@dataclass(frozen=True)
class Outcome:
    """How one notebook fared in one setting: `problem` is empty where it held."""

    notebook: str
    setting: Setting
    seconds: float
    problem: str
    read_text: bool

    def __str__(self) -> str:
        held = "holds" if not self.problem else "does not hold"
        return (
            f"{self.notebook} ({self.setting}): {held}, {self.seconds:.0f} s{self.problem and chr(10) + self.problem}"
        )


def hold(path: Path, setting: Setting, folder: Path) -> Outcome:
    """Run one notebook in one setting; training records and texts are kept in `folder`."""
    own_texts = folder / "texts" / path.stem
    began, problem = time.monotonic(), ""
    try:
        strict(setting.python, path, setting.environment(folder / "records", own_texts))
    except NotebookError as error:
        problem = _told(str(error))
    read_text = setting.text != OWN and was_read(setting.text, own_texts)
    return Outcome(path.name, setting, time.monotonic() - began, problem, read_text)


def _told(error: str) -> str:
    """Leave of nbval's words what says which cell differs, and how."""
    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in error.splitlines()]
    wanted = re.compile(r"Cell \d+: Cell|<<<|>>>|===|^E\s+'|✓|✗|Error|^E\s+[-+] ")
    return "\n".join(line for line in lines if wanted.search(line))[:4000] or error[-2000:]


def grid() -> Iterator[Setting]:
    """Yield every setting: instructions × threads × texts with the pinned versions, and Colab's versions."""
    for instructions in instruction_sets():
        for threads in (1, 2):
            for text in texts():
                yield Setting(instructions, threads, text)
    if bootstrap.read_marker(bootstrap.COLAB_VENV).get("done"):
        yield Setting(versions="colab")


def run(paths: Sequence[Path], settings: Sequence[Setting], report=print) -> list[Outcome]:
    """Run all notebooks in all settings, two at a time, and report each as it ends.

    A notebook that does not read the text in one setting is not run again for other texts.
    """
    outcomes: list[Outcome] = []
    readers: dict[str, bool] = {}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="addnorm-") as name, ProcessPoolExecutor(2, mp_context=context) as pool:
        # Setting by setting: the trainings of one are finished before the next wants their records.
        for setting in settings:
            due = [path for path in paths if setting.text == OWN or readers.get(path.name, True)]
            for future in as_completed([pool.submit(hold, path, setting, Path(name)) for path in due]):
                outcome = future.result()
                outcomes.append(outcome)
                report(outcome)
                if setting.text != OWN and not outcome.problem:
                    readers[outcome.notebook] = outcome.read_text
    return outcomes


def page(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown page: when and where the settings were run, and their table."""
    here = environment()
    told = {name: here[name] for name in ("Python", "processor", "instructions", "packages")}
    return "\n".join(
        [
            "# Portability",
            "",
            "Strict nbval of every notebook, as stored, in each setting; seconds with two notebooks side by side.",
            "Training records are shared within one setting's instructions and text, so that a later row of the same",
            "instructions trains less. Written by `python -m tools.notebooks portable -o docs/portability.md` on",
            f"{datetime.date.today():%d %B %Y}.",
            "",
            *(f"- {name}: {value}" for name, value in told.items()),
            "",
            table(outcomes),
            "",
        ]
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table: a row for each setting, a column for each notebook, seconds where it held."""
    notebooks = sorted({outcome.notebook for outcome in outcomes})
    rows = [["setting", *(name.removesuffix(".ipynb") for name in notebooks)], ["---"] * (1 + len(notebooks))]
    for setting in dict.fromkeys(outcome.setting for outcome in outcomes):
        held = {o.notebook: "✗" if o.problem else f"{o.seconds:.0f} s" for o in outcomes if o.setting == setting}
        rows.append([str(setting), *(held.get(name, "does not read the text") for name in notebooks)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)

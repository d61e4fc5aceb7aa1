"""Settings in which a notebook must hold: the processor's instructions, threads, Python's manual, a set of versions.

Torch, MKL and oneDNN choose their code by the processor they find; each can be held down to less. What a chapter reads
as real text is Python's own manual, which differs from version to version: another version's `pydoc_data`, put first on
the path, shadows the interpreter's own.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools import bootstrap

Instructions = Literal["default", "avx2", "avx512"]
HELD_DOWN: Mapping[str, Mapping[str, str]] = {
    "default": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "MKL_CBWR": "AVX512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
}
OWN, SHORTENED = "own", "shortened"  # the interpreter's text; the same without every tenth topic
PYTHONS = ("3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Setting:
    """One setting: `instructions` as in HELD_DOWN ("" for the processor's own choice), `threads`, `text`, `versions`.

    `text` is OWN, SHORTENED or a Python version; `versions` is "pinned" or "colab".
    """

    instructions: str = ""
    threads: int = 1
    text: str = OWN
    versions: str = "pinned"

    def __str__(self) -> str:
        threads = f"{self.threads} thread" + "s" * (self.threads > 1)
        return ", ".join([self.instructions or "own instructions", threads, f"text {self.text}", self.versions])

    @property
    def python(self) -> Path:
        """The interpreter that runs the notebook."""
        return bootstrap.python_of(bootstrap.COLAB_VENV) if self.versions == "colab" else Path(sys.executable)

    def environment(self, records: Path, texts: Path) -> dict[str, str]:
        """Return the environment variables of this setting; the two folders keep training records and other texts.

        A record is found again within the same instructions, torch and text alone; its key sees to that.
        """
        changes = dict(HELD_DOWN[self.instructions]) if self.instructions else {}
        changes |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(self.threads))
        # Where more threads wait than there are cores, a spinning one takes the time of one that works.
        changes |= {"OMP_WAIT_POLICY": "passive", "ADDNORM_RECORDS": str(records)}
        if self.text != OWN:
            path = [str(shadow(self.text, texts)), os.environ.get("PYTHONPATH", "")]
            changes["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        return changes


def instruction_sets() -> tuple[str, ...]:
    """Return the sets of HELD_DOWN that this processor has."""
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    best = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_unheld()).stdout
    names = tuple(HELD_DOWN)
    return names[: names.index(best.strip().lower()) + 1] if best.strip().lower() in names else names[:1]


def _unheld() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in HELD_DOWN["default"]}


@functools.cache
def python_with(version: str) -> Path | None:
    """Return an installed Python of that version, or None: on the path, or where pyenv keeps its own."""
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python"))
    for candidate in (f"python{version}", *map(str, pyenv)):
        found = shutil.which(candidate)
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        if found and subprocess.run([found, "-c", code], capture_output=True, text=True).stdout.strip() == version:
            return Path(found)
    return None


def texts() -> Iterator[str]:
    """Yield the texts that can be had here: the interpreter's own, the shortened one, those of other Pythons."""
    yield from (OWN, SHORTENED)
    running = "{}.{}".format(*sys.version_info)
    yield from (version for version in PYTHONS if version != running and python_with(version))


def shadow(text: str, folder: Path) -> Path:
    """Return a folder that, first on the path, puts another text in place of `pydoc_data.topics`.

    Whoever imports it leaves a file `read` beside it. Raises ValueError for a text that this machine does not have.
    """
    home = folder / text
    package = home / "pydoc_data"
    if (package / "topics.py").exists():
        return home
    if text == SHORTENED:
        from pydoc_data.topics import topics

        kept = {name: topics[name] for i, name in enumerate(sorted(topics)) if i % 10}
    else:
        python = python_with(text)
        if python is None:
            raise ValueError(f"text: no Python {text} is installed here, and its manual is wanted")
        code = "from pydoc_data.topics import topics; print(dict(topics))"
        said = subprocess.run([python, "-X", "utf8", "-c", code], capture_output=True, encoding="utf-8", check=True)
        kept = said.stdout.strip()
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    note = 'import pathlib\npathlib.Path(__file__).with_name("read").touch()\n'
    draft = package / f"topics.{os.getpid()}.new"
    draft.write_text(f"{note}topics = {kept}\n", "utf-8")
    draft.replace(package / "topics.py")
    return home


def was_read(text: str, folder: Path) -> bool:
    """Return whether anything has imported the text that `shadow` put into the folder."""
    return (folder / text / "pydoc_data" / "read").exists()

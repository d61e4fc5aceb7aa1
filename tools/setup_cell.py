"""The set-up cell: the first code cell of every notebook, byte for byte the same in all of them.

The repository's address stands in pyproject.toml's `[project.urls]` alone; until one is stamped there, the cell does
not pretend that it could fetch anything.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FIND = """\
# Finds addnorm_lib; where it is missing (Colab, a bare kernel), installs it alone. The same cell in every chapter.
import importlib.util, pathlib, subprocess, sys
if not importlib.util.find_spec("addnorm_lib"):
    up = pathlib.Path(globals().get("__vsc_ipynb_file__", "notebook")).resolve().parents
    sys.path += [str(p) for p in up if (p / "pyproject.toml").exists() and (p / "addnorm_lib/__init__.py").exists()][:1]
"""
_FETCH = """\
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "git+{address}"]
    if not importlib.util.find_spec("addnorm_lib") and subprocess.run(pip, capture_output=True).returncode:
        raise ImportError("addnorm_lib cannot be fetched: go online and run this cell again, or open it in a clone.")
"""
_STOP = """\
    if not importlib.util.find_spec("addnorm_lib"):
        raise ImportError("addnorm_lib is not here: open this notebook in a clone of its project and run it again.")
"""


def address(root: Path = ROOT) -> str:
    """Return the repository's address from pyproject.toml, or "" while none is stamped."""
    urls = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    return urls.get("Repository", "")


def text(repository_address: str) -> str:
    """Return the set-up cell's source for a repository address (any URL that git understands), or for none ("")."""
    end = _FETCH.replace("{address}", repository_address) if repository_address else _STOP
    return (_FIND + end).rstrip("\n")

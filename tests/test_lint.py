"""Style, import floors and the notebooks' rules; `make lint` runs this file."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BESIDE_PYTHON = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["lint-imports", "--no-cache"],
        ["python", "-m", "tools.notebooks", "lint"],
    ],
    ids=" ".join,
)
def test_is_clean(command):
    run = subprocess.run([BESIDE_PYTHON / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr

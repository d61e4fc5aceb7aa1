"""A fresh machine that lacks something gets one line; an interrupted set-up never counts as done."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = """
[project]
name = "small"
version = "0"
[project.optional-dependencies]
notebooks = ["numpy"]
"""


@pytest.fixture
def clone(tmp_path):
    """A clone with nothing in it but what make needs."""
    (tmp_path / "tools").mkdir()
    for name in ("Makefile", "constraints.txt", "tools/bootstrap.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def make(clone, *arguments, **environment):
    """Run make as on a machine that has Python: (exit status, lines of its standard error without make's own)."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "MAKE"))}
    run = subprocess.run(
        ["make", *arguments],
        cwd=clone,
        env=base | {"PYTHON": sys.executable} | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return run.returncode, [line for line in run.stderr.splitlines() if not line.startswith("make:")], run.stdout


def test_make_alone_names_the_commands(clone):
    status, errors, out = make(clone)
    assert (status, errors) == (0, [])
    assert [line.split()[1] for line in out.splitlines()] == ["lab", "test", "notebooks", "lint", "badges", "bench"]


def test_no_python(clone):
    (clone / "bin").mkdir()
    for name in ("make", "sh"):
        (clone / "bin" / name).symlink_to(shutil.which(name))
    environment = {"PATH": str(clone / "bin")}
    run = subprocess.run(["make", "lab"], cwd=clone, env=environment, capture_output=True, text=True)
    assert run.returncode
    assert "addnorm needs Python 3.11 or newer, and none was found" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def python_that(clone, does):
    """Environment variables that let every Python do something first."""
    (clone / "site").mkdir()
    (clone / "site" / "sitecustomize.py").write_text(does)
    return {"PYTHONPATH": str(clone / "site")}


def test_an_old_python(clone):
    old = python_that(clone, "import sys; sys.version_info = (3, 9, 2)")
    status, errors, _ = make(clone, "lab", **old)
    assert status and len(errors) == 1 and "addnorm needs Python 3.11 or newer" in errors[0]


def test_no_venv_module(clone):
    bare = python_that(clone, "import sys; sys.modules['ensurepip'] = None")
    status, errors, _ = make(clone, "lab", **bare)
    assert status and len(errors) == 1 and "python3-venv" in errors[0]
    assert not (clone / ".venv").exists()


@pytest.mark.slow
def test_no_network_and_then_another_try(clone):
    nowhere = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
        "PIP_NO_CACHE_DIR": "1",
    }
    for _ in range(2):
        status, errors, out = make(clone, "lab", **nowhere)
        assert status
        assert errors[-1].startswith("addnorm: the package index cannot be reached")
        assert "Setting up .venv" in out
        assert json.loads((clone / ".venv" / bootstrap.MARKER).read_text())["done"] is False


def test_no_disk(clone):
    small = clone / "small"
    small.mkdir()
    fill = f'mount -t tmpfs -o size=1m none "{small}" && cp -r Makefile *.toml *.txt tools "{small}"'
    script = f'{fill} && make -C "{small}" lab'
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)])
    if probe.returncode:
        pytest.skip("no small disk can be mounted here")
    run = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=clone, capture_output=True, text=True)
    assert run.returncode
    assert "the disk has 0.0 GB free, and .venv needs 3.5 GB" in run.stderr


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("Failed to establish a new connection: [Errno -3] Temporary failure in name resolution", "cannot be reached"),
        ("ERROR: ResolutionImpossible", "its last lines stand above"),
    ],
)
def test_pips_words_are_explained_in_one_line(said, cause):
    assert cause in bootstrap.explain(f"Collecting torch\n{said}\n")


def test_a_read_only_clone(clone):
    run = subprocess.run([sys.executable, "-c", _CREATE, str(clone / "file" / ".venv")], capture_output=True, text=True)
    assert "cannot be written: No such file or directory" in run.stderr


def test_badges_wants_a_repository(clone):
    status, errors, _ = make(clone, "badges")
    assert status and errors == ["say which repository: make badges REPO=owner/name"]


_CREATE = """
import sys
from pathlib import Path
from tools import bootstrap
sys.exit(bootstrap.create(Path(sys.argv[1]), 0))
"""


class Installs:
    """Records what was to be installed, into which state, and stops where it is told to."""

    def __init__(self, venv):
        self.venv, self.asked = venv, []

    def __call__(self, parts):
        self.asked.append(parts)
        (self.venv / "half").touch()

    def interrupted(self, parts):
        self(parts)
        raise KeyboardInterrupt


@pytest.mark.slow
def test_an_environment_is_finished_once_and_never_half(tmp_path, monkeypatch):
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    venv = tmp_path / ".venv"
    install = Installs(venv)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.ensure(venv, "key", ("a",), 0, install.interrupted)
    assert (venv / "half").exists()

    def again(parts):
        assert not (venv / "half").exists(), "the interrupted environment was not thrown away"
        install(parts)

    bootstrap.ensure(venv, "key", ("a",), 0, again)
    bootstrap.ensure(venv, "key", ("a",), 0, install)
    assert install.asked == [["a"], ["a"]]

    bootstrap.ensure(venv, "key", ("b",), 0, install)
    bootstrap.ensure(venv, "key", ("a",), 0, install)
    assert install.asked[2:] == [["a", "b"]]

    bootstrap.ensure(venv, "new key", ("a",), 0, install)
    assert install.asked[3:] == [["a", "b"]]
    assert (venv / "half").exists(), "a change of pins made the environment again from nothing"

    monkeypatch.setattr(bootstrap, "ROOT", tmp_path / "moved")
    (tmp_path / "moved").mkdir()
    bootstrap.ensure(venv, "new key", ("a",), 0, again)


def test_an_environment_made_by_hand_is_never_deleted(tmp_path):
    venv = tmp_path / ".venv"
    venv.mkdir()
    (venv / "mine").touch()
    with pytest.raises(bootstrap.SetupError, match="was not made by this command"):
        bootstrap.ensure(venv, "key", (), 0, lambda parts: None)
    assert (venv / "mine").exists()

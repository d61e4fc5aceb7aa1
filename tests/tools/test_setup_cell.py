"""The set-up cell wherever a reader may open a notebook, Colab's bare kernel among them."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tools import bootstrap, setup_cell

ROOT = Path(__file__).resolve().parent.parent.parent
# The Python that the environments were made from: it has no addnorm_lib, and not even NumPy.
BARE_PYTHON = Path(sys.base_prefix) / "bin" / "python3"
UNREACHABLE = "https://127.0.0.1:9/owner/name"


def run(python, folder, address="", before="", after=""):
    code = f"{before}\n{setup_cell.text(address)}\n{after}"
    return subprocess.run(
        [python, "-c", code], cwd=folder, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )


@pytest.mark.parametrize("address", ["", "https://github.com/owner/name"])
def test_it_is_short_and_reads_well(address):
    lines = setup_cell.text(address).splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 120
    assert ("git+" in setup_cell.text(address)) is bool(address)


@pytest.mark.parametrize("address", ["", UNREACHABLE])
def test_it_does_nothing_where_the_library_imports(tmp_path, address):
    before = f"import sys; sys.path.append({str(ROOT)!r}); path = list(sys.path)"
    assert run(BARE_PYTHON, tmp_path, address, before, "assert sys.path == path").returncode == 0


@pytest.mark.parametrize("address", ["", UNREACHABLE])
@pytest.mark.parametrize("folder", ["notebooks", "."])
def test_it_uses_the_clone_around_it(address, folder):
    after = "print(importlib.util.find_spec('addnorm_lib').origin)"
    found = run(BARE_PYTHON, ROOT / folder, address, after=after)
    assert Path(found.stdout.strip()).resolve() == ROOT / "addnorm_lib" / "__init__.py", found.stderr


def test_it_uses_the_clone_of_a_notebook_that_vs_code_opened_from_elsewhere(tmp_path):
    before = f"__vsc_ipynb_file__ = {str(ROOT / 'notebooks' / '01_residual.ipynb')!r}"
    found = run(BARE_PYTHON, tmp_path, "", before, "print(importlib.util.find_spec('addnorm_lib').origin)")
    assert Path(found.stdout.strip()).parent.parent == ROOT, found.stderr


@pytest.mark.parametrize(("address", "sentence"), [("", "open this notebook in a clone"), (UNREACHABLE, "go online")])
def test_it_says_what_to_do_and_stops(tmp_path, address, sentence):
    stopped = run(BARE_PYTHON, tmp_path, address, after="print('went on')")
    assert stopped.returncode
    assert stopped.stdout == ""
    last = stopped.stderr.splitlines()[-1]
    assert last.startswith("ImportError: addnorm_lib ") and sentence in last and last.count(".") == 1


@pytest.fixture
def published(tmp_path):
    """Address of a git repository that holds the working tree's package."""
    repository = tmp_path / "repository"
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "addnorm_lib",
            "pyproject.toml",
            "LICENSE",
            "README.md",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.splitlines()):
        target = repository / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    return repository.as_uri()


@pytest.mark.slow
@pytest.mark.skipif(not bootstrap.read_marker(bootstrap.COLAB_VENV).get("done"), reason="no .venv-colab")
def test_on_colab_it_installs_our_package_alone(published, tmp_path, monkeypatch):
    """An empty folder with one notebook, and a machine with Colab's packages, to which ours is added and no other."""
    machine = tmp_path / "machine"
    subprocess.run([sys.executable, "-m", "venv", machine], check=True)
    packages = bootstrap.site_packages(machine)
    (packages / "colab.pth").write_text(str(bootstrap.site_packages(bootstrap.COLAB_VENV)))
    before = {p.name for p in packages.iterdir()}

    kernel = tmp_path / "jupyter" / "kernels" / "colab"
    kernel.mkdir(parents=True)
    argv = [str(bootstrap.python_of(machine)), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Colab", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.delenv("PYTHONPATH", raising=False)

    folder = tmp_path / "content"
    folder.mkdir()
    versions = "import numpy, torch, ipywidgets\nprint(numpy.__version__, torch.__version__, ipywidgets.__version__)"
    cells = [versions, setup_cell.text(published), "import addnorm_lib, pathlib\nprint(addnorm_lib.__file__)", versions]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    client = NotebookClient(notebook, kernel_name="colab", timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute(stderr=subprocess.DEVNULL)

    assert notebook.cells[1].outputs == []
    printed = [cell.outputs[0].text.strip() for cell in notebook.cells if cell.outputs]
    assert printed[0] == printed[2] and "7.7.1" in printed[0]
    assert Path(printed[1]).is_relative_to(machine)
    added = {p.name for p in packages.iterdir()} - before
    assert added and all(name.startswith("addnorm_lib") for name in added)

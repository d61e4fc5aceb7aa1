"""pyproject.toml, constraints.txt, environment.yml and Colab's file name the same packages, in versions that fit."""

import importlib.metadata
import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(text) for group in [PROJECT["dependencies"], *EXTRAS.values()] for text in group]


def pins(path):
    """Return {name: version} of a file in which every line is a comment or an exact pin."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


PINS = pins(ROOT / "constraints.txt")
COLAB = pins(bootstrap.COLAB_PINS)


@pytest.mark.parametrize("requirement", DIRECT, ids=str)
def test_every_dependency_is_pinned_within_its_range(requirement):
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def test_what_the_dependencies_need_is_pinned_too():
    waiting, seen, loose = [(r, ()) for r in DIRECT], set(), set()
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in extras or [""]):
            continue
        name = canonicalize_name(requirement.name)
        key = name, tuple(sorted(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        # torch's CUDA build brings NVIDIA's packages and setuptools, its CPU build does not.
        if name not in PINS and not name.startswith(("nvidia-", "cuda-", "setuptools")):
            loose.add(name)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        waiting += [(Requirement(text), key[1]) for text in needs]
    assert loose == set()
    assert {name for name, _ in seen} >= {"torch", "jupyterlab", "tornado"}


def test_conda_installs_the_same_set():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, pip, by_pip = environment["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    assert by_pip == {"pip": ["-c constraints.txt", f"-e .[{','.join(EXTRAS)}]"]}


def test_make_installs_every_extra():
    assert set(bootstrap.EVERYTHING) == set(EXTRAS) >= set(bootstrap.READER)


def test_colabs_file_has_what_notebooks_need():
    direct = {canonicalize_name(Requirement(t).name) for t in [*PROJECT["dependencies"], *EXTRAS["notebooks"]]}
    assert direct - set(COLAB) == {"torch", "jupyterlab"}
    assert COLAB["nbval"] == PINS["nbval"]


@pytest.mark.skipif(not bootstrap.read_marker(bootstrap.COLAB_VENV).get("done"), reason="no .venv-colab")
def test_colabs_environment_has_these_versions_and_not_our_package(tmp_path):
    code = """if True:
        import importlib.metadata, importlib.util, json, torch
        assert importlib.util.find_spec("addnorm_lib") is None
        versions = {d.name: d.version for d in importlib.metadata.distributions()}
        print(json.dumps([torch.__version__, versions]))"""
    run = subprocess.run(
        [bootstrap.python_of(bootstrap.COLAB_VENV), "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    torch, versions = json.loads(run.stdout)
    assert torch.split("+")[0] == PINS["torch"]
    installed = {canonicalize_name(name): version for name, version in versions.items()}
    assert {name: installed.get(name) for name in COLAB} == COLAB

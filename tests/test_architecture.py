"""The page about the house agrees with the house: its floors are the folders and the contract's, in this order."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/ARCHITECTURE.md").read_text("utf-8")


def named(text):
    return re.findall(r"`([a-z_]+(?:/|\.py))`", text)


def test_every_floor_is_there_and_stands_in_the_contracts_order():
    rows = PAGE.split("| floor |")[1].split("\n\n")[0].splitlines()[2:]
    floors = [name for row in rows for name in named(row.split("|")[1])]
    library = ROOT / "addnorm_lib"
    there = {path.name + "/" * path.is_dir() for path in library.iterdir() if path.name[0] not in "_."}
    assert set(floors) == there - {"py.typed", "locale/"}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [layer for layer in contracts[0]["layers"] if not layer.startswith("(")]
    assert [name.strip("/").removesuffix(".py") for name in floors] == layers


def test_every_path_it_names_is_there():
    for path in re.findall(r"`((?:course|chapters|layers|tests|docs)/[\w/]+(?:\.py)?)`", PAGE):
        if "chNN" not in path:
            assert (ROOT / "addnorm_lib" / path).exists() or (ROOT / path).exists(), path


def test_every_chapter_is_named_as_its_notebook():
    notebooks = {f"ch{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.name for path in (ROOT / "addnorm_lib/chapters").glob("ch*")} == notebooks

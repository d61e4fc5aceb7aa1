"""The README's code runs as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0])
def test_a_block_runs(block):
    if "distributed" in block:
        pytest.importorskip("distributed", reason="a cluster needs Dask, an extra")
    exec(compile(block, "README.md", "exec"), {"__name__": "README"})


def test_every_floor_of_the_table_is_there():
    names = re.findall(r"`([a-z_]+(?:/|\.py))`", README.read_text("utf-8").split("| floor |")[1].split("\n\n")[0])
    library = README.parent / "addnorm_lib"
    assert {path.name + "/" * path.is_dir() for path in library.iterdir() if path.name[0] not in "_."} - {
        "py.typed",
        "locale/",
    } == set(names)

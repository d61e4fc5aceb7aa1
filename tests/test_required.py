"""ADDNORM_REQUIRE names what must be there, so that CI leaves nothing out in silence."""

import importlib.util
import os
from pathlib import Path

import pytest

from tools import bootstrap

HERE = {
    "chromium": lambda: Path("/usr/bin/chromium").exists(),
    "colab": lambda: bootstrap.read_marker(bootstrap.COLAB_VENV).get("done", False),
    "portability": lambda: True,  # the stage of test_collection.py that is left out where nobody asks for it
    "cuda": lambda: importlib.import_module("torch").cuda.is_available(),
    "triton": lambda: importlib.util.find_spec("triton") is not None,
}


@pytest.mark.parametrize("name", [n for n in os.environ.get("ADDNORM_REQUIRE", "").split(",") if n] or ["nothing"])
def test_what_is_required_is_here(name):
    if name != "nothing":
        assert name in HERE, f"ADDNORM_REQUIRE names {name!r}; known are {', '.join(HERE)}"
        assert HERE[name](), f"{name} is required and not here"

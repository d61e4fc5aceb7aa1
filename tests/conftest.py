"""Settings that every test shares."""

import os

os.environ["ADDNORM_LANG"] = "en"

import pytest
import torch
from hypothesis import settings

settings.register_profile("addnorm", deadline=None, derandomize=True, database=None)
settings.load_profile("addnorm")


@pytest.fixture(autouse=True)
def _one_thread_and_a_fixed_seed():
    """One thread is several times faster than two at these sizes, and the numbers repeat."""
    torch.set_num_threads(1)
    torch.manual_seed(0)

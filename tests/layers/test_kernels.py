"""The layers on the fused kernels: in Triton's interpreter, and on a GPU where there is one.

A process of its own, for Triton reads TRITON_INTERPRET once, at its first import.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed on this platform")
@pytest.mark.parametrize("where", ["interpreter", "gpu"])
def test_on_the_kernels(where):
    if where == "gpu" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_INTERPRET", "PYTEST_"))}
    variables |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    variables |= {"TRITON_INTERPRET": "1"} if where == "interpreter" else {}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", str(HERE / "check_kernels.py"), "--rootdir", str(ROOT), "-p", "no:xdist"],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-10000:] + result.stderr[-2000:]

"""The contract's tests again, on the kernels: in Triton's interpreter, and on a GPU where there is one.

Each run is a process of its own, for Triton reads TRITON_INTERPRET once, at its first import.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from addnorm_lib import add_norm
from addnorm_lib.fused import op

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not TRITON, reason="Triton is not installed on this platform")


def environment(**changes):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_INTERPRET", "PYTEST_"))}
    return variables | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | changes


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("where", ["interpreter", "gpu"])
@pytest.mark.parametrize("file", ["test_contract.py", "check_kernels.py"])
def test_on_the_kernels(file, where):
    if where == "gpu" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    interpreted = {"TRITON_INTERPRET": "1"} if where == "interpreter" else {}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", str(HERE / file), "--rootdir", str(ROOT), "-p", "no:xdist", "--tb=short"],
        cwd=ROOT,
        env=environment(ADDNORM_TEST_BACKEND="triton", **interpreted),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-10000:] + result.stderr[-2000:]


def test_auto_on_a_cpu_is_the_eager_path():
    x = torch.randn(4, 8)
    assert torch.equal(add_norm(x, x), add_norm(x, x, backend="eager"))


@needs_triton
def test_triton_on_a_cpu_says_what_to_do():
    code = (
        "import torch; from addnorm_lib import add_norm\n"
        "try: add_norm(torch.zeros(2, 4), torch.zeros(2, 4), backend='triton')\n"
        "except ValueError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True)
    assert "CUDA device, got cpu" in said.stdout and "TRITON_INTERPRET=1" in said.stdout, said.stderr


def test_without_triton_the_error_says_so_and_auto_still_works(monkeypatch):
    monkeypatch.setattr(op, "_TRITON_INSTALLED", False)
    x = torch.randn(2, 4)
    with pytest.raises(ValueError, match="needs Triton, which is not installed"):
        add_norm(x, x, backend="triton")
    add_norm(x, x)


def test_an_old_gpu_gets_the_eager_path(monkeypatch):
    """A stand-in for the one question that is asked of the device; the rest is real."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    assert not op._kernels_run_on(torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert op._kernels_run_on(torch.device("cuda"))
    # torch.compile takes the answer for a constant instead of breaking the graph
    asking = torch.compile(lambda x: x + op._kernels_run_on(torch.device("cuda")), backend="eager", fullgraph=True)
    assert asking(torch.zeros(())) == 1


def test_importing_the_library_imports_no_triton():
    code = "import sys; import addnorm_lib; sys.exit('triton' in sys.modules or 'torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT).returncode == 0

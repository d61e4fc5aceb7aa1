"""`python -m addnorm_lib`: print what a report about a notebook that does not hold has to say of the machine."""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

PACKAGES = ("numpy", "torch", "triton", "matplotlib", "ipywidgets", "ipykernel", "ipython", "jupyterlab", "nbval",
            "scikit-learn", "tqdm")  # fmt: skip
VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
             "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "ADDNORM_LANG", "ADDNORM_RECORDS", "MPLBACKEND")  # fmt: skip


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def environment() -> dict[str, str]:
    """Return, in words, everything that has been seen to change a notebook's numbers: nothing personal, no paths."""
    import torch

    from addnorm_lib.experiments.data import topics_text

    variables = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    variables = [text if "/" not in text else text.partition("=")[0] + "=…" for text in variables]
    return {
        "addnorm_lib": _version("addnorm_lib"),
        "Python": f"{sys.version.split()[0]} on {platform.system()} {platform.machine()}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "CUDA": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "text": f"{len(topics_text())} characters",
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "set": ", ".join(variables) or "nothing",
    }


if __name__ == "__main__":
    for name, value in environment().items():
        print(f"{name + ':':<14}{value}")

"""`import addnorm_lib` stays light."""

import subprocess
import sys

HEAVY = ("matplotlib", "ipywidgets", "sklearn", "triton", "tqdm", "IPython")

PROGRAM = f"""
import sys, time
start = time.perf_counter()
import numpy, torch
with_torch, before = time.perf_counter() - start, set(sys.modules)
start = time.perf_counter()
import addnorm_lib
extra = time.perf_counter() - start
print(f"import torch: {{1e3 * with_torch:.0f}} ms; import addnorm_lib on top: {{1e3 * extra:.0f}} ms")
loaded = sorted({{name.split(".")[0] for name in set(sys.modules) - before}} & set({HEAVY!r}))
assert not loaded, loaded
assert callable(addnorm_lib.add_norm)
"""


def test_importing_the_library_loads_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    print(done.stdout)
    assert done.returncode == 0, done.stderr

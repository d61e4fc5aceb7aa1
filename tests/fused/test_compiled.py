"""The kernels compiled for GPUs that need not be here: no spills, no stack, 128-bit accesses, few registers.

`resources.json` records registers and shared memory for the Triton release that it names;
`python tests/fused/test_compiled.py` writes it anew.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import types as namespaces
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="Triton is not installed on this platform")

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TABLE = Path(__file__).with_name("resources.json")
CAPABILITIES = (75, 80, 90, 100)
FEATURES = (64, 1000, *(2**n for n in range(9, 17)))
TRITON_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.float64: "fp64"}
# (x, s, parameters). The first two of the same tile sizes as float16; the third costs most registers.
DTYPES = {
    "bf16": (torch.bfloat16, torch.bfloat16, torch.bfloat16),
    "bf16+fp32": (torch.bfloat16, torch.float32, torch.float32),
    "fp32": (torch.float32, torch.float32, torch.float32),
    "fp64": (torch.float64, torch.float64, torch.float64),
}
# lean: Post-LN with nothing extra. full: dropout, alpha, and a gradient for the sum.
VARIANTS = ("lean", "full")
SHARED_LIMIT = {75: 64 * 1024, 80: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024}  # 80: as on 8.6 and 8.9, less than 8.0


def compile_kernel(kernel, types, constants, tile, capability):
    """Compile as a launch with aligned, contiguous tensors would; what `types` lacks is a constant, or None."""
    signature, constexprs, attributes = {}, {}, {}
    for position, name in enumerate(kernel.arg_names):
        signature[name] = types.get(name, "constexpr")
        if name not in types:
            constexprs[name] = constants.get(name)
        elif types[name].startswith("*"):
            attributes[(position,)] = [["tt.divisibility", 16]]
    return triton.compile(
        ASTSource(kernel, signature, constexprs, attributes),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": tile.warps, "enable_fp_fusion": True},
    )


def resources(compiled):
    """Registers a thread, bytes of stack and of spills, bytes of shared memory, and 16-byte loads and stores."""
    cuobjdump = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        report = subprocess.run(
            [cuobjdump, "--dump-resource-usage", cubin.name], capture_output=True, text=True, check=True
        ).stdout
    found = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", report)}
    ptx = compiled.asm["ptx"]
    wide = r"\S*\.(?:v4\.b32|v2\.b64)\b"
    copies = len(re.findall(r"cp\.async\.c[ag]\.shared\.global\S* [^;]*?0x10", ptx))
    return {
        "registers": found["REG"],
        "stack": found["STACK"],
        "local": found["LOCAL"],
        "shared": compiled.metadata.shared,
        "loads": len(re.findall(rf"ld\.global{wide}", ptx)) + copies,
        "stores": len(re.findall(rf"st\.global{wide}", ptx)),
    }


def accesses(tile, *dtypes):
    """16-byte accesses a thread needs for a tile of each dtype."""
    elements = tile.rows * tile.columns // (32 * tile.warps)
    return sum(max(1, elements * dtype.itemsize // 16) for dtype in dtypes)


def measure(capability, D, dtypes, variant):
    """Compile forward and backward as `launch` would call them; return each one's resources and what it must do."""
    from addnorm_lib.fused import kernels, launch

    x, s, parameter = DTYPES[dtypes]
    full = variant == "full"
    statistics = torch.promote_types(s, torch.float32)
    pointer = {dtype: f"*{name}" for dtype, name in TRITON_NAMES.items()}
    scalars = dict.fromkeys(("eps", "alpha", "keep_scale"), "fp64") | {"M": "i32", "drop_below": "i32"}
    common = {"weight": pointer[parameter], "mean": pointer[statistics], "rstd": pointer[statistics]}
    common |= {"s": pointer[s]} | ({"seed": "*i64"} if full else {})

    config = launch.choose_config(D, s, two_gradients=full or x != s)
    tile = config.forward
    kernel = kernels.forward if tile.columns >= D else kernels.forward_wide
    types = scalars | common | {"bias": pointer[parameter]}
    types |= {"x": pointer[x], "residual": pointer[s], "y": pointer[x]}
    constants = {"RMS": False, "D": D, "BM": tile.rows, "BN": tile.columns}
    forward = resources(compile_kernel(kernel, types, constants, tile, capability))
    forward["wanted"] = accesses(tile, x, s, parameter, parameter), accesses(tile, x, s)

    tile = config.backward
    kernel = kernels.backward if tile.columns >= D else kernels.backward_wide
    types = {k: v for k, v in (scalars | common).items() if k != "eps"}
    types |= {"dy": pointer[x], "dx": pointer[x], "dweight": pointer[statistics], "dbias": pointer[statistics]}
    types |= {"ds": pointer[s]} if full else {}
    types |= {"dresidual": pointer[s]} if full or x != s else {}
    constants = {"RMS": False, "D": D, "BM": tile.rows, "BN": tile.columns, "STAGES": tile.stages}
    backward = resources(compile_kernel(kernel, types, constants, tile, capability))
    read, written = [x, s, parameter] + [s] * full, [x] + [s] * (full or x != s)
    backward["wanted"] = accesses(tile, *read), accesses(tile, *written)
    return {"forward": (config.forward, forward), "backward": (config.backward, backward)}


def key(capability, D, dtypes, variant):
    return f"cc {capability / 10}, D {D}, {dtypes}, {variant}"


def figures(measured):
    return {name: [r["registers"], r["shared"]] for name, (_, r) in measured.items()}


CASES = [
    (capability, D, dtypes, variant)
    for capability, D, dtypes, variant in itertools.product(CAPABILITIES, FEATURES, DTYPES, VARIANTS)
    # Every width for Hopper; elsewhere, and in float64, which serves derivative checks, one of each kind of tile.
    if (capability == 90 and dtypes != "fp64") or D in (1000, 4096, 8192, 65536)
]


def table():
    return json.loads(TABLE.read_text())


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels cannot be compiled")
@pytest.mark.parametrize(("capability", "D", "dtypes"), sorted({case[:3] for case in CASES}))
def test_compiled_code(capability, D, dtypes):
    recorded = table()
    for variant in VARIANTS:
        if (capability, D, dtypes, variant) not in CASES:
            continue
        measured = measure(capability, D, dtypes, variant)
        for name, (tile, got) in measured.items():
            where = f"{name}, {key(capability, D, dtypes, variant)}, {tile}: {got}"
            assert got["stack"] == 0 and got["local"] == 0, where
            assert got["registers"] * tile.warps * 32 <= 65536, where
            assert got["shared"] <= SHARED_LIMIT[capability], where
            assert got["loads"] >= got["wanted"][0] and got["stores"] >= got["wanted"][1], where
        if recorded["triton"] == triton.__version__:
            assert figures(measured) == recorded["kernels"][key(capability, D, dtypes, variant)]


def test_the_table_has_every_case():
    assert list(table()["kernels"]) == [key(*case) for case in CASES]


# Stands in for a GPU's driver, so that `launch` runs up to the moment before a kernel would start.
HOPPER_THAT_ONLY_COMPILES = namespaces.SimpleNamespace(
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
    get_current_device=lambda: 0,
    get_current_stream=lambda device: 0,
)


@pytest.fixture
def launched(monkeypatch):
    """The kernels that `launch` compiled, in the order of its calls."""
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("interpreted kernels cannot be compiled")
    compiled, run = [], JITFunction.run

    def compile_only(self, *args, grid, warmup, **options):
        compiled.append(run(self, *args, grid=grid, warmup=True, **options))

    monkeypatch.setattr(JITFunction, "run", compile_only)
    monkeypatch.setattr(driver, "_active", HOPPER_THAT_ONLY_COMPILES)
    return compiled


def step(rows, D, dtypes=(torch.bfloat16, torch.bfloat16), norm="layer", alpha=1.0, dropout_p=0.0, pad=0, affine=True):
    """Forward and backward launches on tensors whose rows lie D + pad apart; nothing is computed."""
    from addnorm_lib.fused import launch

    x, residual = (torch.zeros(rows, D + pad, dtype=dtype)[:, :D] for dtype in dtypes)
    weight = torch.zeros(D) if affine else None
    seed = torch.zeros(2, dtype=torch.int64) if dropout_p else None
    y, s, mean, rstd = launch.forward(x, residual, weight, weight, seed, norm, 1e-5, alpha, dropout_p, x.dtype)
    parameters = torch.float32 if affine else None
    launch.backward(y, s, s, weight, mean, rstd, seed, norm, alpha, dropout_p, x.dtype, True, parameters, parameters)


def test_a_launch_binds_what_the_kernels_take(launched):
    step(6, 1024)
    assert [kernel.metadata.name for kernel in launched] == ["forward", "backward", "finalize"]
    assert all(resources(kernel)["stack"] == 0 for kernel in launched)
    assert resources(launched[0])["loads"] >= 2


@pytest.mark.parametrize(
    "options",
    [
        {"D": 1},
        {"D": 33},
        {"D": 1000, "pad": 3},
        {"D": 256, "pad": 16, "norm": "rms"},
        {"D": 512, "affine": False},
        {"D": 2048, "dropout_p": 0.1, "alpha": 2.0},
        {"D": 4096, "dtypes": (torch.float16, torch.float32), "norm": "rms", "dropout_p": 0.1},
        {"D": 20001, "norm": "rms"},
        {"D": 65536, "affine": False, "dropout_p": 0.1},
    ],
    ids=str,
)
def test_every_kind_of_launch_compiles(launched, options):
    step(5, **options)
    wide = options["D"] > 16384
    assert [k.metadata.name for k in launched][:2] == [
        "forward_wide" if wide else "forward",
        "backward_wide" if wide else "backward",
    ]
    assert all(resources(kernel)["stack"] == 0 for kernel in launched)


def test_neither_the_number_of_rows_nor_a_number_compiles_anew(launched):
    step(6, 96, dropout_p=0.1)
    before = list(launched)
    launched.clear()
    for rows, alpha, dropout_p in itertools.product((1, 16, 17), (1.0, 2.5), (0.1, 0.5, 1.0)):
        step(rows, 96, alpha=alpha, dropout_p=dropout_p)
    assert {id(kernel) for kernel in launched} == {id(kernel) for kernel in before}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    rows = {}
    for case in CASES:
        measured = measure(*case)
        rows[key(*case)] = figures(measured)
        for name, (tile, got) in measured.items():
            if got["stack"] or got["local"] or got["loads"] < got["wanted"][0] or got["stores"] < got["wanted"][1]:
                print(key(*case), name, tile, got)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    TABLE.write_text(f'{{"triton": "{triton.__version__}", "kernels": {{\n{lines}\n}}}}\n')

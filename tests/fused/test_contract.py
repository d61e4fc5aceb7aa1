"""Every promise of `addnorm_lib.fused.add_norm`, on one backend.

The environment chooses: the eager path, or with ADDNORM_TEST_BACKEND=triton the kernels, on a GPU or, with
TRITON_INTERPRET=1, in Triton's interpreter (`test_backends.py` starts those runs). Sizes are small for its sake.
"""

import itertools
import math
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.nn import functional as F

from addnorm_lib import add_norm, reference
from addnorm_lib.fused import eager

BACKEND = os.environ.get("ADDNORM_TEST_BACKEND", "eager")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if BACKEND == "triton" and not INTERPRETED else "cpu"
EXAMPLES = 150 if BACKEND == "eager" else 40
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
# x's dtype and residual's: the same, or a wider residual.
PAIRS = [(F32, F32), (BF16, BF16), (F16, F16), (BF16, F32), (F16, F32), (F64, F64), (F32, F64)]
NORMS = ["layer", "rms"]


def op(x, residual, weight=None, bias=None, **options):
    return add_norm(x, residual, weight, bias, backend=BACKEND, **options)


def randn(*shape, dtype=F32, grad=False, seed=None):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE, dtype).requires_grad_(grad)


def f64(t):
    return None if t is None else t.detach().cpu().double().numpy()


def formula(s, weight, bias, norm, eps):
    return (reference.layer_norm if norm == "layer" else reference.rms_norm)(f64(s), f64(weight), f64(bias), eps)


def formula_backward(dy, s, weight, norm, eps):
    """Gradients for s, weight, bias in float64."""
    if norm == "layer":
        return reference.layer_norm_backward(f64(dy), f64(s), f64(weight), eps)
    dy, s = f64(dy), f64(s)
    rstd = 1 / np.sqrt((s**2).mean(-1, keepdims=True) + eps)
    xhat, wdy = s * rstd, dy * (1.0 if weight is None else f64(weight))
    tokens = tuple(range(s.ndim - 1))
    dx = (wdy - xhat * (xhat * wdy).mean(-1, keepdims=True)) * rstd
    return reference.LayerNormGradients(dx, (dy * xhat).sum(tokens), dy.sum(tokens))


def torchs_own(x, residual, weight, bias, norm, eps):
    """What a user of torch writes; parameters in the sum's dtype, since torch takes no others everywhere."""
    s = x + residual
    weight, bias = (None if p is None else p.to(s.dtype) for p in (weight, bias))
    if norm == "layer":
        return F.layer_norm(s, s.shape[-1:], weight, bias, eps).to(x.dtype)
    y = F.rms_norm(s, s.shape[-1:], weight, eps)
    return (y if bias is None else y + bias).to(x.dtype)


def assert_as_close_as_torch(got, want, torchs, atol):
    """Twice torch's own error, plus `atol` in units of the largest value (of 1, where all are smaller)."""
    got, torchs = f64(got), f64(torchs)
    assert got.shape == want.shape
    if want.size:
        error, torchs_error = np.abs(got - want).max(), np.abs(torchs - want).max()
        assert error <= 2 * torchs_error + atol * max(np.abs(want).max(), 1.0), (error, torchs_error)


def unit(dtype):
    """One unit in the last place at 1. The interpreter's cast to bfloat16 truncates, which costs another one."""
    return torch.finfo(dtype).eps * (2 if INTERPRETED else 1) * (16 if dtype in (F32, F64) else 1)


@st.composite
def cases(draw):
    shape = draw(st.sampled_from([(1,), (5,), (1, 7), (3, 1), (2, 3), (4, 16), (2, 2, 33), (17, 8), (3, 100)]))
    x_dtype, r_dtype = draw(st.sampled_from(PAIRS))
    parameter = st.sampled_from([None, F16, BF16, F32, F64])
    if INTERPRETED and r_dtype is F64:  # it does not convert between bfloat16 and float64
        parameter = st.sampled_from([None, F16, F32, F64])
    return {
        "shape": shape,
        "dtypes": (x_dtype, r_dtype),
        "weight": draw(parameter),
        "bias": draw(parameter),
        "norm": draw(st.sampled_from(NORMS)),
        "eps": draw(st.sampled_from([1e-6, 1e-5, 0.1])),
        "alpha": draw(st.sampled_from([1.0, 0.5, 2.0])),  # powers of two: torch rounds alpha * residual, we do not
        "seed": draw(st.integers(0, 2**31)),
    }


def tensors(case):
    shape, (x_dtype, r_dtype), seed = case["shape"], case["dtypes"], case["seed"]
    x, residual = randn(*shape, dtype=x_dtype, seed=seed), randn(*shape, dtype=r_dtype, seed=seed + 1)
    weight, bias = (
        None if case[name] is None else randn(shape[-1], dtype=case[name], seed=seed + i)
        for i, name in enumerate(("weight", "bias"), start=2)
    )
    return x, residual, weight, bias


@settings(max_examples=EXAMPLES)
@given(cases())
def test_result_is_the_formula_in_float64(case):
    x, residual, weight, bias = tensors(case)
    norm, eps, alpha = case["norm"], case["eps"], case["alpha"]
    y, s = op(x, residual, weight, bias, norm=norm, eps=eps, alpha=alpha, return_sum=True)
    assert (y.shape, y.dtype, s.shape, s.dtype) == (x.shape, x.dtype, x.shape, residual.dtype)
    assert y.is_contiguous() and s.is_contiguous() and not y.requires_grad
    exact = reference.residual_sum(f64(residual), f64(x), alpha)
    np.testing.assert_allclose(f64(s), exact, rtol=unit(s.dtype), atol=1e-7 * unit(s.dtype))
    # A row of one feature, or nearly constant, amplifies torch's rounding of the parameters too; ours may not be worse.
    assert_as_close_as_torch(
        y, formula(s, weight, bias, norm, eps), torchs_own(x, alpha * residual, weight, bias, norm, eps), unit(x.dtype)
    )


@settings(max_examples=EXAMPLES)
@given(cases())
def test_gradients_are_the_formulas_in_float64(case):
    inputs = tensors(case)
    norm, eps, alpha = case["norm"], case["eps"], case["alpha"]
    for t in inputs:
        if t is not None:
            t.requires_grad_()
    x, residual, weight, bias = inputs
    wanting = [t for t in inputs if t is not None]
    dy, ds = randn(*x.shape, dtype=x.dtype, seed=9), randn(*x.shape, dtype=residual.dtype, seed=10)
    y, s = op(*inputs, norm=norm, eps=eps, alpha=alpha, return_sum=True)
    got = dict(zip(map(id, wanting), torch.autograd.grad((y, s), wanting, (dy, ds)), strict=True))
    own_s = x + alpha * residual
    own_y = torchs_own(x, alpha * residual, weight, bias, norm, eps)
    torchs = dict(zip(map(id, wanting), torch.autograd.grad((own_y, own_s), wanting, (dy, ds)), strict=True))
    want = formula_backward(dy, s, weight, norm, eps)
    dsum = want.x + f64(ds)
    rows = max(1, x.numel() // x.shape[-1])
    for t, expected, terms in (
        (x, dsum, 1),
        (residual, alpha * dsum, 1),
        (weight, want.weight, rows),
        (bias, want.bias, rows),
    ):
        if t is not None:
            assert (got[id(t)].dtype, got[id(t)].shape) == (t.dtype, t.shape)
            coarsest = max(unit(t.dtype), unit(x.dtype))
            assert_as_close_as_torch(got[id(t)], expected, torchs[id(t)], coarsest * math.sqrt(terms))


@pytest.mark.parametrize("norm", NORMS)
def test_float32_is_exact_to_float32(norm):
    x, residual, weight, bias = randn(6, 40), randn(6, 40), randn(40), randn(40)
    y, s = op(x, residual, weight, bias, norm=norm, return_sum=True)
    np.testing.assert_allclose(f64(y), formula(s, weight, bias, norm, 1e-5), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_statistics_are_those_of_the_rounded_sum(norm, dtype):
    x, residual = randn(8, 24, dtype=dtype), randn(8, 24, dtype=dtype) * 30
    y, s = op(x, residual, norm=norm, return_sum=True)
    assert torch.equal(y, op(s, torch.zeros_like(s), norm=norm))
    if not INTERPRETED:  # its cast truncates
        assert torch.equal(s, x + residual)


@pytest.mark.parametrize("norm", NORMS)
def test_a_wider_residual_keeps_its_precision(norm):
    x, residual = randn(4, 16, dtype=BF16, grad=True), randn(4, 16, grad=True)
    y, s = op(x, residual, norm=norm, return_sum=True)
    assert (y.dtype, s.dtype) == (BF16, F32)
    assert torch.equal(s, x.float() + residual)
    (y.float().sum() + (s * s).sum()).backward()
    assert (x.grad.dtype, residual.grad.dtype) == (BF16, F32)


@pytest.mark.parametrize("norm", NORMS)
def test_zero_variance_gives_beta(norm):
    bias = randn(48)
    for dtype, value in itertools.product((F16, F32), (0.0, 2000.3)):
        x = torch.full((3, 48), value, dtype=dtype, device=DEVICE).requires_grad_()
        for eps in (1e-12, 1e-5):
            y = op(x, torch.zeros_like(x), torch.ones(48, device=DEVICE), bias, norm=norm, eps=eps)
            if norm == "layer" or value == 0.0:
                assert torch.equal(y, bias.to(dtype).expand(3, 48)) or INTERPRETED
                torch.testing.assert_close(y, bias.to(dtype).expand(3, 48), rtol=1e-6, atol=1e-6)
            (gradient,) = torch.autograd.grad(y.float().pow(2).sum(), x)
            # In float16 a gradient of 1/sqrt(1e-12) overflows, as it should; it is not NaN in float32.
            assert dtype is F16 or gradient.isfinite().all()


@pytest.mark.parametrize("features", [16, 100])
def test_a_large_mean_costs_no_accuracy(features):
    x = (randn(6, features).double() + 2000).float()
    s = x + 0.0
    want = formula(s, None, None, "layer", 1e-5)
    np.testing.assert_allclose(f64(op(x, torch.zeros_like(x))), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("features", [1, 2, 3, 7, 9, 31, 33])
def test_features_that_are_no_power_of_two(norm, features):
    x, residual = randn(5, features) + 3, randn(5, features)
    y, s = op(x, residual, norm=norm, return_sum=True)
    np.testing.assert_allclose(f64(y), formula(s, None, None, norm, 1e-5), rtol=1e-4, atol=1e-4)


def test_alpha_scales_the_shortcut_and_its_gradient():
    x, residual = randn(3, 8, grad=True), randn(3, 8, grad=True)
    y, s = op(x, residual, alpha=2.5, return_sum=True)
    torch.testing.assert_close(s, 2.5 * residual + x)
    y.pow(3).sum().backward()
    torch.testing.assert_close(residual.grad, 2.5 * x.grad)


# Gradients: whose, through what


@pytest.mark.parametrize("wanted", [s for n in range(5) for s in itertools.combinations(range(4), n)])
def test_any_subset_may_require_grad(wanted):
    inputs = [randn(4, 9), randn(4, 9), randn(9), randn(9)]
    full = [t.clone().requires_grad_() for t in inputs]
    some = [t.clone().requires_grad_(i in wanted) for i, t in enumerate(inputs)]
    cotangent = randn(4, 9)
    everything = torch.autograd.grad(op(*full), full, cotangent)
    y = op(*some)
    assert y.requires_grad == bool(wanted)
    if wanted:
        got = torch.autograd.grad(y, [some[i] for i in wanted], cotangent)
        assert all(torch.equal(g, everything[i]) for g, i in zip(got, wanted, strict=True))


@pytest.mark.parametrize("options", [{}, {"alpha": 2.0}, {"dropout_p": 0.4}])
def test_gradients_through_y_s_both_or_neither(options):
    inputs = x, *_ = [randn(4, 12, grad=True), randn(4, 12, grad=True), randn(12, grad=True), randn(12, grad=True)]
    y, s = op(*inputs, return_sum=True, **options)
    dy, ds = randn(4, 12), randn(4, 12)

    def gradients(outputs, cotangents):
        return torch.autograd.grad(outputs, inputs, cotangents, retain_graph=True, allow_unused=True)

    both, through_y, through_s = gradients((y, s), (dy, ds)), gradients(y, dy), gradients(s, ds)
    assert all(g is not None for g in through_y)
    assert through_s[2] is None or not through_s[2].any()
    torch.testing.assert_close(both[0], through_y[0] + through_s[0])
    torch.testing.assert_close(both[1], through_y[1] + through_s[1])
    assert torch.equal(both[2], through_y[2]) and torch.equal(both[3], through_y[3])
    torch.testing.assert_close(through_s[1], options.get("alpha", 1.0) * ds)
    (neither,) = torch.autograd.grad((x * 2).sum(), [x])
    assert torch.equal(neither, torch.full_like(x, 2.0))


def test_incoming_gradients_and_inputs_stay_as_they_were():
    inputs = [randn(4, 12), randn(4, 12), randn(12), randn(12)]
    dy, ds = randn(4, 12), randn(4, 12)
    before = [t.clone() for t in (*inputs, dy, ds)]
    y, s = op(*[t.requires_grad_() for t in inputs], return_sum=True)
    torch.autograd.grad((y, s), inputs, (dy, ds))
    assert all(torch.equal(a.detach(), b) for a, b in zip((*inputs, dy, ds), before, strict=True))


def test_gradients_of_x_and_residual_do_not_share_memory():
    x, residual = randn(4, 8, grad=True), randn(4, 8, grad=True)
    op(x, residual).pow(3).sum().backward()
    assert torch.equal(x.grad, residual.grad)
    assert x.grad.data_ptr() != residual.grad.data_ptr()


def test_the_same_tensor_twice():
    x = randn(4, 8, grad=True)
    twice = x.detach().clone().requires_grad_()
    op(x, x).pow(3).sum().backward()
    op(twice, twice.clone()).pow(3).sum().backward()
    torch.testing.assert_close(x.grad, twice.grad)


def saved_bytes(run):
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = run()
    return sum(sizes.values()), result


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_grad_nothing_is_saved(context):
    inputs = [randn(4, 8, grad=True), randn(4, 8, grad=True), randn(8, grad=True), randn(8, grad=True)]
    expected = op(*inputs)
    with context():
        size, y = saved_bytes(lambda: op(*inputs))
    assert size == 0 and y.grad_fn is None and not y.requires_grad
    assert torch.equal(y, expected)


# Dropout


def test_dropout_scales_what_it_keeps_and_passes_gradients_through_the_same_mask():
    x, residual = randn(20, 50, grad=True), torch.zeros(20, 50, device=DEVICE, requires_grad=True)
    y, s = op(x, residual, dropout_p=0.3, return_sum=True)
    kept = s != 0
    torch.testing.assert_close(s, torch.where(kept, x / 0.7, 0.0))
    assert abs(kept.float().mean().item() - 0.7) < 5 * math.sqrt(0.3 * 0.7 / 1000)
    dx, dresidual = torch.autograd.grad((y, s), (x, residual), (randn(20, 50), randn(20, 50)))
    torch.testing.assert_close(dx, torch.where(kept, dresidual / 0.7, 0.0))
    torch.testing.assert_close(f64(y), formula(s, None, None, "layer", 1e-5), rtol=1e-4, atol=1e-5)


def test_dropouts_mask_follows_torchs_seed():
    x, residual = randn(4, 32), randn(4, 32)

    def draw(seed):
        torch.manual_seed(seed)
        return op(x, residual, dropout_p=0.5)

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert not torch.equal(op(x, residual, dropout_p=0.5), op(x, residual, dropout_p=0.5))


def test_every_backend_draws_the_eager_paths_mask():
    x, residual = randn(4, 32).abs() + 1, torch.zeros(4, 32, device=DEVICE)
    torch.manual_seed(5)
    _, s = op(x, residual, dropout_p=0.5, return_sum=True)
    torch.manual_seed(5)
    seed = torch.randint(2**32, (2,), device=DEVICE)
    assert torch.equal(s != 0, eager.keep_mask(x.shape, seed, 0.5))


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.9, False)])
def test_no_dropout(p, training):
    x, residual = randn(4, 8), randn(4, 8)
    state = torch.get_rng_state()
    assert torch.equal(op(x, residual, dropout_p=p, training=training), op(x, residual))
    assert torch.equal(state, torch.get_rng_state())


def test_dropping_everything_leaves_the_shortcut():
    x, residual = randn(4, 8, grad=True), randn(4, 8)
    y, s = op(x, residual, dropout_p=1.0, return_sum=True)
    assert torch.equal(s, residual) and torch.equal(y, op(torch.zeros_like(x), residual))
    assert not torch.autograd.grad(y.pow(3).sum(), x)[0].any()


def test_the_mask_is_not_stored():
    x, residual = randn(64, 64, grad=True), randn(64, 64, grad=True)
    plain, _ = saved_bytes(lambda: op(x, residual))
    dropped, _ = saved_bytes(lambda: op(x, residual, dropout_p=0.5))
    assert dropped - plain <= 64  # the seed; a mask would take 4096


def test_the_masks_bits_are_independent():
    keep = eager.keep_mask(torch.Size((512, 512)), torch.tensor([123, 456]), 0.5).double() * 2 - 1
    limit = 5 / math.sqrt(keep.numel())
    assert abs(keep.mean()) < limit
    for axis, lag in itertools.product((0, 1), (1, 2, 3, 32, 256)):
        assert abs((keep * keep.roll(lag, axis)).mean()) < limit
    between_rows = (keep @ keep.T / 512 - torch.eye(512)).abs().max()
    assert between_rows < 6.5 / math.sqrt(512)
    other = eager.keep_mask(torch.Size((512, 512)), torch.tensor([123, 457]), 0.5).double() * 2 - 1
    assert abs((keep * other).mean()) < limit


# Repeatability


@pytest.mark.parametrize("norm", NORMS)
def test_the_same_input_gives_the_same_bits_100_times(norm):
    inputs = [randn(9, 20, dtype=BF16, grad=True), randn(9, 20, dtype=BF16, grad=True), randn(20, grad=True),
              randn(20, grad=True)]  # fmt: skip
    dy = randn(9, 20, dtype=BF16)

    def run():
        y = op(*inputs, norm=norm)
        return [y.detach(), *torch.autograd.grad(y, inputs, dy)]

    first = run()
    for _ in range(99):
        assert all(torch.equal(a, b) for a, b in zip(first, run(), strict=True))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtypes", [(F32, F32), (BF16, BF16), (BF16, F32)])
@pytest.mark.parametrize("features", [1, 5, 16, 37, 512])
def test_a_rows_result_does_not_depend_on_the_other_rows(norm, dtypes, features):
    x, residual, dy = (randn(21, features, dtype=d) for d in (dtypes[0], dtypes[1], dtypes[0]))
    weight, bias = randn(features), randn(features)

    def run(rows):
        a, b = x[rows].requires_grad_(), residual[rows].requires_grad_()
        y, s = op(a, b, weight, bias, norm=norm, alpha=1.3, return_sum=True)
        return [y, s, *torch.autograd.grad(y, (a, b), dy[rows])]

    everything = run(slice(None))
    for rows in (slice(0, 1), slice(20, 21), slice(3, 10), slice(7, 8)):
        assert all(torch.equal(a, b[rows]) for a, b in zip(run(rows), everything, strict=True))


@pytest.mark.skipif(BACKEND != "eager", reason="the splitting of a lone row is torch's")
@pytest.mark.parametrize("norm", NORMS)
def test_a_lone_wide_row_is_not_split_between_threads(norm):
    x, residual = randn(16, 40000), randn(16, 40000)
    torch.set_num_threads(2)
    together = op(x, residual, norm=norm)
    alone = torch.stack([op(a, b, norm=norm) for a, b in zip(x, residual, strict=True)])
    assert torch.equal(alone, together)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_stay_in_their_row(norm, poison):
    x, residual = randn(9, 24), randn(9, 24)
    bad = x.clone()
    bad[4, 7] = poison
    results = []
    for values in (x, bad):
        a, b = values.clone().requires_grad_(), residual.clone().requires_grad_()
        y, s = op(a, b, norm=norm, return_sum=True)
        results.append([y, s, *torch.autograd.grad(y, (a, b), torch.ones_like(y) * x)])
    others = [i for i in range(9) if i != 4]
    for good, poisoned in zip(*results, strict=True):
        assert torch.equal(good[others], poisoned[others])
    y, s = results[1][:2]
    assert not s[4, 7].isfinite() and not y[4, 7].isfinite()
    if norm == "layer":
        assert y[4].isnan().all()


# Shapes and layouts


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 8), (0, 1)])
def test_empty_tensors(shape):
    inputs = [randn(*shape, grad=True), randn(*shape, grad=True), randn(shape[-1], grad=True),
              randn(shape[-1], grad=True)]  # fmt: skip
    for options in ({}, {"dropout_p": 0.5}, {"norm": "rms"}):
        y, s = op(*inputs, return_sum=True, **options)
        assert y.shape == s.shape == shape
        dx, _, dweight, dbias = torch.autograd.grad((y.sum() + s.sum()), inputs)
        assert dx.shape == shape and not dweight.any() and not dbias.any()


def layouts(rows, features):
    """Non-contiguous, expanded and offset (rows, features) tensors, each with its own values."""
    return {
        "transposed": randn(features, rows).T,
        "every second feature": randn(rows, 2 * features)[:, ::2],
        "every second row": randn(2 * rows, features)[::2],
        "part of wider rows": randn(rows, features + 3)[:, 2:-1],
        "offset": randn(rows * features + 1)[1:].view(rows, features),
        "one row, expanded": randn(features).expand(rows, features),
        "one feature, expanded": randn(rows, 1).expand(rows, features) * 1.0 if features == 1 else
        randn(rows, 1).expand(rows, features),
    }  # fmt: skip


@pytest.mark.parametrize("layout", list(layouts(1, 1)))
def test_strides_change_nothing(layout):
    x, residual, dy, ds = (layouts(6, 10)[layout] for _ in range(4))
    weight, bias = randn(10, 2)[:, 0], randn(1).expand(10)

    def run(*tensors):
        a, b, w, c = (t.detach().requires_grad_() for t in tensors[:4])
        y, s = op(a, b, w, c, return_sum=True)
        assert y.is_contiguous() and s.is_contiguous()
        return [y, s, *torch.autograd.grad((y, s), (a, b, w, c), tensors[4:])]

    strided = run(x, residual, weight, bias, dy, ds)
    dense = run(*(t.contiguous() for t in (x, residual, weight, bias, dy, ds)))
    assert all(torch.equal(a, b) for a, b in zip(strided, dense, strict=True))


def test_leading_dimensions_are_rows():
    x, residual = randn(2, 3, 4, 8), randn(2, 3, 4, 8)
    assert torch.equal(op(x, residual), op(x.view(24, 8), residual.view(24, 8)).view(2, 3, 4, 8))
    permuted = op(x.transpose(1, 2), residual.transpose(1, 2))
    assert torch.equal(permuted, op(x, residual).transpose(1, 2))
    assert torch.equal(op(x[0, 0, 0], residual[0, 0, 0]), op(x, residual)[0, 0, 0])


def test_offsets_beyond_two_to_the_31():
    # 4 GiB of address space, of which 2050 pages are touched.
    rows, features, stride = 2050, 8, 2**20
    x = torch.empty((rows - 1) * stride + features, dtype=F16, device=DEVICE).as_strided((rows, features), (stride, 1))
    values = randn(rows, features, dtype=F16)
    x.copy_(values)
    y, s = op(x, torch.zeros_like(values), return_sum=True)
    assert torch.equal(s, values)
    assert torch.equal(y, op(values, torch.zeros_like(values)))


# Derivatives beyond the first, transforms, compilation


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("options", [{}, {"alpha": 1.5}, {"dropout_p": 0.5}])
@pytest.mark.parametrize("affine", [True, False])
def test_first_and_second_derivatives(norm, options, affine):
    inputs = [randn(2, 4, dtype=F64, grad=True) for _ in range(2)]
    inputs += [randn(4, dtype=F64, grad=True) for _ in range(2 if affine else 0)]

    def run(*args):
        torch.manual_seed(3)
        return op(*args, norm=norm, return_sum=True, **options)

    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


def test_second_derivative_with_some_inputs_fixed():
    x, residual, weight = randn(2, 4, dtype=F64, grad=True), randn(2, 4, dtype=F64), randn(4, dtype=F64)
    assert torch.autograd.gradgradcheck(lambda x: op(x, residual, weight), [x])
    weight.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda w: op(x.detach(), residual, w), [weight])


def test_forward_mode():
    inputs = [randn(3, 5, dtype=F64), randn(3, 5, dtype=F64), randn(5, dtype=F64), randn(5, dtype=F64)]
    tangents = [torch.randn_like(t) for t in inputs]
    for options in ({}, {"norm": "rms"}, {"dropout_p": 0.5}):

        def run(*args, options=options):
            torch.manual_seed(3)
            return op(*args, return_sum=True, **options)

        step = 1e-6
        above, below = (run(*(t + h * d for t, d in zip(inputs, tangents, strict=True))) for h in (step, -step))
        numeric = [(a - b) / (2 * step) for a, b in zip(above, below, strict=True)]
        _, through_func = torch.func.jvp(run, tuple(inputs), tuple(tangents))
        with forward_ad.dual_level():
            duals = run(*(forward_ad.make_dual(t, d) for t, d in zip(inputs, tangents, strict=True)))
            through_duals = [forward_ad.unpack_dual(t).tangent for t in duals]
        for a, b, want in zip(through_func, through_duals, numeric, strict=True):
            torch.testing.assert_close(a, want, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(b, want, rtol=1e-5, atol=1e-6)


def test_vmap():
    x, residual, weight, bias = randn(3, 4, 8), randn(4, 8), randn(3, 8), randn(8)
    got = torch.vmap(op, in_dims=(0, None, 0, None))(x, residual, weight, bias)
    want = torch.stack([op(x[i], residual, weight[i], bias) for i in range(3)])
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert torch.equal(torch.vmap(op, in_dims=1, out_dims=1)(x, x), op(x, x)) or INTERPRETED or DEVICE == "cuda"


def test_vmap_and_dropout_follow_torchs_randomness_rules():
    x = randn(3, 40).abs() + 1

    def run(row):
        return op(row, torch.zeros_like(row), dropout_p=0.5, return_sum=True)[1] != 0

    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(run)(x)
    same = torch.vmap(run, randomness="same")(x)
    assert torch.equal(same[0], same[1])
    different = torch.vmap(run, randomness="different")(x)
    assert not torch.equal(different[0], different[1])


def test_func_grad_and_per_sample_gradients():
    x, residual, weight = randn(5, 3, 8), randn(5, 3, 8), randn(8)

    def loss(weight, x, residual):
        return op(x, residual, weight).pow(3).sum()

    per_sample = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weight, x, residual)
    whole = weight.clone().requires_grad_()
    loss(whole, x, residual).backward()
    torch.testing.assert_close(per_sample.sum(0), whole.grad, rtol=1e-4, atol=1e-4)
    hessian = torch.func.hessian(loss)(weight, x, residual)
    torch.testing.assert_close(hessian, hessian.T)


@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "options", [{}, {"norm": "rms", "alpha": 2.0}, {"dropout_p": 0.5}], ids=["layer", "rms", "dropout"]
)
def test_compiles_without_a_graph_break_and_gives_the_same(compiler, options):
    torch._dynamo.reset()
    compiled = torch.compile(lambda *args: op(*args, return_sum=True, **options), backend=compiler, fullgraph=True)
    for rows in (4, 6):
        inputs = [randn(rows, 12, dtype=BF16, grad=True), randn(rows, 12, grad=True), randn(12, grad=True),
                  randn(12, grad=True)]  # fmt: skip
        cotangents = randn(rows, 12, dtype=BF16), randn(rows, 12)
        results = []
        for run in (compiled, lambda *args: op(*args, return_sum=True, **options)):
            torch.manual_seed(1)
            y, s = run(*inputs)
            results.append([y, s, *torch.autograd.grad((y, s), inputs, cotangents)])
        for got, want in zip(*results, strict=True):
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want, rtol=1e-2 if got.dtype is BF16 else 1e-4, atol=1e-2)


def test_compiled_inference_and_partial_gradients():
    torch._dynamo.reset()
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    x, residual, weight = randn(4, 8), randn(4, 8), randn(8, grad=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, residual, weight), op(x, residual, weight))
    (got,) = torch.autograd.grad(compiled(x, residual, weight).pow(2).sum(), weight)
    (want,) = torch.autograd.grad(op(x, residual, weight).pow(2).sum(), weight)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtypes", [(F32, F32), (BF16, BF16), (BF16, F32), (F32, BF16)])
def test_autocast_gives_torchs_dtypes(dtypes, compiled):
    torch._dynamo.reset()
    x, residual, weight = randn(4, 8, dtype=dtypes[0], grad=True), randn(4, 8, dtype=dtypes[1]), randn(8, grad=True)
    run = torch.compile(op, backend="aot_eager", fullgraph=True) if compiled else op
    with torch.autocast(DEVICE, dtype=BF16):
        own_s = x + residual
        y, s = run(x, residual, weight, return_sum=True)
        # torch's layer_norm keeps the sum's dtype on a CPU and is float32 on a GPU; y keeps x's where it has a choice.
        expected = F.layer_norm(own_s, (8,)).dtype if DEVICE == "cuda" else x.dtype
    assert (y.dtype, s.dtype) == (expected, own_s.dtype)
    y.float().sum().backward()
    assert (x.grad.dtype, weight.grad.dtype) == (x.dtype, F32)
    np.testing.assert_allclose(f64(y), formula(s, weight, None, "layer", 1e-5), rtol=2e-2, atol=2e-2)


# Bad input


GOOD = {"x": (2, 4), "residual": (2, 4), "weight": (4,), "bias": (4,)}
BAD = [
    ({"residual": torch.zeros(1, 4)}, ValueError, r"residual: .*\(2, 4\).*\(1, 4\)"),
    ({"residual": torch.zeros(4)}, ValueError, r"residual: .*\(2, 4\).*\(4,\)"),
    ({"residual": torch.zeros(2, 4, device="meta")}, ValueError, r"residual: .*(cpu|cuda).*meta"),
    ({"residual": torch.zeros(2, 4, dtype=BF16)}, TypeError, r"residual: .*float32.*wider.*bfloat16"),
    (
        {"x": torch.zeros(2, 4, dtype=BF16), "residual": torch.zeros(2, 4, dtype=F16)},
        TypeError,
        r"residual: .*bfloat16",
    ),
    ({"x": torch.zeros(2, 4, dtype=torch.int64)}, TypeError, r"x: .*float32.*int64"),
    ({"x": torch.zeros(2, 4, dtype=torch.bool)}, TypeError, r"x: .*bool"),
    ({"x": torch.zeros(2, 4, dtype=torch.complex64)}, TypeError, r"x: .*complex64"),
    ({"x": torch.zeros(2, 4).to_sparse()}, TypeError, r"x: a dense tensor wanted, got torch.sparse_coo"),
    ({"x": torch.nested.nested_tensor([torch.zeros(4)])}, TypeError, r"x: a dense tensor wanted, got nested"),
    ({"x": [[0.0] * 4] * 2}, TypeError, r"x: a torch.Tensor wanted, got list"),
    ({"residual": None}, TypeError, r"residual: a torch.Tensor wanted, got NoneType"),
    ({"residual": np.zeros((2, 4))}, TypeError, r"residual: a torch.Tensor wanted, got ndarray"),
    ({"x": torch.zeros(())}, ValueError, r"x: shape \(\.\.\., D\).*got \(\)"),
    ({"x": torch.zeros(3, 0)}, ValueError, r"x: shape \(\.\.\., D\).*got \(3, 0\)"),
    ({"weight": torch.zeros(2)}, ValueError, r"weight: .*\(4,\).*\(2,\)"),
    ({"weight": torch.zeros(2, 4)}, ValueError, r"weight: .*\(4,\).*\(2, 4\)"),
    ({"weight": torch.zeros(())}, ValueError, r"weight: .*\(4,\).*\(\)"),
    ({"weight": torch.zeros(4, dtype=torch.int32)}, TypeError, r"weight: .*int32"),
    ({"weight": 2.0}, TypeError, r"weight: .*float"),
    ({"weight": torch.zeros(4, device="meta")}, ValueError, r"weight: .*meta"),
    ({"bias": torch.zeros(5)}, ValueError, r"bias: .*\(4,\).*\(5,\)"),
    ({"bias": torch.zeros(4, dtype=torch.int32)}, TypeError, r"bias: .*int32"),
    ({"bias": torch.zeros(4, device="meta")}, ValueError, r"bias: .*meta"),
    ({"norm": "batch"}, ValueError, r"norm: 'layer' or 'rms' wanted, got 'batch'"),
    ({"backend": "cuda"}, ValueError, r"backend: .*got 'cuda'"),
    ({"eps": 0.0}, ValueError, r"eps: .*got 0.0"),
    ({"eps": -1e-5}, ValueError, r"eps: .*got -1e-05"),
    ({"eps": 1e-50}, ValueError, r"eps: .*got 1e-50"),
    ({"eps": math.nan}, ValueError, r"eps: .*nan"),
    ({"eps": math.inf}, ValueError, r"eps: .*inf"),
    ({"eps": None}, TypeError, r"eps: a number wanted, got NoneType"),
    ({"eps": torch.tensor(1e-5)}, TypeError, r"eps: a number wanted, got Tensor"),
    ({"alpha": math.nan}, ValueError, r"alpha: .*nan"),
    ({"alpha": math.inf}, ValueError, r"alpha: .*inf"),
    ({"alpha": "1"}, TypeError, r"alpha: a number wanted, got str"),
    ({"alpha": True}, TypeError, r"alpha: a number wanted, got bool"),
    ({"dropout_p": -0.1}, ValueError, r"dropout_p: .*-0.1"),
    ({"dropout_p": 1.1}, ValueError, r"dropout_p: .*1.1"),
    ({"dropout_p": math.nan}, ValueError, r"dropout_p: .*nan"),
    ({"dropout_p": None}, TypeError, r"dropout_p: a number wanted, got NoneType"),
]


def on_device(value):
    return value.to(DEVICE) if isinstance(value, torch.Tensor) and value.device.type == "cpu" else value


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named(change, error, message):
    arguments = {name: torch.zeros(*shape, device=DEVICE) for name, shape in GOOD.items()}
    arguments |= {"backend": BACKEND} | {name: on_device(value) for name, value in change.items()}
    state = torch.get_rng_state()
    with pytest.raises(error, match=message):
        add_norm(**arguments)
    assert torch.equal(state, torch.get_rng_state())


def test_whole_numbers_are_numbers():
    x, residual = randn(3, 8), randn(3, 8)
    assert torch.equal(op(x, residual, eps=1, alpha=2), op(x, residual, eps=1.0, alpha=2.0))


def test_a_tensor_without_data_has_a_result_without_data():
    if BACKEND == "triton":
        pytest.skip("a meta tensor has no device to run kernels on")
    x = torch.empty(3, 8, device="meta")
    y, s = op(x, x, norm="rms", return_sum=True)
    assert y.device.type == s.device.type == "meta" and y.shape == (3, 8)

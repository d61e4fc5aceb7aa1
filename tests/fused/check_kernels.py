"""The launchers, apart from autograd, on a GPU or in Triton's interpreter; `test_backends.py` starts this file."""

import itertools
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from addnorm_lib import add_norm, reference
from addnorm_lib.fused import eager, launch
from addnorm_lib.fused.shapes import Config, Tile, choose_config, count_programs

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
NORMS = ["layer", "rms"]
needs_gpu = pytest.mark.skipif(INTERPRETED, reason="needs a CUDA device")


def randn(*shape, dtype=F32):
    return torch.randn(*shape).to(DEVICE, dtype)


def f64(t):
    return t.detach().cpu().double().numpy()


def gradients64(norm, dy, s, weight, eps=1e-5):
    """Return torch's float64 gradients of s and weight through the formula; bias's is dy's sum."""
    s, weight = s.detach().cpu().double().requires_grad_(), weight.detach().cpu().double().requires_grad_()
    y = eager.normalise(s, weight, None, norm, eps)
    return torch.autograd.grad(y, (s, weight), dy.detach().cpu().double())


@pytest.fixture
def chunked(monkeypatch):
    """Small tiles: chunks of 8 columns, as rows that no register file holds are processed."""
    config = Config(Tile(2, 8, 1), Tile(4, 8, 1, stages=2), programs_per_sm=1, finalize=Tile(4, 8, 1))
    monkeypatch.setattr(launch, "choose_config", lambda *_, **__: config)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("features", [9, 16, 37, 64])
def test_chunked_rows_are_the_formula(chunked, norm, rows, features):
    x, residual, dy, ds = (randn(rows, features) for _ in range(4))
    weight, bias = randn(features), randn(features)
    y, s, mean, rstd = launch.forward(x, residual, weight, bias, None, norm, 1e-5, 1.5, 0.0, F32)
    np.testing.assert_allclose(f64(s), reference.residual_sum(f64(residual), f64(x), 1.5), rtol=1e-6, atol=1e-6)
    formula = reference.layer_norm if norm == "layer" else reference.rms_norm
    np.testing.assert_allclose(f64(y), formula(f64(s), f64(weight), f64(bias)), rtol=1e-4, atol=1e-5)
    if norm == "layer":
        np.testing.assert_allclose(f64(mean), f64(s).mean(-1), rtol=1e-5, atol=1e-6)
    dx, dresidual, dweight, dbias = launch.backward(
        dy, ds, s, weight, mean, rstd, None, norm, 1.5, 0.0, F32, True, F32, F32
    )
    want_s, want_weight = gradients64(norm, dy, s, weight)
    np.testing.assert_allclose(f64(dx), f64(want_s) + f64(ds), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(f64(dresidual), 1.5 * (f64(want_s) + f64(ds)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(f64(dweight), f64(want_weight), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(f64(dbias), f64(dy).sum(0), rtol=1e-4, atol=1e-5)


def test_chunked_rows_keep_the_promises(chunked):
    features = 37
    x, dy, weight = randn(9, features), randn(9, features), randn(features)

    def run(x, dy, residual=None):
        residual = torch.zeros_like(x) if residual is None else residual
        y, s, mean, rstd = launch.forward(x, residual, weight, None, None, "layer", 1e-5, 1.0, 0.0, F32)
        return y, s, *launch.backward(dy, None, s, weight, mean, rstd, None, "layer", 1.0, 0.0, F32, True, F32)

    everything = run(x, dy)
    alone = run(x[4:5].clone(), dy[4:5].clone())
    assert all(torch.equal(a, b[4:5]) for a, b in zip(alone[:3], everything[:3], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(everything[:5], run(x, dy)[:5], strict=True))
    poisoned = x.clone()
    poisoned[4, 20] = float("nan")
    others = [i for i in range(9) if i != 4]
    assert all(torch.equal(a[others], b[others]) for a, b in zip(run(poisoned, dy)[:3], everything[:3], strict=True))
    far = (x.double() + 2000).float()
    np.testing.assert_allclose(f64(run(far, dy)[0]), reference.layer_norm(f64(far), f64(weight)), rtol=1e-3, atol=1e-3)


def test_chunked_rows_draw_the_same_mask(chunked):
    x, residual = randn(5, 37).abs() + 1, torch.zeros(5, 37, device=DEVICE)
    seed = torch.tensor([2**32 - 5, 7], device=DEVICE)
    _, s, mean, rstd = launch.forward(x, residual, None, None, seed, "layer", 1e-5, 1.0, 0.4, F32)
    kept = eager.keep_mask(x.shape, seed, 0.4)
    torch.testing.assert_close(s, torch.where(kept, x / 0.6, 0.0))
    dx, dresidual, *_ = launch.backward(randn(5, 37), None, s, None, mean, rstd, seed, "layer", 1.0, 0.4, F32)
    torch.testing.assert_close(dx, torch.where(kept, dresidual / 0.6, 0.0))


@pytest.mark.parametrize("features", [16385, 20000])
def test_rows_wide_enough_to_be_chunked(features):
    x, residual, dy, weight = randn(2, features), randn(2, features), randn(2, features), randn(features)
    config = choose_config(features, F32)
    assert config.forward.columns < features and config.backward.columns < features
    leaves = [t.requires_grad_() for t in (x, residual, weight)]
    y, s = add_norm(x, residual, weight, backend="triton", return_sum=True)
    np.testing.assert_allclose(f64(y), reference.layer_norm(f64(s), f64(weight)), rtol=1e-4, atol=1e-5)
    dx, dresidual, dweight = torch.autograd.grad(y, leaves, dy)
    want_s, want_weight = gradients64("layer", dy, s, weight)
    np.testing.assert_allclose(f64(dx), f64(want_s), rtol=1e-3, atol=1e-5)
    assert torch.equal(dx, dresidual)
    np.testing.assert_allclose(f64(dweight), f64(want_weight), rtol=1e-3, atol=1e-5)


def test_constant_wide_rows_have_no_variance():
    x = (torch.rand(20, 1, device=DEVICE) * 3000).expand(20, 20000)
    assert not add_norm(x, torch.zeros_like(x), eps=1e-12, backend="triton").any()


@pytest.mark.parametrize(("rows", "features", "programs"), [(301, 40, 1), (301, 40, 2), (301, 40, 5), (75, 300, 70)])
def test_any_number_of_programs_gives_the_gradients_of_the_parameters(rows, features, programs):
    s, dy, weight = randn(rows, features), randn(rows, features), randn(features)
    _, _, mean, rstd = launch.forward(s, torch.zeros_like(s), weight, None, None, "layer", 1e-5, 1.0, 0.0, F32)
    dx, _, dweight, dbias = launch.backward(
        dy, None, s, weight, mean, rstd, None, "layer", 1.0, 0.0, F32, True, F32, F32, programs=programs
    )
    want_s, want_weight = gradients64("layer", dy, s, weight)
    np.testing.assert_allclose(f64(dx), f64(want_s), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(f64(dweight), f64(want_weight), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(f64(dbias), f64(dy).sum(0), rtol=1e-4, atol=1e-4)


def test_gradients_are_one_buffer_where_they_are_equal():
    s, dy = randn(4, 16), randn(4, 16)
    _, _, mean, rstd = launch.forward(s, torch.zeros_like(s), None, None, None, "layer", 1e-5, 1.0, 0.0, F32)
    seed = torch.tensor([1, 2], device=DEVICE)

    def run(alpha=1.0, p=0.0, x_dtype=F32):
        return launch.backward(dy, None, s, None, mean, rstd, seed if p else None, "layer", alpha, p, x_dtype)

    dx, dresidual, *_ = run()
    assert dx is dresidual
    for options in ({"alpha": 2.0}, {"p": 0.5}, {"x_dtype": BF16}):
        dx, dresidual, *_ = run(**options)
        assert dx.data_ptr() != dresidual.data_ptr()
    assert run(x_dtype=None)[0] is None and run(x_dtype=None)[1] is not None


def test_what_is_not_wanted_is_not_allocated():
    x, residual = randn(4, 16), randn(4, 16)
    y, s, mean, rstd = launch.forward(
        x, residual, None, None, None, "layer", 1e-5, 1.0, 0.0, F32, keep_sum=False, keep_statistics=False
    )
    assert y is not None and s is mean is rstd is None
    assert launch.forward(x, residual, None, None, None, "rms", 1e-5, 1.0, 0.0, F32)[2] is None


@settings(max_examples=200)
@given(st.integers(1, 65536), st.sampled_from([F16, BF16, F32, F64]), st.booleans())
def test_tiles_fit_the_machine(D, dtype, two_gradients):
    config = choose_config(D, dtype, two_gradients)
    for tile in (config.forward, config.backward, config.finalize):
        assert all(n & (n - 1) == 0 and n > 0 for n in (tile.rows, tile.columns, tile.warps))
        assert tile.warps <= 32
        assert tile.rows * tile.columns <= 32 * tile.warps * 16
    for tile in (config.forward, config.backward):
        assert tile.columns < 2 * D  # no more padding than a power of two needs
    assert config.backward.warps * config.programs_per_sm == 16  # a multiprocessor's registers, at 128 a thread


@settings(max_examples=200)
@given(st.integers(1, 10**6), st.integers(1, 65536), st.integers(1, 200))
def test_programs_share_the_rows(M, D, multiprocessors):
    config = choose_config(D, BF16)
    programs = count_programs(M, config, multiprocessors)
    tiles = -(-M // config.backward.rows)
    assert 1 <= programs <= min(tiles, multiprocessors * config.programs_per_sm)
    assert programs >= min(tiles, multiprocessors)


def test_a_row_too_wide_is_refused_or_goes_the_eager_way():
    x = torch.zeros(1, 65537, device=DEVICE)
    with pytest.raises(ValueError, match=r"backend: .*65536.*65537"):
        add_norm(x, x, backend="triton")
    assert not add_norm(x, x).any()


# What only a GPU can show


@needs_gpu
def test_auto_takes_the_kernels(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the eager path ran")

    x = randn(4, 64).requires_grad_()
    with monkeypatch.context() as patch:
        patch.setattr(eager, "normalise", refuse)
        add_norm(x, x).sum().backward()


@needs_gpu
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("features", [1, 33, 768, 1000, 4096, 8192, 16384, 32768])
@pytest.mark.parametrize("dtypes", [(BF16, BF16), (BF16, F32), (F32, F32), (F16, F16)])
def test_real_sizes(norm, features, dtypes):
    rows = 67
    x, residual = randn(rows, features, dtype=dtypes[0]), randn(rows, features, dtype=dtypes[1])
    weight, bias, dy = randn(features), randn(features), randn(rows, features, dtype=dtypes[0])
    leaves = [t.requires_grad_() for t in (x, residual, weight, bias)]
    results = []
    for backend in ("triton", "eager"):
        y, s = add_norm(*leaves, norm=norm, return_sum=True, backend=backend)
        results.append([y, s, *torch.autograd.grad(y, leaves, dy)])
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtypes[0] is F32 else {"rtol": 2e-2, "atol": 5e-2}
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got.float(), want.float(), **tolerance)


@needs_gpu
def test_more_than_two_to_the_31_elements():
    rows, features = 2**21 + 1, 1024
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    x = torch.randn(rows, features, device=DEVICE, dtype=BF16)
    y = add_norm(x, x, backend="triton")
    assert torch.equal(y[-3:], add_norm(x[-3:], x[-3:], backend="triton"))


@needs_gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_device_that_is_not_the_current_one():
    x = torch.randn(4, 64, device="cuda:1", requires_grad=True)
    y = add_norm(x, x, backend="triton")
    torch.testing.assert_close(y, add_norm(x, x, backend="eager"))
    y.pow(3).sum().backward()
    assert x.grad.device == x.device and torch.cuda.current_device() == 0


@needs_gpu
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_a_cuda_graph_replays_forward_and_backward(p):
    x, residual, weight = (randn(*shape).requires_grad_() for shape in ((64, 512), (64, 512), (512,)))
    dy = randn(64, 512)

    def run():
        y, s = add_norm(x, residual, weight, dropout_p=p, return_sum=True, backend="triton")
        return [y, s, *torch.autograd.grad(y, (x, residual, weight), dy)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    with torch.no_grad():
        x.copy_(randn(64, 512))
    graph.replay()
    if p == 0.0:
        assert all(torch.equal(a, b) for a, b in zip(captured, run(), strict=True))
    else:
        first = captured[1].clone()
        graph.replay()
        assert not torch.equal(first, captured[1])


@needs_gpu
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_inductor_compiles_it(p):
    inputs = [randn(64, 512).requires_grad_(), randn(64, 512).requires_grad_(), randn(512).requires_grad_()]

    def run(*args):
        return add_norm(*args, dropout_p=p, training=p > 0) * 2

    compiled = torch.compile(run, fullgraph=True)
    y = compiled(*inputs)
    gradients = torch.autograd.grad(y.pow(2).sum(), inputs)
    assert all(g.isfinite().all() for g in gradients)
    if p == 0.0:
        torch.testing.assert_close(y, run(*inputs))
        for got, want in zip(gradients, torch.autograd.grad(run(*inputs).pow(2).sum(), inputs), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


@needs_gpu
def test_rows_of_many_lengths_compile_once():
    from addnorm_lib.fused import kernels

    def compiled():
        return sum(len(cache[0]) for cache in kernels.forward.device_caches.values())

    add_norm(randn(2, 96), randn(2, 96), backend="triton")
    before = compiled()
    for rows, _ in itertools.product((1, 3, 16, 33), range(2)):
        add_norm(randn(rows, 96), randn(rows, 96), backend="triton")
    assert compiled() == before

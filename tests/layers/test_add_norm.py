"""AddNorm against the formulas in float64, its dropout, its gradients, and bad input."""

import itertools
from typing import get_args

import numpy as np
import pytest
import torch

from addnorm_lib import reference
from addnorm_lib.layers import AddNorm, Norm, Placement

PLACEMENTS, NORMS = get_args(Placement), get_args(Norm)
EACH = pytest.mark.parametrize(("placement", "norm"), list(itertools.product(PLACEMENTS, NORMS)))
D = 6


def block(placement="post", norm="layer", **options):
    """Return a float64 block whose norms have weights and biases of their own."""
    module = AddNorm(D, placement, norm, **options).double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.randn(D, generator=torch.Generator().manual_seed(i), dtype=torch.float64))
    return module


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHT = normal(D, D, seed=9)


def sublayer(z):
    return torch.tanh(z @ WEIGHT.T)


def formula(module, x, keep=1.0):
    """Return y as the docstring's equation has it; `keep` multiplies what the branch adds (0 where all is dropped)."""
    functions = {"layer": reference.layer_norm, "rms": reference.rms_norm}

    def normalised(inner, z):
        parameters = [p.detach().numpy() for p in inner.parameters()]
        return functions[module.norm_kind](z, *parameters, eps=module.eps)

    def branch(z):
        return np.tanh(z @ WEIGHT.numpy().T)

    x, alpha = x.numpy(), module.alpha
    if module.placement == "post":
        return normalised(module.norm, alpha * x + keep * branch(x))
    if module.placement == "pre":
        return alpha * x + keep * branch(normalised(module.norm, x))
    if module.placement == "sandwich":
        return alpha * x + keep * normalised(module.outer_norm, branch(normalised(module.norm, x)))
    return alpha * x + keep * normalised(module.norm, branch(x))


@EACH
@pytest.mark.parametrize("alpha", [1.0, 2.5, 0.0])
@pytest.mark.parametrize("shape", [(D,), (3, D), (2, 3, D)])
def test_the_block_is_its_formula(placement, norm, alpha, shape):
    module = block(placement, norm, alpha=alpha, eps=1e-3)
    x = normal(*shape, seed=1)
    np.testing.assert_allclose(module(x, sublayer).detach(), formula(module, x), rtol=1e-10, atol=1e-10)


@EACH
def test_dropout_of_everything_leaves_the_shortcut(placement, norm):
    # Dropout acts on the branch: pre, sandwich and branch give alpha·x, post gives the norm of alpha·x.
    module = block(placement, norm, dropout=1.0, alpha=2.0)
    x = normal(4, D)
    np.testing.assert_allclose(module(x, sublayer).detach(), formula(module, x, keep=0.0), rtol=1e-10, atol=1e-10)
    if placement != "post":
        assert torch.equal(module(x, sublayer), 2 * x)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("placement", ["pre", "sandwich", "branch"])  # post's norm hides which elements were dropped
def test_dropout_drops_elements_of_the_branch_and_scales_the_kept(placement, norm):
    module = block(placement, norm, dropout=0.25)
    x = normal(2000, D)
    added = module(x, sublayer).detach() - x
    whole = torch.from_numpy(formula(module, x)) - x
    dropped = (added.abs() < 1e-12) & (whole.abs() > 1e-9)
    torch.testing.assert_close(added[~dropped], whole[~dropped] / 0.75, rtol=1e-9, atol=1e-9)
    # 12 000 draws: the standard error of the rate is 0.004, and five of them are allowed.
    assert dropped.double().mean().item() == pytest.approx(0.25, abs=0.02)


@EACH
def test_evaluation_mode_drops_nothing(placement, norm):
    module = block(placement, norm, dropout=0.9).eval()
    x = normal(4, D)
    np.testing.assert_allclose(module(x, sublayer).detach(), formula(module, x), rtol=1e-10, atol=1e-10)


@EACH
def test_gradients_are_the_finite_differences(placement, norm):
    module = block(placement, norm, alpha=1.5, eps=1e-2)
    names = [name for name, _parameter in module.named_parameters()]

    def run(x, *parameters):
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x, sublayer))

    inputs = [normal(3, D).requires_grad_(), *(p.detach().clone().requires_grad_() for p in module.parameters())]
    assert torch.autograd.gradcheck(run, inputs)


def test_only_a_sandwich_has_two_norms():
    counts = {p: sum(isinstance(m, torch.nn.LayerNorm) for m in block(p).modules()) for p in PLACEMENTS}
    assert counts == {"post": 1, "pre": 1, "sandwich": 2, "branch": 1}
    assert "placement='pre', dropout=0.1, alpha=2.0" in repr(AddNorm(4, "pre", dropout=0.1, alpha=2.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: AddNorm(0), "d_model: a whole number of at least 1 wanted, got 0"),
        (lambda: AddNorm(True), "d_model: .* got True"),
        (lambda: AddNorm(4.0), r"d_model: .* got 4\.0"),
        (lambda: AddNorm(4, "before"), "placement: one of post, pre, sandwich, branch wanted, got 'before'"),
        (lambda: AddNorm(4, norm="batch"), "norm: one of layer, rms wanted, got 'batch'"),
        (lambda: AddNorm(4, dropout=1.5), "dropout: a probability from 0 to 1 wanted, got 1.5"),
        (lambda: AddNorm(4, dropout=float("nan")), "dropout: .* got nan"),
        (lambda: AddNorm(4, dropout="0.1"), "dropout: a probability from 0 to 1 wanted, got '0.1'"),
        (lambda: AddNorm(4, dropout=True), "dropout: .* got True"),
        (lambda: AddNorm(4, alpha=float("nan")), "alpha: a finite number wanted, got nan"),
        (lambda: AddNorm(4, alpha=float("inf")), "alpha: .* got inf"),
        (lambda: AddNorm(4, alpha="2"), "alpha: .* got '2'"),
        (lambda: AddNorm(4, alpha=torch.tensor(2.0)), r"alpha: .* got tensor\(2"),
        (lambda: AddNorm(4, bias=0), "bias: True or False wanted, got 0"),
        (lambda: AddNorm(4, eps=float("inf")), "eps: a positive number wanted, got inf"),
        (lambda: AddNorm(4, eps=None), "eps: .* got None"),
        (lambda: AddNorm(4, eps=0.0), "eps: a positive number wanted, got 0.0"),
        (lambda: AddNorm(4, eps=float("nan")), "eps: .* got nan"),
        (lambda: AddNorm(4)(torch.ones(2, 5), lambda z: z), r"x: shape \(\.\.\., 4\) wanted, got \(2, 5\)"),
        (lambda: AddNorm(4)(torch.tensor(1.0), lambda z: z), r"x: shape \(\.\.\., 4\) wanted, got \(\)"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_what_is_no_tensor_is_named(placement):
    attention = torch.nn.MultiheadAttention(4, 2)
    with pytest.raises(TypeError, match="sublayer: one tensor as its output wanted, got tuple"):
        AddNorm(4, placement)(torch.ones(2, 4), lambda z: attention(z, z, z))
    with pytest.raises(TypeError, match=r"x: a torch\.Tensor wanted, got ndarray"):
        AddNorm(4, placement)(np.ones((2, 4)), sublayer)


def test_numpys_whole_numbers_count():
    assert AddNorm(np.int64(4)).norm.weight.shape == (4,)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_sublayer_that_would_broadcast_is_refused(placement):
    with pytest.raises(ValueError, match=r"sublayer: output of shape \(2, 3, 4\) as x wanted, got \(2, 1, 4\)"):
        AddNorm(4, placement)(torch.ones(2, 3, 4), lambda z: z[:, -1:])


def test_full_dropout_leaves_x_in_pre_and_its_norms_in_post():
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    norm = torch.nn.LayerNorm(8)
    blocks = {place: [AddNorm(8, place, dropout=1.0).train() for _ in range(2)] for place in ("post", "pre")}
    for place, wanted in {"pre": x, "post": norm(norm(x))}.items():
        h = x
        for block in blocks[place]:
            h = block(h, torch.nn.Linear(8, 8))
        torch.testing.assert_close(h, wanted)

"""The probes against brute force, real autograd and Monte Carlo, in float64."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from addnorm_lib import probes
from addnorm_lib.chapters.ch01_residual.measures.stacks import mlp_branches, relu_layers

EXACT = {"rtol": 1e-12, "atol": 1e-12}
BOTH = pytest.mark.parametrize("residual", [False, True])
SIZES = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 999))


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def jacobians_of(size):
    n, d, seed = size
    return normal(n, d, d, seed=seed) / math.sqrt(d)


def run(branches, x, residual):
    for branch in branches:
        x = x + branch(x) if residual else branch(x)
    return x


@given(SIZES, st.booleans())
def test_the_product_takes_the_last_block_first(size, residual):
    jacobians = jacobians_of(size)
    factors = [j + torch.eye(size[1], dtype=j.dtype) * residual for j in jacobians.flip(0)]
    want = factors[0] if len(factors) == 1 else torch.linalg.multi_dot(factors)
    torch.testing.assert_close(probes.jacobian_product(jacobians, residual=residual), want, **EXACT)


@BOTH
@pytest.mark.parametrize("make", [relu_layers, mlp_branches])
def test_a_stacks_jacobian_is_the_product_of_its_branches(make, residual):
    branches, x = make(5, 7), normal(7)
    jacobians = probes.branch_jacobians(branches, x, residual=residual)
    assert jacobians.shape == (5, 7, 7)
    whole = torch.autograd.functional.jacobian(lambda z: run(branches, z, residual), x)
    torch.testing.assert_close(probes.jacobian_product(jacobians, residual=residual), whole, **EXACT)
    states = probes.stream(branches, x, residual=residual)
    torch.testing.assert_close(states[-1], run(branches, x, residual), **EXACT)
    assert torch.equal(states[0], x) and len(states) == 6
    for branch, state, j in zip(branches, states[:-1], jacobians, strict=True):
        torch.testing.assert_close(j, torch.autograd.functional.jacobian(branch, state), **EXACT)


@BOTH
@pytest.mark.parametrize("n_gradients", [None, 1, 4])
def test_gradients_by_layer_are_autograds(residual, n_gradients):
    branches, x = mlp_branches(4, 6), normal(6).requires_grad_()
    states = [x]
    for branch in branches:
        states.append(states[-1] + branch(states[-1]) if residual else branch(states[-1]))
    gradient = normal(6, seed=1) if n_gradients is None else normal(n_gradients, 6, seed=1)
    squares = torch.stack(
        [
            torch.stack([g.square().sum() for g in torch.autograd.grad(states[-1], states, one, retain_graph=True)])
            for one in (gradient[None] if gradient.ndim == 1 else gradient)
        ]
    )
    jacobians = probes.branch_jacobians(branches, x.detach(), residual=residual)
    got = probes.gradients_by_layer(jacobians, gradient, residual=residual)
    torch.testing.assert_close(got, squares.mean(dim=0).sqrt(), **EXACT)


@given(SIZES)
def test_path_expansion_is_the_sum_of_the_enumerated_paths_of_each_length(size):
    jacobians = jacobians_of(size)
    n = size[0]
    by_length, paths = probes.path_expansion(jacobians), probes.enumerate_paths(jacobians)
    assert len(paths) == 2**n
    lengths = torch.tensor([sum(taken) for taken in itertools.product((0, 1), repeat=n)])
    for k in range(n + 1):
        assert (lengths == k).sum() == math.comb(n, k)
        torch.testing.assert_close(by_length[k], paths[lengths == k].sum(dim=0), **EXACT)
    torch.testing.assert_close(by_length.sum(dim=0), probes.jacobian_product(jacobians, residual=True), **EXACT)
    assert by_length.dtype == torch.float64


def test_energy_shares_sum_to_one_and_follow_the_binomial_law():
    s, n, d = 0.5, 6, 64
    shares = torch.stack(
        [
            probes.path_energy_shares(probes.path_expansion(s / math.sqrt(d) * normal(n, d, d, seed=i)))
            for i in range(20)
        ]
    )
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(20, dtype=torch.float64), **EXACT)
    law = torch.tensor([math.comb(n, k) * s ** (2 * k) for k in range(n + 1)], dtype=torch.float64)
    # The mean of 20 draws: 64 × 64 numbers a Jacobian make a draw's energies scatter by a few per cent.
    torch.testing.assert_close(shares.mean(dim=0), law / law.sum(), rtol=0, atol=0.01)


@pytest.mark.parametrize("gains", [[0.1] * 8, [0.5, 0.2, 0.8], [1.0] * 3, [0.0, 0.0]])
def test_predicted_deviation_is_the_monte_carlo_mean(gains):
    d, draws = 16, 600
    squares = [
        probes.deviation_from_identity(
            probes.jacobian_product(
                torch.tensor(gains, dtype=torch.float64)[:, None, None]
                / math.sqrt(d)
                * normal(len(gains), d, d, seed=i),
                residual=True,
            )
        )
        ** 2
        for i in range(draws)
    ]
    # 600 draws bring the mean's standard error below 1 % in every case here; 4 % is four of them.
    assert math.sqrt(sum(squares) / draws) == pytest.approx(probes.predicted_deviation(gains), rel=0.04)


def test_predicted_deviation_keeps_its_digits_where_the_gains_are_tiny():
    assert probes.predicted_deviation([1e-9] * 4) == pytest.approx(2e-9, rel=1e-12)


def test_gain_and_deviation_of_known_matrices():
    identity = torch.eye(5, dtype=torch.float64)
    rotation = torch.linalg.qr(normal(5, 5)).Q
    assert probes.gain(identity) == pytest.approx(1, abs=1e-15)
    assert probes.gain(rotation) == pytest.approx(1, abs=1e-12)
    assert probes.deviation_from_identity(identity) == 0
    assert probes.deviation_from_identity(3 * identity) == pytest.approx(2)
    assert probes.deviation_from_identity(-identity) == pytest.approx(2)


def test_branch_shares_of_branches_of_known_variance():
    x = normal(4000, 8)
    # Branch l adds noise of its own of variance 1, so that its share is 1/(l + 1); 32 000 numbers: within 3 %.
    branches = [lambda _x, i=i: normal(4000, 8, seed=i) for i in range(1, 6)]
    want = torch.tensor([1 / (l + 1) for l in range(1, 6)], dtype=torch.float64)
    torch.testing.assert_close(probes.branch_shares(branches, x), want, rtol=0.03, atol=0)


def test_reconstruction_is_whole_from_a_rotation_and_nothing_from_noise():
    inputs = normal(400, 6)
    assert probes.reconstruction_r2(inputs, inputs) == pytest.approx(1, abs=1e-6)
    assert probes.reconstruction_r2(3 * inputs @ torch.linalg.qr(normal(6, 6)).Q + 2, inputs) > 0.999999
    assert probes.reconstruction_r2(normal(400, 6, seed=1), inputs) <= 0.05
    half = probes.reconstruction_r2(inputs[:, :3], inputs)
    assert half == pytest.approx(0.5, abs=0.08)  # three of six equal features; 120 held-out rows
    torch.testing.assert_close(probes.read_back(inputs, inputs), inputs, rtol=0, atol=1e-4)


B, T, D = 3, 4, 6


def where(*index):
    wanted = torch.zeros(B, T, D, dtype=torch.bool)
    wanted[index] = True
    return wanted


@pytest.mark.parametrize(
    ("function", "shares"),
    [
        (torch.sin, lambda b, t, d: where(b, t, d)),
        (lambda x: F.layer_norm(x, (D,)), lambda b, t, d: where(b, t)),
        (lambda x: F.rms_norm(x, (D,)), lambda b, t, d: where(b, t)),
        (lambda x: F.layer_norm(x, (T, D)), lambda b, t, d: where(b)),
        (
            lambda x: F.batch_norm(x.transpose(1, 2), None, None, training=True).transpose(1, 2),
            lambda b, t, d: where(slice(None), slice(None), d),
        ),
        (
            lambda x: F.batch_norm(x.transpose(1, 2), torch.zeros(D).double(), torch.ones(D).double()).transpose(1, 2),
            lambda b, t, d: where(b, t, d),
        ),
        (lambda x: F.instance_norm(x.transpose(1, 2)).transpose(1, 2), lambda b, t, d: where(b, slice(None), d)),
        (
            lambda x: F.group_norm(x.reshape(B * T, D), 2).reshape(B, T, D),
            lambda b, t, d: where(b, t, slice(0, 3) if d < 3 else slice(3, 6)),
        ),
        (lambda x: x.cumsum(dim=1), lambda b, t, d: where(b, slice(t, None), d)),
    ],
    ids=["sine", "layer", "rms", "layer(T,D)", "batch", "batch-eval", "instance", "group", "causal"],
)
def test_an_element_moves_exactly_what_shares_its_statistics(function, shares):
    x = normal(B, T, D)
    kept = x.clone()
    for index in itertools.product(range(B), range(T), range(D)):
        assert torch.equal(probes.moved_by(function, x, index), shares(*index)), index
    assert torch.equal(x, kept)


def test_several_elements_move_together_and_a_shift_or_a_sign_hides_nothing():
    x = normal(B, T, D)
    assert torch.equal(probes.moved_by(lambda x: F.layer_norm(x, (D,)), x, (1, 2)), where(1, 2))
    assert torch.equal(probes.moved_by(lambda x: F.layer_norm(x, (D,)), x, (slice(None), 2)), where(slice(None), 2))
    # x + by = −x, and x − 2·by = −x: one of the two pokes leaves the mean square as it was.
    for value in (-0.5, 1.0):
        x[0, 0, 0] = value
        assert torch.equal(probes.moved_by(lambda x: F.rms_norm(x, (D,)), x, (0, 0, 0)), where(0, 0))
    # The output's shape, not the input's; an in-place function; NaN that stays NaN.
    assert probes.moved_by(lambda x: x.sum(dim=-1), x, (1, 2, 3)).nonzero().tolist() == [[1, 2]]
    assert torch.equal(probes.moved_by(lambda x: x.mul_(2), x, (1, 2, 3)), where(1, 2, 3))
    assert not probes.moved_by(lambda x: x * math.nan, x, (1, 2, 3)).any()
    assert probes.moved_by(torch.sqrt, -torch.ones(3), 1, by=5).tolist() == [False, True, False]  # NaN becomes 2


def chain(x, k):
    for _ in range(k):
        x = x.sin()
    return x


@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_shortest_gradient_path(k):
    x, update = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_()
    assert probes.shortest_gradient_path(chain(x, k), x) == k
    assert probes.shortest_gradient_path(x + chain(x, k), x) == 1
    assert probes.shortest_gradient_path(chain(x + update, k), update) == k + 1
    assert probes.shortest_gradient_path(x + update, update) == 1
    assert probes.shortest_gradient_path(chain(x.detach(), k), x) is None
    assert probes.shortest_gradient_path(x.detach() + chain(update, k), x) is None
    assert probes.shortest_gradient_path(x.detach() + chain(update, k), update) == k + 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: probes.jacobian_product(torch.ones(3, 3), residual=True), r"jacobians: shape \(L, D, D\) wanted"),
        (lambda: probes.path_expansion(torch.ones(2, 3, 4)), r"jacobians: shape \(L, D, D\) wanted, got \(2, 3, 4\)"),
        (lambda: probes.gradients_by_layer(torch.ones(3), torch.ones(3), residual=True), "jacobians: shape"),
        (lambda: probes.enumerate_paths(torch.ones(17, 1, 1)), "at most 16 blocks wanted .* got 17"),
        (lambda: probes.jacobian(torch.sin, torch.ones(2, 3)), r"x: a vector, shape \(D,\), wanted, got \(2, 3\)"),
        (lambda: probes.read_back(torch.ones(3, 2), torch.ones(4, 2)), "as many rows as inputs, 4, wanted, got 3"),
        (lambda: probes.moved_by(torch.sin, torch.ones(3, dtype=torch.int64), 0), "x: a floating dtype wanted, got"),
        (lambda: probes.moved_by(torch.sin, torch.full((3,), 1e9), 0, by=0.1), "float32 does not round away"),
        (lambda: probes.moved_by(torch.nn.Dropout(), torch.ones(99), 0), "got two; is dropout on"),
        (lambda: probes.branch_jacobians([torch.sin], torch.ones(1, 2), residual=True), "x: a vector"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()

"""What depth does: the measurements agree with theory and with autograd."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from addnorm_lib.chapters.ch02_degradation import measures
from addnorm_lib.experiments import data
from addnorm_lib.experiments.depth import DepthNet, depth_runs
from addnorm_lib.experiments.training import train


def test_a_deeper_net_can_copy_a_shallow_one_exactly():
    torch.manual_seed(0)
    shallow = DepthNet("plain", 2, norm=None)
    x = torch.randn(50, 64)
    deep = measures.deepen(shallow, 30)
    assert len(deep.blocks) == 32 and torch.equal(deep(x), shallow(x))
    with pytest.raises(ValueError, match="plain ReLU network without norm"):
        measures.deepen(DepthNet("plain", 2), 1)


@pytest.fixture(scope="module")
def trained():
    return train(depth_runs(depths=(4,), steps=60, seeds=(0, 1), keep_state=True), workers=1)


def test_a_lesion_is_the_network_built_without_the_block(trained):
    for kind in ("plain", "residual"):
        record = trained.one(kind=kind)
        measured = measures.lesion(record)
        np.testing.assert_allclose(measured.whole, 1 - record.test_error, atol=1e-9)
        for i in range(2):
            network = measures.trained_network(record, i)
            del network.blocks[2]
            dataset = data.load("digits")
            right = network(torch.from_numpy(dataset.x_test)).argmax(1).numpy() == dataset.y_test
            assert measured.without[i, 2] == pytest.approx(right.mean())


def test_measuring_weights_needs_weights():
    record = train(depth_runs(("residual",), (1,), steps=1, seeds=(0,)))[0]
    for measure in (measures.lesion, measures.path_gradients):
        with pytest.raises(ValueError, match="keep_state=True"):
            measure(record)


def test_the_longest_and_the_shortest_path_are_what_autograd_sees(trained):
    record = trained.one(kind="residual")
    measured = measures.path_gradients(record, samples=2, batch=16)
    dataset = data.load("digits")
    x, y = torch.from_numpy(dataset.x_test[:16]), torch.from_numpy(dataset.y_test[:16])
    for i in range(2):
        network = measures.trained_network(record, i)
        expected = {}
        for length in (0, 4):
            h = first = network.stem(x).detach().requires_grad_()
            for block in network.blocks:
                branch = block.branch(h)
                # The value is the whole block's; the gradient takes one way only.
                way = h if length == 0 else branch
                h = way + (h + branch - way).detach()
            logits = network.readout(network.activation(network.norm(h)))
            (g,) = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), first)
            expected[length] = float(g.square().sum(1).mean().sqrt())
        assert measured.per_path[i, 0] == pytest.approx(expected[0], rel=1e-4)
        assert measured.per_path[i, 4] == pytest.approx(expected[4], rel=1e-4)
    np.testing.assert_allclose(measured.share.sum(axis=1), 1)
    np.testing.assert_allclose(measured.paths, np.array([1, 4, 6, 4, 1]) / 16)
    with pytest.raises(ValueError, match="residual networks wanted"):
        measures.path_gradients(trained.one(kind="plain"))


def test_variance_doubles_without_a_norm_and_grows_by_one_with_it():
    seeds = range(3)
    none = measures.variance_per_block(8, norm=None, seeds=seeds)
    assert none.shape == (3, 9)
    assert measures.slope(range(9), np.log2(none)).value == pytest.approx(1, abs=0.12)
    for norm in ("batch", "layer"):
        grown = measures.variance_per_block(8, norm=norm, seeds=seeds).mean(axis=0)
        np.testing.assert_allclose(grown, np.arange(1, 10), rtol=0.1)
    repaired = measures.variance_per_block(32, norm=None, branch="1/sqrt(L)", seeds=seeds)[:, -1].mean()
    assert repaired == pytest.approx((1 + 1 / 32) ** 32, rel=0.15)


def test_batch_norm_and_relu_multiply_the_gradient_as_yang_says():
    growth = measures.gradient_growth(6, kind="plain", width=256, batch=256, seeds=range(3))
    np.testing.assert_allclose(growth[:, -1], 1, rtol=1e-5)
    factor = math.exp(measures.slope(-np.arange(1, 6), np.log(growth[:, 1:6])).value)
    assert factor == pytest.approx(math.sqrt(math.pi / (math.pi - 1)), rel=0.02)
    layer = measures.gradient_growth(6, kind="plain", norm="layer", width=256, batch=256, seeds=range(3))
    assert (layer[:, 1] / layer[:, 5]).mean() == pytest.approx(1, abs=0.05)


def test_gradient_correlation_follows_the_arc_cosine_kernel():
    plain = measures.gradient_correlation(2, kind="plain", norm=None, width=512, seeds=range(3)).mean(axis=0)
    # Cho & Saul 2009: after one layer of independent inputs the masks agree on half of the features.
    theta = math.acos((math.sin(math.pi / 2) + 0) / math.pi)
    np.testing.assert_allclose(plain, [0.5, 0.5 * (1 - theta / math.pi)], rtol=0.1)
    assert (measures.gradient_correlation(3, kind="plain", activation="linear", norm=None) > 0.999).all()


def test_attached_statistics_would_force_the_correlation():
    options = {"kind": "plain", "depth": 1, "width": 32, "n_inputs": 32}
    torch.manual_seed(0)
    network, x = DepthNet(**options), torch.randn(16, 32, requires_grad=True)
    network.blocks[0](x).sum().backward()
    assert x.grad.sum(0).abs().max() < 1e-4 * x.grad.abs().max() * 16
    network.blocks[0].branch.norm.detach_statistics = True
    y = network.blocks[0](x)
    network.blocks[0].branch.norm.detach_statistics = False
    torch.testing.assert_close(y, network.blocks[0](x))


def test_seeds_are_needed():
    for measure in (measures.variance_per_block, measures.gradient_growth, measures.gradient_correlation):
        with pytest.raises(ValueError, match="seeds"):
            measure(2, seeds=())

"""The table of norms: every kind is what its entry says, and one entry is all that a new kind takes."""

import pytest
import torch
from torch import nn

from addnorm_lib.course.figures.blocks import block_diagram, trace
from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.placement_net import PlacementNet
from addnorm_lib.layers import NORMS, PLACEMENTS, AddNorm, Encoder
from addnorm_lib.layers.norms import NormKind, make_norm, name_of


class LengthNorm(nn.Module):
    """y = g · √D · x/‖x‖ with a gain for every feature."""

    def __init__(self, d_model, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return length_norm(x, self.eps) * self.weight


def length_norm(x, eps):
    return x.shape[-1] ** 0.5 * x / (x.norm(dim=-1, keepdim=True) + eps)


@pytest.fixture
def a_new_kind(monkeypatch):
    monkeypatch.setitem(NORMS, "length", NormKind("length norm", "L", LengthNorm, length_norm))


@pytest.mark.parametrize("norm", NORMS)
def test_a_kinds_module_and_its_function_are_one_formula(norm):
    kind, x = NORMS[norm], torch.randn(2, 3, 8, dtype=torch.float64)
    module = make_norm(8, norm, 1e-3).double()
    torch.testing.assert_close(module(x), kind.function(x, 1e-3))
    assert name_of(module) == norm
    assert (getattr(make_norm(8, norm, 1e-3), "bias", None) is not None) == kind.has_bias
    assert getattr(make_norm(8, norm, 1e-3, bias=False), "bias", None) is None


def test_what_is_no_kind_is_named():
    for wrong in ("batch", None, ["layer"]):
        with pytest.raises(ValueError, match=f"norm: one of {', '.join(NORMS)} wanted"):
            make_norm(8, wrong, 1e-5)
    with pytest.raises(ValueError, match=f"module: one of {', '.join(NORMS)} wanted, got Linear"):
        name_of(nn.Linear(2, 2))


@pytest.mark.parametrize("place", PLACEMENTS)
def test_one_entry_brings_a_new_kind_everywhere(a_new_kind, place):
    block, x = AddNorm(8, place, "length"), torch.randn(2, 3, 8)
    marks = [step.name for step in trace(block)]
    assert marks.count("L") == sum(PLACEMENTS[place]) and marks.count("+") == 1
    assert "L(" in block_diagram({"new": block}).description
    stack = Encoder(2, 8, 2, 8, placement=place, norm="length", final_norm=True)
    assert torch.isfinite(stack(x)).all() and name_of(stack.final_norm) == "length"
    net = PlacementNet(place, 2, d_model=8, norm="length")
    tokens = torch.randint(8, (2, 6))
    torch.testing.assert_close(
        net(tokens), net.readout(net.encoder(net.embedding(tokens) + net.position)), rtol=1e-4, atol=1e-4
    )


def test_a_new_kind_is_stacked_in_plain_nets_too(a_new_kind):
    net, x = DepthNet("residual", 2, norm="length"), torch.randn(5, 64)
    state = {name: p.unsqueeze(0) for name, p in net.state_dict().items()}
    stacked = net.forward_stacked(state, x.unsqueeze(0), lambda _name, _value: None)[0]
    torch.testing.assert_close(stacked, net(x), rtol=1e-4, atol=1e-4)

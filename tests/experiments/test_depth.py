"""The plain and residual networks are what their formula says."""

import math

import numpy as np
import pytest
import torch

from addnorm_lib import reference
from addnorm_lib.experiments.depth import DepthNet


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_the_network_is_its_formula(norm):
    torch.manual_seed(1)
    normalise = {"layer": reference.layer_norm, "rms": reference.rms_norm}[norm]
    network = DepthNet("residual", 2, width=6, norm=norm, shortcut=0.9, branch="1/sqrt(L)", n_inputs=4).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    weight = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    h = x.numpy() @ weight["stem.weight"].T
    for i in range(2):
        update = np.maximum(normalise(h), 0) @ weight[f"blocks.{i}.branch.linear.weight"].T
        h = reference.residual_sum(h, update / math.sqrt(2), alpha=0.9)
    logits = np.maximum(normalise(h), 0) @ weight["readout.weight"].T + weight["readout.bias"]
    np.testing.assert_allclose(network(x).detach().numpy(), logits, rtol=1e-12)


def test_both_kinds_start_from_the_same_numbers():
    states = []
    for kind in ("plain", "residual"):
        torch.manual_seed(3)
        states.append(DepthNet(kind, 3).state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "dense"}, "kind: one of 'plain', 'residual'"),
        ({"norm": "group"}, "norm"),
        ({"activation": "gelu"}, "activation"),
        ({"init": "zero"}, "init"),
        ({"depth": 0}, "depth"),
        ({"depth": 2.0}, "depth"),
        ({"width": 0}, "width"),
        ({"branch": "1/L"}, "branch"),
        ({"kind": "plain", "shortcut": 0.5}, "shortcut: a plain net has none"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        DepthNet(**options)

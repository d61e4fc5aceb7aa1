"""Chapter 1's panels say what the probes measure."""

import math

import numpy as np
import pytest
import torch

from addnorm_lib import probes
from addnorm_lib.chapters.ch01_residual import panels


@pytest.mark.parametrize(("L", "s"), [(1, 0.5), (32, 0.5), (48, 0.1), (48, 1.0), (7, 1.5)])
def test_the_gradient_panels_readout_is_the_probes(L, s):
    generator = torch.Generator().manual_seed(3)
    d = panels.WIDTH
    jacobians = torch.randn(panels.MAX_DEPTH, d, d, generator=generator, dtype=torch.float64)[:L] * s / math.sqrt(d)
    arriving = torch.randn(panels.PROBES, d, generator=generator, dtype=torch.float64)
    arriving /= arriving.norm(dim=1, keepdim=True)
    wanted = []
    for is_residual, factor in ((False, s), (True, math.sqrt(1 + s * s))):
        at_zero = arriving @ probes.jacobian_product(jacobians, residual=is_residual)
        wanted += [at_zero.square().sum(dim=1).mean().sqrt().item(), factor**L]
    readout = panels.gradient_panel(seed=3).set(L=L, s=s)
    plain, plain_law, res, res_law = (panels._power(value) for value in wanted)
    assert readout == (
        f"L = {L}, s = {s:.2f}. Gradient at layer 0: plain {plain} (predicted {plain_law}), "
        f"residual {res} (predicted {res_law})."
    )


@pytest.mark.parametrize("k", range(8))
def test_the_tape_panel_erases_at_one_and_only_there(k):
    x = np.array(panels.TAPE)
    unit = np.cos(np.pi * (np.arange(8) + 0.5) * k / 8)
    unit /= np.linalg.norm(unit)
    panel = panels.tape_panel()
    for a in (0.0, 0.5, 1.0, 2.0):
        y = x - a * (x @ unit) * unit
        assert panel.set(a=a, k=k) == (
            f"a = {a:.2f}, pattern {k}. Along u: {x @ unit:.2f} before, {(1 - a) * (x @ unit) + 0.0:.2f} after; "
            f"length of the vector: {np.linalg.norm(x):.2f} before, {np.linalg.norm(y):.2f} after."
        )
    assert " 0.00 after; length" in panel.set(a=1, k=k)
    np.testing.assert_allclose([bar.get_height() for bar in panel._canvas.moving[:8]], x)
    after = [bar.get_height() for bar in panel._canvas.moving[16:24]]
    assert np.dot(after, unit) == pytest.approx(0, abs=1e-12)

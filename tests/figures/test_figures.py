"""Every figure describes its data in words, is sharp at its stated size, and leaves nothing open."""

import base64
import io

import matplotlib._pylab_helpers as pylab_helpers
import pytest
import torch
from PIL import Image

from addnorm_lib.experiments.identity import IdentityLosses
from addnorm_lib.experiments.increments import BranchShares
from addnorm_lib.figures import residual


def losses(order):
    curves = torch.tensor([[1.0, 1.1], [2.0, 2.2]])
    return IdentityLosses((2, 4), {kind: curves * 10.0**i for i, kind in enumerate(order)})


def shares(after):
    before = torch.tensor([[0.5, 0.3], [0.5, 0.4]])
    return BranchShares(before, before * after, torch.ones(2))


PAIRS = {
    "broadcast_map": lambda f: (f(torch.ones(2, 3), torch.ones(1, 3)), f(torch.ones(2, 3), torch.rand(2, 3))),
    "identity_losses": lambda f: (
        f(losses(("plain", "residual", "scaled"))),
        f(losses(("scaled", "residual", "plain"))),
    ),
    "gain_curves": lambda f: (f({0.5: 0.5 ** torch.arange(9.0)}), f({2.0: 2 ** torch.arange(9.0)})),
    "deviations": lambda f: (f((1, 2), {0.1: torch.ones(2, 3)}), f((1, 2), {0.1: 5 * torch.ones(2, 3)})),
    "path_lengths": lambda f: (f({0.5: torch.tensor([0.5, 0.5, 0])}), f({0.5: torch.tensor([0, 0.5, 0.5])})),
    "reconstruction": lambda f: (f((0, 1), {"plain": torch.ones(2, 2)}), f((0, 1), {"plain": torch.zeros(2, 2)})),
    "read_back_digits": lambda f: (
        f(torch.eye(64)[:3], {"plain": torch.eye(64)[:3]}),
        f(torch.eye(64)[:3], {"plain": torch.eye(64)[3:6]}),
    ),
    "branch_shares": lambda f: (f(shares(0.5)), f(shares(1.5))),
}


def test_every_figure_is_tried():
    made = {
        name for name, f in vars(residual).items() if callable(f) and getattr(f, "__module__", "") == residual.__name__
    }
    assert made == set(PAIRS)


@pytest.mark.parametrize("name", PAIRS)
def test_a_description_comes_from_the_data(name):
    one, other = PAIRS[name](getattr(residual, name))
    assert len(one.description) > 30
    assert one.description != other.description
    assert not pylab_helpers.Gcf.figs


def test_a_picture_is_twice_as_sharp_as_it_is_large_and_carries_its_words(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **kwargs: shown.append((data, kwargs)))
    picture = residual.branch_shares(shares(0.5))
    picture._ipython_display_()
    (data, kwargs), (words, _) = shown
    metadata = kwargs["metadata"]["image/png"]
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert image.size == (2 * metadata["width"], 2 * metadata["height"])
    assert metadata["alt"] == data["text/plain"] == words["text/plain"] == picture.description == repr(picture)

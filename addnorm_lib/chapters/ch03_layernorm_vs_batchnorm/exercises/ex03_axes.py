"""3.3: which axes share one mean."""

from typing import Any

import numpy as np
import torch

from addnorm_lib.course.exercises.define import table
from addnorm_lib.messages import _


class Axes:
    """Axes of a tensor of `ndim` dimensions: equal to any int, tuple, list or set that names them, from either end."""

    def __init__(self, *axes: int, ndim: int) -> None:
        self.axes, self.ndim = axes, ndim

    def __eq__(self, other: object) -> bool:
        named = other.axes if isinstance(other, Axes) else self._named(other)
        return self._complaint(named) is None and {axis % self.ndim for axis in named} == set(self.axes)

    @staticmethod
    def _named(given: Any) -> Any:
        """Return the axes as Python ints, where they are axes at all."""
        given = given.tolist() if isinstance(given, (torch.Tensor, np.ndarray, np.integer)) else given
        return (given,) if isinstance(given, int) else given

    def _complaint(self, named: Any) -> str | None:
        if not isinstance(named, (tuple, list, set, frozenset, range)) or any(
            isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) for axis in named
        ):
            return _("axes are wanted, numbers as in (0, 2)")
        outside = next((axis for axis in named if not -self.ndim <= axis < self.ndim), None)
        if outside is not None:
            return _("there is no axis {axis}; they are 0 to {last}").format(axis=outside, last=self.ndim - 1)
        if len({axis % self.ndim for axis in named}) < len(named):
            return _("an axis is named twice")
        return None

    def complaint(self, given: Any) -> str | None:
        """Return why what was given names no axes of this tensor, or None where it names some, be they wrong."""
        return self._complaint(self._named(given))

    def __repr__(self) -> str:
        return repr(self.axes)


REDUCED = {
    "LayerNorm(D) on (B, T, D)": Axes(2, ndim=3),
    "BatchNorm1d(D) on (B, D)": Axes(0, ndim=2),
    "BatchNorm2d(C) on (B, C, H, W)": Axes(0, 2, 3, ndim=4),
    "InstanceNorm2d(C) on (B, C, H, W)": Axes(2, 3, ndim=4),
    "GroupNorm(1, C) on (B, C, T)": Axes(1, 2, ndim=3),
    "InstanceNorm1d(T) on (B, T, D)": Axes(2, ndim=3),
    "BatchNorm1d(4) on (B, T, D), T = D = 4": Axes(0, 2, ndim=3),
}

TASK = """
For each module of torch.nn: the axes over which one mean is taken, as in x.mean(dim=...), counted from 0: (0, 2)
"""

MISTAKES = """
kept axes: LayerNorm → (0, 1); BatchNorm1d(D) → (1,); BatchNorm2d → (1,); InstanceNorm2d → (0, 1); GroupNorm → (0,);
        InstanceNorm1d → (0, 1); BatchNorm1d(4) → (1,)
    Are these the axes that are kept? Name the ones that the mean runs over, that disappear.
layer norm over the batch: LayerNorm → (0,)
    Does LayerNorm reduce the batch? It gives each token its own mean, whatever else is in the batch.
layer norm across tokens: LayerNorm → (1,)
    Does LayerNorm take its mean across tokens? (D) names the axes it reduces: the features.
layer norm over tokens and features: LayerNorm → (1, 2)
    Does LayerNorm(D) reduce the tokens too? LayerNorm((T, D)) would; (D) is the last axis alone.
layer and batch norm swapped: LayerNorm → (0, 1); BatchNorm1d(D) → (1,)
    Are LayerNorm and BatchNorm1d the wrong way round? Batch norm's mean runs over the batch.
batch norm over the features: BatchNorm1d(D) → (1,)
    Does BatchNorm1d reduce the features? It keeps one mean for each of them, over the batch.
batch norm without space: BatchNorm2d → (0,)
    Has every pixel its own mean in BatchNorm2d? A channel has one, over the batch and all positions.
batch norm over all but the batch: BatchNorm2d → (1, 2, 3)
    Does BatchNorm2d keep the batch apart? It keeps the channels apart and reduces the batch.
instance norm over the batch: InstanceNorm2d → (0, 2, 3)
    Does InstanceNorm2d reduce the batch? That is BatchNorm2d; an instance is one sample.
instance norm over the channels: InstanceNorm2d → (1, 2, 3)
    Does InstanceNorm2d reduce the channels? That is GroupNorm(1, C); here each channel is on its own.
group norm as layer norm: GroupNorm → (1,)
    Is GroupNorm(1, C) LayerNorm(C)? Only on (N, C). On (B, C, T) its one group holds all positions too.
group norm per channel: GroupNorm → (2,)
    Is each channel alone in GroupNorm(1, C)? The 1 is the number of groups; C groups would do that.
instance norm over time: InstanceNorm1d → (1,)
    Does InstanceNorm1d know that axis 1 is time? It takes axis 1 for channels and reduces the rest.
batch norm knows the features: BatchNorm1d(4) → (0, 1)
    Does BatchNorm1d find the features in (B, T, D)? It takes axis 1, the tokens, for channels.
batch norm over everything: BatchNorm1d(D) → (0, 1)
    Does BatchNorm1d take one mean for all features? It keeps one for each: only the batch goes.
batch norm as instance norm: BatchNorm2d → (2, 3)
    Does BatchNorm2d keep the samples apart? That is InstanceNorm2d; batch norm reduces the batch.
batch norm over the channels: BatchNorm2d → (1,)
    Does BatchNorm2d reduce the channels? They are the axis that it keeps.
group norm over the batch: GroupNorm → (0, 1, 2)
    Does GroupNorm reduce the batch? Every sample has statistics of its own.
instance norm as a whole: InstanceNorm1d → (1, 2)
    Does InstanceNorm1d keep axis 0 only? It takes axis 1 for channels and keeps it, too.
instance norm as batch norm: InstanceNorm1d → (0, 2)
    Does InstanceNorm1d reduce the batch? That is BatchNorm1d; an instance is one sample.
batch norm as layer norm: BatchNorm1d(4) → (2,)
    Does BatchNorm1d keep the batch? Its mean runs over axis 0, too.
"""

HINTS = """
Batch norm and instance norm take axis 1 for channels, whatever you call it, and keep it.
Poke: run the module on x, change one element, and see which outputs move. They share a mean.
LayerNorm counts from the end; batch norm reduces all but axis 1; instance norm also keeps axis 0.
"""

EXERCISE = table(
    __doc__,
    "reduced",
    REDUCED,
    MISTAKES,
    HINTS,
    claims="C1 C5 C17",
    task=TASK,
    read_value=lambda axes, right: Axes(*axes, ndim=right.ndim),
)

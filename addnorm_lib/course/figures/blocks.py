"""Block diagrams drawn from a block at work: which norm, sublayer and sum really ran, on what, in what order."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from addnorm_lib.course.figures.style import BLACK, BLUE, Picture, house_style, new_figure
from addnorm_lib.layers import NORMS, AddNorm, EncoderLayer
from addnorm_lib.messages import _

_NORMS = {kind.operator: kind.mark for kind in NORMS.values() if kind.operator}
_MARKS = {kind.mark for kind in NORMS.values()}
_SUMS = {torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__}


class Step(NamedTuple):
    """One thing that a block did: `name` is "x" (its input), a norm's mark, "+" or a sublayer's; `inputs` are steps."""

    name: str
    inputs: tuple[int, ...]


class Trace(tuple[Step, ...]):
    """What a block did, in order; as a string it is the formula that follows from it."""

    __slots__ = ()

    def __str__(self) -> str:
        return self._formula(len(self) - 1)

    def _formula(self, index: int) -> str:
        name, inputs = self[index]
        if not inputs:
            return name
        arguments = [self._formula(i) for i in inputs]
        return " + ".join(arguments) if name == "+" else f"{name}({', '.join(arguments)})"


class _Recorder(TorchFunctionMode):
    """Note the norms and sums that are computed; whatever else is done to a known tensor keeps its step."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.steps = [Step("x", ())]
        self.known: dict[int, int] = {}
        self.alive: list[Tensor] = []  # an id is a tensor's only while the tensor lives
        self.paused = False
        self.learn(x, 0)

    def learn(self, tensor: Tensor, step: int) -> None:
        self.alive.append(tensor)
        self.known[id(tensor)] = step

    def note(self, name: str, inputs: tuple[int, ...], output: Tensor) -> None:
        self.steps.append(Step(name, inputs))
        self.learn(output, len(self.steps) - 1)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.paused or not isinstance(result, Tensor):
            return result
        read = tuple(self.known[id(a)] for a in args if id(a) in self.known)
        if func in _SUMS and len(read) == 2:
            self.note("+", tuple(sorted(read)), result)
        elif func in _NORMS and read:
            self.note(_NORMS[func], read, result)
        elif read and id(result) not in self.known:
            self.learn(result, read[0])
        return result


def trace(block: AddNorm | EncoderLayer) -> Trace:
    """Run the block once and return what it did. An `AddNorm` gets a sublayer called F.

    Raises TypeError for another class.
    """
    if not isinstance(block, (AddNorm, EncoderLayer)):
        raise TypeError(f"block: an AddNorm or an EncoderLayer wanted, got {type(block).__name__}")
    add_norms = [block] if isinstance(block, AddNorm) else [block.add_norm1, block.add_norm2]
    x = torch.arange(2.0 * add_norms[0].d_model).sin().view(1, 2, -1)
    recorder = _Recorder(x)

    def sublayer(name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(_module: nn.Module, _inputs: tuple[Tensor, ...]) -> None:
            recorder.paused = True

        def after(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            recorder.paused = False
            recorder.note(name, (recorder.known[id(inputs[0])],), output)

        return before, after

    f = nn.Linear(add_norms[0].d_model, add_norms[0].d_model, device=x.device)
    parts = [(f, "F")] if isinstance(block, AddNorm) else [(block.self_attention, "A"), (block.feed_forward, "M")]
    # A norm that no operator of torch's computes is seen as its module runs, as the sublayers are.
    for add_norm in add_norms:
        kind = NORMS[add_norm.norm_kind]
        if kind.operator is None:
            parts += [(norm, kind.mark) for norm in (add_norm.norm, add_norm.outer_norm) if norm is not None]
    hooks = []
    for module, name in parts:
        before, after = sublayer(name)
        hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    backends = [add_norm.backend for add_norm in add_norms]
    training = block.training
    try:
        for add_norm in add_norms:
            add_norm.backend = "eager"  # a fused kernel would show the sum and the norm as one
        with torch.no_grad(), recorder:
            block.eval()(x, f) if isinstance(block, AddNorm) else block.eval()(x)
    finally:
        block.train(training)
        for add_norm, backend in zip(add_norms, backends, strict=True):
            add_norm.backend = backend
        for hook in hooks:
            hook.remove()
    return Trace(recorder.steps)


def _half_width(name: str, word: str) -> float:
    if name in ("x", "+"):
        return 0.14
    return 0.28 if len(word) < 4 else 0.47


def _draw(ax: Any, steps: Trace, words: Mapping[str, str]) -> None:
    """Draw steps from left to right; what a step reads from further back arrives over an arc."""
    arrow = {"arrowstyle": "-|>", "mutation_scale": 12, "color": BLACK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    shown = [words.get(step.name, step.name) for step in steps]
    half = [_half_width(step.name, word) for step, word in zip(steps, shown, strict=True)]
    at = [sum(half[:i]) * 2 + half[i] + 0.42 * i for i in range(len(steps))]
    right = at[-1] + half[-1]
    for i, (name, inputs) in enumerate(steps):
        if name == "+":
            ax.add_patch(Circle((at[i], 0), half[i], facecolor="white", edgecolor=BLACK, linewidth=1.3, zorder=3))
        elif name != "x":
            is_norm = name in _MARKS
            box = FancyBboxPatch(
                (at[i] - half[i], -0.18),
                2 * half[i],
                0.36,
                boxstyle="round,pad=0,rounding_size=0.07",
                facecolor="#F7E9A8" if is_norm else "#D6E6F5",
                edgecolor=BLACK,
                linestyle="--" if is_norm else "-",
                linewidth=1.3,
                zorder=3,
            )
            ax.add_patch(box)
        style = {"style": "italic", "fontsize": 13} if name == "x" else {"fontsize": 13 if name == "+" else 10}
        ax.text(at[i], 0, shown[i], ha="center", va="center", zorder=4, **style)
        for source in inputs:
            edge = at[source] + half[source]
            if source == i - 1:
                ax.add_patch(FancyArrowPatch((edge, 0), (at[i] - half[i], 0), **arrow))
                continue
            start = edge + 0.14
            ax.plot([start, start, at[i]], [0, 0.42, 0.42], color=BLUE, linewidth=2.4, solid_joinstyle="miter")
            ax.plot([start], [0], marker="o", color=BLUE, markersize=5, zorder=3)
            ax.add_patch(FancyArrowPatch((at[i], 0.4), (at[i], half[i]), **{**arrow, "color": BLUE, "linewidth": 2.4}))
    ax.add_patch(FancyArrowPatch((right, 0), (right + 0.4, 0), **arrow))
    ax.text(right + 0.5, 0, "y", ha="center", va="center", style="italic", fontsize=13)
    ax.set_xlim(-0.1, max(right + 0.7, 5.2))


@house_style
def block_diagram(blocks: Mapping[str, AddNorm | EncoderLayer]) -> Picture:
    """Draw each block from its trace, under its name: one row a block. Thick arcs are the shortcuts."""
    words = {"A": _("attention"), "M": _("feed-forward")}
    traces = {name: trace(block) for name, block in blocks.items()}
    columns = 2 if max(map(len, traces.values())) < 6 else 1
    rows = -(-len(traces) // columns)
    figure, axes = new_figure(8.6, 1.25 * rows, rows=rows, columns=columns, squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, (name, steps) in zip(axes.flat, traces.items(), strict=False):
        _draw(ax, steps, words)
        ax.set_ylim(-0.25, 0.55)
        ax.set_aspect("equal")
        ax.set_anchor("W")
        ax.set_title(f"{name}:  y = {steps}" if columns == 2 else name, fontsize=11, pad=3)
    read = "; ".join(f"{name}: y = {steps}" for name, steps in traces.items())
    letters = "" if columns == 2 else " " + _("A is the attention, M the feed-forward part.")
    return Picture(figure, _("Drawn from the blocks at work. {read}.").format(read=read) + letters)

"""4.6: move a block's norms and keep its weights."""

import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32
from addnorm_lib.course.exercises.define import NotObservable, exercise
from addnorm_lib.course.exercises.inputs import normal
from addnorm_lib.messages import _


def as_pre_ln(layer):
    """Return a copy of `layer` with its norms moved to the front: Pre-LN, with the same numbers in every parameter.

    `layer` is a torch.nn.TransformerEncoderLayer with norm_first=False; leave it as it is, and let the copy have
    parameters of its own. Whatever else the layer was built with (activation, eps, …) stays.
    """
    import copy

    twin = copy.deepcopy(layer)
    twin.norm_first = True
    return twin


class TransformerEncoderLayer(torch.nn.TransformerEncoderLayer):
    """PyTorch's layer, printed as the call that makes it, so that a message can name it."""

    def __repr__(self):
        shape = f"{self.self_attn.embed_dim}, {self.self_attn.num_heads}, {self.linear1.out_features}"
        options = f"{self.dropout.p}, {self.activation.__name__}, {self.norm1.eps:g}, {self.self_attn.batch_first}"
        return f"TransformerEncoderLayer({shape}, {options})"


def _encoder_layer(seed, **options):
    """Make a layer for d_model = 4 with all parameters drawn anew, the norms' too: γ = 1, β = 0 would hide mistakes."""
    layer = TransformerEncoderLayer(4, 2, dim_feedforward=6, **{"dropout": 0.0, **options})
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 * seed + i) + (parameter.ndim == 1))
    return layer


def _cases():
    with torch.random.fork_rng(devices=[]):
        other = {"dropout": 0.3, "activation": "gelu", "layer_norm_eps": 0.1, "batch_first": True}
        return [(_encoder_layer(1),), (_encoder_layer(2, **other),)]


def _observe(twin, layer):
    if twin is None:
        raise NotObservable(_("your function returned None: is the return missing?"))
    if not isinstance(twin, torch.nn.TransformerEncoderLayer):
        kind = _("a class") if isinstance(twin, type) else type(twin).__name__
        raise NotObservable(_("an nn.TransformerEncoderLayer wanted, got {kind}").format(kind=kind))
    storages = {parameter.data_ptr() for parameter in layer.parameters()}
    numbers = layer.state_dict()
    seen = {
        "norm_first": twin.norm_first,
        "the original's norm_first": layer.norm_first,
        "shared parameters": sum(parameter.data_ptr() in storages for parameter in twin.parameters()),
        "parameters with the original's numbers": sum(
            name in numbers and torch.equal(numbers[name], parameter) for name, parameter in twin.named_parameters()
        ),
        "n_heads": twin.self_attn.num_heads,
        "dropout": twin.dropout.p,
        "layer_norm_eps": twin.norm1.eps,
        "batch_first": twin.self_attn.batch_first,
    }
    x = normal(2, 3, 4) if layer.self_attn.batch_first else normal(2, 4)  # two tokens or more: one shows no heads
    with torch.no_grad():
        return seen | {"output": twin.eval()(x.float())}


def _new(layer, **options):
    """Make a Pre-LN layer of `layer`'s size, with weights of its own and PyTorch's defaults unless told."""
    size = layer.self_attn.embed_dim, layer.self_attn.num_heads, layer.linear1.out_features
    return torch.nn.TransformerEncoderLayer(*size, norm_first=True, **options)


def _rebuilt(layer, **options):
    """Make a new Pre-LN layer and hand `layer`'s weights on."""
    twin = _new(layer, **options)
    twin.load_state_dict(layer.state_dict())
    return twin


def _options(layer):
    return {
        "dropout": layer.dropout.p,
        "activation": layer.activation,
        "layer_norm_eps": layer.norm1.eps,
        "batch_first": layer.self_attn.batch_first,
    }


MISTAKES = """
in place: copy.deepcopy(layer) → layer
    Did you move the norms of the original? Both names now hold one Pre-LN layer; copy first.
copied too late: twin = copy.deepcopy(layer) → layer.norm_first = True;
        twin.norm_first = True → twin = copy.deepcopy(layer)
    Did you set norm_first before you copied? Then the original has moved its norms as well.
nothing moved: twin.norm_first = True →
    Is this still Post-LN? PyTorch's default is norm_first=False.
the original itself: return layer
    Is this the original itself? Make a copy, then set the copy's norm_first.
the norms exchanged, not moved: twin.norm_first = True → twin.norm1, twin.norm2 = twin.norm2, twin.norm1
    Have norm1 and norm2 changed places? That is still Post-LN: norm_first says where the norms stand.
activation lost: return _rebuilt(layer, **_options(layer) | {"activation": "relu"})
    Has the activation gone back to ReLU? It is layer.activation.
shared parameters: copy.deepcopy → copy.copy
    Do both layers share their parameters? Training one would train the other: copy.copy is shallow.
fresh weights: return _new(layer, **_options(layer))
    Are the weights freshly drawn? Then nothing is compared but luck: hand the old ones on.
a brand-new layer: return _new(layer)
    Is this a new layer with PyTorch's defaults? Neither the weights nor the options are those of `layer`.
fresh norms: return twin → twin.norm1, twin.norm2 = torch.nn.LayerNorm(4), torch.nn.LayerNorm(4) ⏎ return twin
    Do the norms start again at γ = 1, β = 0? Theirs are weights too: move the old ones.
options lost: return _rebuilt(layer)
    Is a new layer built with PyTorch's defaults? Hand on activation, eps, dropout and batch_first.
norms swapped: return twin → twin.norm1, twin.norm2 = twin.norm2, twin.norm1 ⏎ return twin
    Have the two norms changed places? norm1 stays with the attention, norm2 with the feed-forward part.
one norm for both: return twin → twin.norm2 = twin.norm1 ⏎ return twin
    Do both sublayers share one norm? Each has its own γ and β.
"""

HINTS = """
Which attribute of the layer says where its norms stand? Look at vars(layer).
copy.deepcopy(layer) keeps everything; then set the copy's norm_first.
"""

EXERCISE = exercise(__doc__, as_pre_ln, _cases, MISTAKES, HINTS, claims="D1", observe=_observe, **FLOAT32)

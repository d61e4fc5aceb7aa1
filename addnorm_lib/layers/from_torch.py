"""Take over the weights of PyTorch's Transformer layers, and refuse what has no counterpart here."""

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import Tensor, nn

from addnorm_lib.layers.norms import name_of

Layer = TypeVar("Layer", bound=nn.Module)
Stack = TypeVar("Stack", bound=nn.Module)


def _one(name: str, values: Iterable[Any]) -> Any:
    """Return the value that all have, or raise."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 1:
        raise ValueError(f"{name}: the same value throughout wanted, got {', '.join(map(repr, distinct))}")
    return distinct[0]


def _check_class(name: str, module: object, wanted: type[nn.Module]) -> None:
    if not isinstance(module, wanted):
        raise TypeError(f"{name}: a torch.nn.{wanted.__name__} wanted, got {type(module).__name__}")
    if type(module).forward is not wanted.forward:
        raise ValueError(
            f"{name}: torch.nn.{wanted.__name__}'s own forward wanted, got {type(module).__name__} with another"
        )


def _check_norm(name: str, norm: nn.Module) -> None:
    if type(norm) not in (nn.LayerNorm, nn.RMSNorm):
        raise ValueError(f"{name}: a torch.nn.LayerNorm or RMSNorm wanted, got {type(norm).__name__}")
    if norm.weight is None or len(norm.normalized_shape) != 1 or norm.eps is None:
        raise ValueError(f"{name}: one over the last axis, with a weight and an eps of its own, wanted, got {norm}")


def _attentions(layer: nn.Module) -> dict[str, nn.MultiheadAttention]:
    pairs = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
    return {ours: getattr(layer, theirs) for ours, theirs in pairs.items() if hasattr(layer, theirs)}


def _norms(layer: nn.Module) -> list[nn.Module]:
    return [getattr(layer, name) for name in ("norm1", "norm2", "norm3") if hasattr(layer, name)]


def layer_arguments(layer: nn.Module, wanted: type[nn.Module]) -> dict[str, Any]:
    """Return what `EncoderLayer` or `DecoderLayer` is built with to be like `layer`, which is to be a `wanted`."""
    _check_class("layer", layer, wanted)
    attentions, norms = _attentions(layer).values(), _norms(layer)
    for attention in attentions:
        _check_class("attention", attention, nn.MultiheadAttention)
        if not attention._qkv_same_embed_dim or attention.bias_k is not None or attention.add_zero_attn:
            raise ValueError("attention: one without kdim, vdim, add_bias_kv and add_zero_attn wanted")
    for norm in norms:
        _check_norm("norm", norm)
    dropouts = [getattr(layer, f"dropout{i}").p for i in range(1, len(norms) + 1)]
    biases = [layer.linear1, layer.linear2, *(a.out_proj for a in attentions)]
    biases += [norm for norm in norms if isinstance(norm, nn.LayerNorm)]
    return {
        "d_model": layer.linear1.in_features,
        "n_heads": _one("n_heads", (a.num_heads for a in attentions)),
        "d_ff": layer.linear1.out_features,
        "placement": "pre" if layer.norm_first else "post",
        "norm": _one("norm", map(name_of, norms)),
        "dropout": _one("dropout", [layer.dropout.p, *dropouts, *(a.dropout for a in attentions)]),
        "eps": _one("eps", (n.eps for n in norms)),
        "activation": copy.deepcopy(layer.activation),
        "bias": _one("bias", (module.bias is not None for module in biases)),
    }


def copy_layer(layer: nn.Module, made: Layer) -> Layer:
    """Give `made`, built from `layer_arguments(layer)`, the weights, dtype, device and mode of `layer`."""
    state: dict[str, Tensor | None] = {}
    for name, attention in _attentions(layer).items():
        biases = [None] * 3 if attention.in_proj_bias is None else attention.in_proj_bias.chunk(3)
        weights = attention.in_proj_weight.chunk(3)
        for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            state |= {f"{name}.{part}.weight": weight, f"{name}.{part}.bias": bias}
        state |= {f"{name}.output.{k}": v for k, v in attention.out_proj.state_dict().items()}
    for part in ("linear1", "linear2", "activation"):
        if isinstance(getattr(layer, part), nn.Module):
            state |= {f"feed_forward.{part}.{k}": v for k, v in getattr(layer, part).state_dict().items()}
    for i, norm in enumerate(_norms(layer), start=1):
        state |= {f"add_norm{i}.norm.{k}": v for k, v in norm.state_dict().items()}
    made.to(layer.linear1.weight)
    made.load_state_dict({k: v for k, v in state.items() if v is not None})
    return made.train(layer.training)


def stack_arguments(stack: nn.Module, wanted: type[nn.Module], layer: type[nn.Module]) -> dict[str, Any]:
    """Return what `Encoder` or `Decoder` is built with to be like `stack`, which is to be a `wanted` of `layer`s."""
    _check_class("stack", stack, wanted)
    if stack.norm is not None:
        _check_norm("final norm", stack.norm)
    arguments = [layer_arguments(part, layer) for part in stack.layers]
    # Each layer has its copy of an activation that is a module.
    common = {k: _one(k, (a[k] for a in arguments)) for k in arguments[0] if k != "activation"}
    common["activation"] = arguments[0]["activation"]
    return {"n_layers": len(arguments), **common, "final_norm": stack.norm is not None}


def copy_stack(stack: nn.Module, made: Stack) -> Stack:
    """Give `made`, built from `stack_arguments(stack, ...)`, the weights, dtype, device and mode of `stack`."""
    for theirs, ours in zip(stack.layers, made.layers, strict=True):
        ours.feed_forward.activation = copy.deepcopy(theirs.activation)
        copy_layer(theirs, ours)
    made.final_norm = copy.deepcopy(stack.norm)
    made.training = stack.training
    return made

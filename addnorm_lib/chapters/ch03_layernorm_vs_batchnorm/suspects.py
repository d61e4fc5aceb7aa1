"""Seven functions that claim to be layer norm (one of them is), for the reader to run and to compare: exercise 3.9."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from addnorm_lib.course.exercises.source import Source


def suspect_a(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    mean = x.mean(dim=-1, keepdim=True)
    var = (x**2).mean(dim=-1, keepdim=True) - mean**2
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def suspect_b(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    mean = x.mean(dim=-1, keepdim=True)
    var = x.var(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def suspect_c(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    mean = x.mean(dim=-1, keepdim=True)
    var = x.var(dim=-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps) * weight[:, None] + bias[:, None]


def suspect_d(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    centred = x - x.mean(dim=-1, keepdim=True)
    var = (centred**2).mean(dim=-1, keepdim=True)
    return centred * torch.rsqrt(var + eps) * weight + bias


def suspect_e(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    mean = x.mean(dim=-1, keepdim=True)
    std = x.std(dim=-1, correction=0, keepdim=True)
    return (x - mean) / (std + eps) * weight + bias


def suspect_f(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    mean = x.mean(dim=1, keepdim=True)
    var = x.var(dim=1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def suspect_g(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Is this layer norm?"""
    x -= x.mean(dim=-1, keepdim=True)
    var = (x**2).mean(dim=-1, keepdim=True)
    return x / torch.sqrt(var + eps) * weight + bias


SUSPECTS: dict[str, Callable[[Tensor, Tensor, Tensor, float], Tensor]] = {
    "A": suspect_a,
    "B": suspect_b,
    "C": suspect_c,
    "D": suspect_d,
    "E": suspect_e,
    "F": suspect_f,
    "G": suspect_g,
}


def show_suspects() -> Source:
    """Show the source of all suspects, A to G, without the docstring that they share."""
    question = f'    """{suspect_a.__doc__}"""\n'
    return Source("\n\n".join(inspect.getsource(one).replace(question, "").strip() for one in SUSPECTS.values()))

"""From the public call to a backend: validation, autocast, dispatch; the kernels under autograd and torch.compile."""

import contextlib
import importlib.util
import math
import os

import torch
from torch import Tensor
from torch.autograd import forward_ad

from addnorm_lib.fused import eager

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_TRITON_INSTALLED = importlib.util.find_spec("triton") is not None
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_MAX_FEATURES = 65536  # the widest row for which the kernels' tiles were compiled and checked
_SMALLEST_EPS = torch.finfo(torch.float32).tiny


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: a torch.Tensor wanted, got {type(value).__name__}")
    if value.is_nested or value.layout is not torch.strided:
        raise TypeError(f"{name}: a dense tensor wanted, got {'nested' if value.is_nested else value.layout}")
    if value.dtype not in _DTYPES:
        raise TypeError(f"{name}: float16, bfloat16, float32 or float64 wanted, got {value.dtype}")


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: a number wanted, got {type(value).__name__}")


def _check(x, residual, weight, bias, norm, eps, alpha, dropout_p, backend) -> None:
    _check_tensor("x", x)
    _check_tensor("residual", residual)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"x: shape (..., D) with D >= 1 wanted, got {tuple(x.shape)}")
    if residual.shape != x.shape:
        raise ValueError(f"residual: the shape of x, {tuple(x.shape)}, wanted, got {tuple(residual.shape)}")
    if residual.device != x.device:
        raise ValueError(f"residual: the device of x, {x.device}, wanted, got {residual.device}")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is None:
            continue
        _check_tensor(name, parameter)
        if parameter.shape != x.shape[-1:]:
            raise ValueError(
                f"{name}: shape {(x.shape[-1],)} wanted, one number a feature, got {tuple(parameter.shape)}"
            )
        if parameter.device != x.device:
            raise ValueError(f"{name}: the device of x, {x.device}, wanted, got {parameter.device}")
    if norm not in ("layer", "rms"):
        raise ValueError(f"norm: 'layer' or 'rms' wanted, got {norm!r}")
    if backend not in ("auto", "triton", "eager"):
        raise ValueError(f"backend: 'auto', 'triton' or 'eager' wanted, got {backend!r}")
    _check_number("eps", eps)
    if not _SMALLEST_EPS <= eps < math.inf:
        raise ValueError(f"eps: a positive number, at least {_SMALLEST_EPS:.3g}, wanted, got {eps}")
    _check_number("alpha", alpha)
    if not -math.inf < alpha < math.inf:
        raise ValueError(f"alpha: a finite number wanted, got {alpha}")
    _check_number("dropout_p", dropout_p)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p: a probability, 0 to 1, wanted, got {dropout_p}")


def _launch():
    """Import the kernels where they are needed first: `import addnorm_lib` shall not cost an import of Triton."""
    from addnorm_lib.fused import launch

    return launch


def _kernels_run_on(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (7, 5)


# What torch.compiler.assume_constant_result does, but that imports the compiler (and Triton): .8 s at every import.
_kernels_run_on._dynamo_marked_constant = True


def _choose_triton(x: Tensor, backend: str) -> bool:
    """Decide between the kernels and the eager path, or refuse `backend="triton"`."""
    if backend == "triton":
        if not _TRITON_INSTALLED:
            raise ValueError("backend: 'triton' needs Triton, which is not installed; use 'auto' or 'eager'")
        if not (_INTERPRETED or x.device.type == "cuda"):
            raise ValueError(
                f"backend: 'triton' wants x on a CUDA device, got {x.device}, or TRITON_INTERPRET=1 in the environment "
                "before Triton's first import; use 'auto' or 'eager'"
            )
        if x.device.type == "cuda" and not _kernels_run_on(x.device):
            raise ValueError("backend: 'triton' wants compute capability 7.5 or later; use 'auto' or 'eager'")
        if x.shape[-1] > _MAX_FEATURES:
            raise ValueError(
                f"backend: 'triton' takes D up to {_MAX_FEATURES}, got {x.shape[-1]}; use 'auto' or 'eager'"
            )
    elif backend == "eager" or not (
        _TRITON_INSTALLED and x.device.type == "cuda" and x.shape[-1] <= _MAX_FEATURES and _kernels_run_on(x.device)
    ):
        return False
    return not torch._C._are_functorch_transforms_active() and forward_ad._current_level < 0


def _remember(ctx, inputs, output) -> None:
    x, _, weight, bias, seed, ctx.norm, ctx.eps, ctx.alpha, ctx.dropout_p, *_ = inputs
    _, s, mean, rstd = output[:4]
    ctx.set_materialize_grads(False)
    # s is an output, so a second derivative reaches x and residual through it; neither of them need be kept.
    ctx.save_for_backward(s, weight, mean, rstd, seed)
    ctx.x_dtype, ctx.bias_dtype = x.dtype, None if bias is None else bias.dtype


def _gradients(ctx, dy: Tensor | None, ds: Tensor | None, run, differentiable: bool):
    """The gradients of x, residual, weight and bias: by `run`, or by torch's operators where those must be recorded."""
    s, weight, mean, rstd, seed = ctx.saved_tensors
    x_wanted, residual_wanted, weight_wanted, bias_wanted = ctx.needs_input_grad[:4]
    if dy is None and ds is None:
        return None, None, None, None
    if dy is None or differentiable:
        return eager.gradients(
            dy, ds, s, weight, seed, ctx.norm, ctx.eps, ctx.alpha, ctx.dropout_p, ctx.x_dtype, ctx.bias_dtype
        )
    return run(
        dy, ds, s, weight, mean, rstd, seed, ctx.norm, ctx.alpha, ctx.dropout_p,
        ctx.x_dtype if x_wanted else None,
        residual_wanted,
        weight.dtype if weight_wanted else None,
        ctx.bias_dtype if bias_wanted else None,
    )  # fmt: skip


class _AddNorm(torch.autograd.Function):
    """The kernels under autograd in eager mode, where a custom operator's call would cost several times as much."""

    @staticmethod
    def forward(*arguments):
        return _launch().forward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.mark_non_differentiable(*(t for t in output[2:] if t is not None))
        _remember(ctx, inputs, output)

    @staticmethod
    def backward(ctx, dy, ds, *_):
        # Grad mode is on here when the caller wants a second derivative; a transform is active when he wants many rows
        # of a Jacobian at once.
        differentiable = torch.is_grad_enabled() or torch._C._are_functorch_transforms_active()
        return *_gradients(ctx, dy, ds, _launch().backward, differentiable), *(None,) * 6


# Under torch.compile the kernels are two opaque operators. An operator returns tensors only: an empty one stands for
# what is not there.


def _or_empty(t: Tensor | None, like: Tensor) -> Tensor:
    return like.new_empty(0) if t is None else t


@torch.library.custom_op("addnorm::forward", mutates_args=())
def _forward_op(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    norm: str,
    eps: float,
    alpha: float,
    dropout_p: float,
    out_dtype: torch.dtype,
    keep_sum: bool,
    keep_statistics: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    y, *kept = _launch().forward(
        x, residual, weight, bias, seed, norm, eps, alpha, dropout_p, out_dtype, keep_sum, keep_statistics
    )
    return y, *(_or_empty(t, x) for t in kept)


@_forward_op.register_fake
def _(x, residual, weight, bias, seed, norm, eps, alpha, dropout_p, out_dtype, keep_sum, keep_statistics):
    y = torch.empty(x.shape, dtype=out_dtype, device=x.device)
    s = torch.empty(x.shape, dtype=residual.dtype, device=x.device) if keep_sum else x.new_empty(0)
    rows = math.prod(x.shape[:-1])
    rstd = x.new_empty(rows, dtype=eager.statistics_dtype(residual.dtype)) if keep_statistics else x.new_empty(0)
    return y, s, torch.empty_like(rstd) if norm == "layer" else x.new_empty(0), rstd


@torch.library.custom_op("addnorm::backward", mutates_args=())
def _backward_op(
    dy: Tensor,
    ds: Tensor | None,
    s: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    seed: Tensor | None,
    norm: str,
    alpha: float,
    dropout_p: float,
    x_dtype: torch.dtype | None,
    residual_wanted: bool,
    weight_dtype: torch.dtype | None,
    bias_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dx, dresidual, *parameters = _launch().backward(
        dy, ds, s, weight, mean if norm == "layer" else None, rstd, seed, norm, alpha, dropout_p,
        x_dtype, residual_wanted, weight_dtype, bias_dtype,
    )  # fmt: skip
    if dresidual is dx:  # an operator's outputs may not share memory; the caller knows when they would
        dresidual = None
    return tuple(_or_empty(t, s) for t in (dx, dresidual, *parameters))


@_backward_op.register_fake
def _(
    dy, ds, s, weight, mean, rstd, seed, norm, alpha, dropout_p, x_dtype, residual_wanted, weight_dtype, bias_dtype
):  # fmt: skip
    one_buffer = alpha == 1.0 and dropout_p == 0.0 and x_dtype == s.dtype
    return (
        s.new_empty(0) if x_dtype is None else torch.empty_like(s, dtype=x_dtype),
        torch.empty_like(s) if residual_wanted and not one_buffer else s.new_empty(0),
        *(
            s.new_empty(0) if dtype is None else s.new_empty(s.shape[-1], dtype=dtype)
            for dtype in (weight_dtype, bias_dtype)
        ),
    )


def _compiled_gradients(ctx, dy, ds, *_):
    def run(*arguments):
        dx, dresidual, *parameters = _backward_op(*arguments)
        one_buffer = ctx.alpha == 1.0 and ctx.dropout_p == 0.0 and arguments[10] == arguments[2].dtype
        return dx, dx if one_buffer else dresidual, *parameters

    gradients = _gradients(ctx, dy, ds, run, differentiable=False)
    wanted = (g if needed else None for g, needed in zip(gradients, ctx.needs_input_grad, strict=False))
    return *wanted, *(None,) * 8


_forward_op.register_autograd(_compiled_gradients, setup_context=_remember)


def add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    norm: str,
    eps: float,
    alpha: float,
    dropout_p: float,
    return_sum: bool,
    backend: str,
) -> tuple[Tensor, Tensor | None]:
    """Check the arguments of `addnorm_lib.fused.add_norm`, choose a backend and run it."""
    _check(x, residual, weight, bias, norm, eps, alpha, dropout_p, backend)
    autocast = x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)
    if autocast:
        residual = residual.to(torch.promote_types(x.dtype, residual.dtype))
    if torch.promote_types(x.dtype, residual.dtype) != residual.dtype:
        raise TypeError(f"residual: the dtype of x, {x.dtype}, or a wider one wanted, got {residual.dtype}")
    fused = _choose_triton(x, backend)
    seed = torch.randint(2**32, (2,), device=x.device) if dropout_p > 0.0 else None
    # On every device but the CPU torch's autocast runs layer_norm and rms_norm in float32.
    out_dtype = eager.statistics_dtype(x.dtype) if autocast and x.device.type != "cpu" else x.dtype
    arguments = (x, residual, weight, bias, seed, norm, float(eps), float(alpha), float(dropout_p), out_dtype)
    with torch.autocast(x.device.type, enabled=False) if autocast else contextlib.nullcontext():
        if not fused:
            return eager.add_norm(*arguments)
        differentiate = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in arguments[:4])
        if torch.compiler.is_compiling():
            y, s, *_ = _forward_op(*arguments, differentiate or return_sum, differentiate)
        elif differentiate:
            y, s, *_ = _AddNorm.apply(*arguments)
        else:
            y, s, *_ = _launch().forward(*arguments, keep_sum=return_sum, keep_statistics=False)
        return y, s

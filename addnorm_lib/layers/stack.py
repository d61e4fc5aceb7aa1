"""What `Encoder` and `Decoder` have in common: layers of one class, each on the stream that the last one left open."""

import copy
from typing import Any, ClassVar, Self, Unpack

from torch import Tensor, nn

from addnorm_lib.layers import from_torch
from addnorm_lib.layers.checks import check_count, check_flag
from addnorm_lib.layers.options import LayerOptions
from addnorm_lib.layers.stream import Stream, through


class LayerStack(nn.Module):
    """`n_layers` layers of `layer_class`, and a final norm where it is told so.

    `torch_classes` are PyTorch's stack and layer whose weights `from_torch` takes.
    """

    layer_class: ClassVar[type[nn.Module]]
    torch_classes: ClassVar[tuple[type[nn.Module], type[nn.Module]]]

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        final_norm: bool,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__()
        check_count("n_layers", n_layers)
        check_flag("final_norm", final_norm)
        self.layers = nn.ModuleList(self.layer_class(d_model, n_heads, d_ff, **options) for _ in range(n_layers))
        # The final norm is of the layers' kind, with their eps and bias.
        block = self.layers[-1].add_norm1
        self.final_norm = copy.deepcopy(block.norm) if final_norm else None
        self.backend = block.backend

    @classmethod
    def _from_torch(cls, stack: nn.Module, causal: bool) -> Self:
        return from_torch.copy_stack(stack, cls(**from_torch.stack_arguments(stack, *cls.torch_classes), causal=causal))

    def _through_layers(self, x: Tensor, *memory: Tensor, **masks: Any) -> Tensor:
        stream = Stream(x)
        for layer in self.layers:
            stream = through(layer, stream, *memory, **masks)
        return stream.sum() if self.final_norm is None else stream.norm(self.final_norm, self.backend)

"""The Transformer's Add & Norm: reference formulas, a fused core, probes, live panels and checked exercises."""

from addnorm_lib.fused import add_norm

__all__ = ["add_norm"]
__version__ = "0.1.0"

"""The Transformer's Add & Norm: reference formulas, a fused core, probes, live panels and checked exercises."""

__version__ = "0.1.0"

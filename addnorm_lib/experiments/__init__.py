"""Experiments, one module a question."""

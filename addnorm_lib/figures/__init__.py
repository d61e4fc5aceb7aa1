"""Matplotlib figures that describe themselves in words."""

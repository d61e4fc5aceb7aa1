"""Matplotlib figures that describe themselves in words: what all of them share."""

"""Experiments: data, the training of many runs at once, and the networks that several chapters train."""

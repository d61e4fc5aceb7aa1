"""Exercises: check, hint, solution, progress."""

"""What every chapter uses: exercises that are checked on the spot."""

from addnorm_lib.course.exercises.session import check, hint, mistakes, progress, solution

__all__ = ["check", "hint", "mistakes", "progress", "solution"]

"""What every chapter uses: claims that are checked against a measurement, exercises that are checked on the spot."""

from addnorm_lib.course.assertions import claim, claims
from addnorm_lib.course.exercises.session import check, hint, mistakes, progress, solution

__all__ = ["check", "claim", "claims", "hint", "mistakes", "progress", "solution"]

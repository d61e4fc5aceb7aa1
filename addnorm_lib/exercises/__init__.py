"""The former home of the exercises; what is not yet in a chapter's folder still stands here."""

from addnorm_lib.course.exercises.registry import chapter
from addnorm_lib.course.exercises.session import check, hint, progress, solution

__all__ = ["chapter", "check", "hint", "progress", "solution"]

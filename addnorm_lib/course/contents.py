"""What the course contains: found in the chapters' folders, so that nothing lists them a second time."""

import pkgutil
import re
from functools import cache
from importlib import import_module

_CHAPTERS = "addnorm_lib.chapters"


def modules(package: str, pattern: str) -> list[str]:
    """Return the modules and folders of a package whose names fit the pattern, in their order."""
    names = [module.name for module in pkgutil.iter_modules(import_module(package).__path__)]
    return sorted(name for name in names if re.fullmatch(pattern, name))


@cache
def chapters() -> dict[int, str]:
    """Return each chapter's package by its number: `addnorm_lib.chapters.ch03_…` by 3."""
    return {int(name[2:4]): f"{_CHAPTERS}.{name}" for name in modules(_CHAPTERS, r"ch\d\d_\w+")}

"""Checks of what layers are built with: each names the argument, what was wanted and what came."""

from collections.abc import Collection


def check_count(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: a whole number of at least 1 wanted, got {value!r}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name}: one of {', '.join(choices)} wanted, got {value!r}")


def check_probability(name: str, value: float) -> None:
    """Raise ValueError unless `value` lies in 0 to 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: a probability from 0 to 1 wanted, got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Raise ValueError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: True or False wanted, got {value!r}")

"""What comes of judging an answer."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verdict:
    """The judgement on an answer; `misconception` is the name of the wrong answer that was recognised, if any."""

    state: Literal["solved", "open", "wrong"]
    text: str
    misconception: str | None = None

"""Inside a notebook's kernel: write down what every `claim` measures, and let the notebook go on where one fails."""

import json
from pathlib import Path
from typing import Any


def start(path: str) -> None:
    """Put a recorder in the place of `claim`; it appends a JSON line a call to the file."""
    from IPython import get_ipython

    from addnorm_lib import course
    from addnorm_lib.course import assertions

    out, calls, at = Path(path), {}, [0]

    def begin(_info: Any) -> None:
        at[0] += 1

    def claim(claim_id: str, measured: Any, expected: Any = None, *, says: str | None = None, **bounds: Any) -> None:
        asserted = assertions.assertion(measured, expected, **bounds)
        calls[at[0]] = calls.get(at[0], -1) + 1
        told = {
            "cell": at[0],
            "call": calls[at[0]],
            "claim": claim_id,
            "says": says or assertions.statements()[claim_id],
            "asserted": asserted.text,
            "measured": asserted.measured.tolist(),
            "low": asserted.low.tolist(),
            "high": asserted.high.tolist(),
            "holds": bool(asserted.holds.all()) and asserted.truth,
        }
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    course.claim = assertions.claim = claim
    get_ipython().events.register("pre_run_cell", begin)

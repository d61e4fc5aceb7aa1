"""How far each claim stands from its bound: measured over other processors' instructions and other random numbers.

A margin is a share: 0 at the bound, 1 where the measurement is in the middle of its band, at twice a lower bound or at
nothing of an upper one. What is at most 1 by nature (a share, a cosine, a correlation) and has a bound above ½ is
measured by its distance from 1 where that is the fairer scale; where the bound is 0, by its own median.
"""

import itertools
import json
import math
import multiprocessing
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from tools.kernels import execute
from tools.refresh import read
from tools.settings import Setting, instruction_sets
from tools.setup_cell import ROOT

RESEEDED = Path(__file__).with_name("reseeded")
HEAD = """# Margins

How near each claim about numbers comes to its bound: the nearest measurement of all runs counts. The notebook's own
random numbers are run under every set of instructions that the processor has, each other set of random numbers under
one of them in turn. Written by `python -m tools.notebooks margins -o docs/margins.md`.

A margin is a share: 0 at the bound, 1 in the middle of a band, at twice a lower bound, or at nothing of an upper one.
Shares, cosines and correlations with a bound above ½ are measured by their distance from 1 where that is the fairer
scale; where the bound is 0, the scale is the median of what was measured.

"""
NEAR = 0.1  # a claim nearer than this to its bound wants a better experiment


@dataclass(frozen=True)
class Margin:
    """A claim's smallest margin over all runs, with the measurement that came nearest to the bound, and where."""

    chapter: str
    claim: str
    says: str
    asserted: str
    margin: float
    nearest: float
    where: str
    runs: int


def record(path: Path, setting: Setting, seed_set: int, out: Path) -> Path:
    """Run a copy of the notebook with every seed moved, and write what its claims measured to `out`."""
    notebook, draft = read(path), out.with_suffix(".new")
    draft.unlink(missing_ok=True)
    probe = nbformat.v4.new_code_cell(f"from tools import claim_recorder; claim_recorder.start({str(draft)!r})")
    notebook.cells.insert(0, probe)
    with tempfile.TemporaryDirectory(prefix="addnorm-") as name:
        changes = setting.environment(Path(name) / "records", Path(name) / "texts")
        path_of = [str(RESEEDED), changes.get("PYTHONPATH", ""), str(ROOT), os.environ.get("PYTHONPATH", "")]
        changes |= {"PYTHONPATH": os.pathsep.join(filter(None, path_of)), "ADDNORM_SEEDS": str(seed_set)}
        execute(notebook, path.parent, changes, allow_errors=True)
    draft.replace(out)
    return out


def _scaled(value: float, low: float, high: float, typical: float) -> float:
    """Return the margin of one measured number."""
    if not math.isfinite(value):
        return math.inf if (value > low and math.isinf(high)) or (value < high and math.isinf(low)) else -math.inf
    if math.isfinite(low) and math.isfinite(high):
        return min(value - low, high - value) / ((high - low) / 2)
    bound, beyond = (low, value - low) if math.isfinite(low) else (high, high - value)
    scales = [abs(bound)] if bound else [typical or math.inf]
    if 0.5 < bound < 1 and value <= 1:
        scales.append(1 - bound)
    return max(beyond / scale for scale in scales)


def summarise(chapter: str, runs: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[Margin]:
    """Return the margins of a chapter's claims from the records of its runs, (name of the run, lines)."""
    calls: dict[tuple[int, int], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for name, lines in runs:
        for line in lines:
            calls[line["cell"], line["call"]].append((name, line))
    found = []
    for told in calls.values():
        first = told[0][1]
        if not first["measured"]:  # a boolean has no margin, but has to hold in every run
            broken = [name for name, line in told if not line["holds"]]
            if broken:
                found.append(Margin(chapter, first["claim"], first["says"], "true", -1, math.nan, broken[0], len(told)))
            continue
        typical = statistics.median(abs(v) for _name, line in told for v in line["measured"])
        numbers = [
            (_scaled(value, low, high, typical), value, name)
            for name, line in told
            for value, low, high in zip(line["measured"], line["low"], line["high"], strict=True)
            if low < high
        ]
        if numbers:
            margin, nearest, where = min(numbers)
            found.append(
                Margin(chapter, first["claim"], first["says"], first["asserted"], margin, nearest, where, len(told))
            )
    return sorted(found, key=lambda m: m.margin)


def measure(paths: Sequence[Path], seed_sets: int, folder: Path, report=print) -> dict[str, list[Margin]]:
    """Run every notebook with its own seeds under all instructions and with others in turn; `folder` keeps the records.

    Two run at a time. A run whose record is in the folder is not repeated.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jobs = {}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        isas = instruction_sets()
        for seed_set, path, isa in itertools.product(range(seed_sets), paths, isas):
            if seed_set and isa != isas[seed_set % len(isas)]:
                continue
            out = folder / f"{path.stem}-{isa}-{seed_set}.jsonl"
            if not out.exists():
                jobs[pool.submit(record, path, Setting(isa), seed_set, out)] = out
        for done, future in enumerate(as_completed(jobs), 1):
            report(f"{done}/{len(jobs)} {future.result().stem}")
    margins = {}
    for path in paths:
        kept = sorted(folder.glob(f"{path.stem}-*-*.jsonl"))
        runs = [(_named(file), [json.loads(x) for x in file.read_text("utf-8").splitlines()]) for file in kept]
        margins[path.stem] = summarise(path.stem, runs)
    return margins


def _named(file: Path) -> str:
    instructions, seed_set = file.stem.rsplit("-", 2)[1:]
    return f"{instructions}, seeds {seed_set}"


def table(margins: dict[str, list[Margin]], shown: int = 8) -> str:
    """Return a Markdown page: the smallest margins of each chapter."""
    lines = []
    for chapter, found in margins.items():
        near, runs = sum(m.margin < NEAR for m in found), max((m.runs for m in found), default=0)
        lines += [
            f"## {chapter}",
            "",
            f"{len(found)} claims about numbers in {runs} runs, {near} nearer than a tenth to their bound.",
            "",
        ]
        lines += [
            "| claim | what | measured, nearest | asserted | margin | there |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {m.claim} | {m.says.replace('|', '¦')} | {m.nearest:.3g} | {m.asserted} | {m.margin:.2f} | {m.where} |"
            for m in found[:shown]
        ]
        lines.append("")
    return "\n".join(lines)

"""Finished trainings kept in a folder, for whoever runs the same chapter again: set ADDNORM_RECORDS to the folder.

A record is found again by everything that decides its numbers: the Run, the data, this package's sources, torch's
version, and the processor's instructions as torch and MKL use them. A change to any of these trains anew.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from addnorm_lib.experiments.data import Dataset
from addnorm_lib.experiments.results import Record, Results, Run


def folder() -> Path | None:
    """Return the folder that ADDNORM_RECORDS names, or None."""
    name = os.environ.get("ADDNORM_RECORDS")
    return Path(name) if name else None


@functools.cache
def _sources() -> str:
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def key(run: Run, dataset: Dataset, device: str) -> str | None:
    """Return the name under which the run's record is kept; None for a run that cannot be told from another."""
    fields = {f.name: _plain(getattr(run, f.name)) for f in dataclasses.fields(Run)}
    setting = [torch.__version__, torch.backends.cpu.get_cpu_capability(), os.environ.get("MKL_CBWR")]
    try:
        text = json.dumps([fields, device, _sources(), *setting], sort_keys=True)
    except TypeError:  # a model or an option without a name that a file could hold
        return None
    digest = hashlib.sha256(text.encode())
    for array in (dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]


def find(run: Run, name: str) -> Record | None:
    """Return the record kept under that name, or None: also where its file is broken."""
    where = folder()
    if where is None:
        return None
    try:
        return dataclasses.replace(Results.load(where / f"{name}.npz")[0], run=run)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def keep(record: Record, name: str) -> None:
    """Keep the record under that name, in one step; a folder that cannot be written keeps nothing."""
    where = folder()
    if where is None:
        return
    draft = where / f"{name}.{os.getpid()}.new"
    try:
        where.mkdir(parents=True, exist_ok=True)
        Results((record,)).save(draft)
        draft.replace(where / f"{name}.npz")
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()

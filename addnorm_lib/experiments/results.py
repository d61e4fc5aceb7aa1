"""What to train (`Run`), what came out (`Record`), and a table of both (`Results`) that fits into one file."""

import dataclasses
import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True)
class Run:
    """One configuration, trained once for every seed.

    model: what builds one network, `model(**options)`: a callable, or "module:name". A callable that can be imported is
        kept as its name, so that a Run travels to other machines and into files.
    data: a name that `data.load` knows, with `data_options`.
    optimiser: "sgd" (with `momentum`) or "adam". The learning rate rises linearly from lr/warmup to `lr` over the first
        `warmup` steps; then it stays ("constant") or falls as √(warmup/step) ("inverse_sqrt", Vaswani et al. 2017,
        section 5.3).
    record_every: gradient norms and activation scales are taken at every so many steps; the loss at every step.
    activations, responses: which modules' outputs to measure, by dotted name with `*` for one part.
    keep_state: keep the trained weights in the Record.

    Raises ValueError on a value that no training could use.
    """

    model: Callable[..., nn.Module] | str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: str = "digits"
    data_options: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    steps: int = 200
    batch_size: int = 128
    optimiser: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.05
    momentum: float = 0.9
    warmup: int = 0
    schedule: Literal["constant", "inverse_sqrt"] = "constant"
    dtype: Literal["float32", "float64"] = "float32"
    record_every: int = 10
    activations: str = "blocks.*"
    responses: str = "blocks.*.branch"
    keep_state: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "batch_size": 1, "record_every": 1, "warmup": 0}.items():
            if not _is_count(getattr(self, name), least):
                raise ValueError(f"{name}: a whole number of at least {least} wanted, got {getattr(self, name)!r}")
        for name, choices in {
            "optimiser": ("sgd", "adam"),
            "schedule": ("constant", "inverse_sqrt"),
            "dtype": ("float32", "float64"),
        }.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}: one of {', '.join(choices)} wanted, got {getattr(self, name)!r}")
        seeds = tuple(int(seed) for seed in self.seeds)
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError(f"seeds: one or more different numbers from 0 on wanted, got {self.seeds!r}")
        if not self.lr > 0:
            raise ValueError(f"lr: a number above 0 wanted, got {self.lr!r}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum: a number from 0 to below 1 wanted, got {self.momentum!r}")
        if self.schedule == "inverse_sqrt" and self.warmup < 1:
            raise ValueError("warmup: at least 1 wanted with schedule='inverse_sqrt', got 0")
        object.__setattr__(self, "seeds", seeds)
        object.__setattr__(self, "options", dict(self.options))
        object.__setattr__(self, "data_options", dict(self.data_options))
        object.__setattr__(self, "model", _importable_name(self.model))

    def build(self) -> nn.Module:
        """Return one network, drawn from torch's global random numbers.

        Raises what the model itself raises on its options, and ValueError when `model` cannot be found.
        """
        if not isinstance(self.model, str):
            return self.model(**self.options)
        module, separator, name = self.model.partition(":")
        try:
            if not separator:
                raise AttributeError("no ':' in it")
            builder = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"model: a callable or 'module:name' wanted, got {self.model!r} ({error})") from error
        return builder(**self.options)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of step 0, 1, …"""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        return self.lr * (self.warmup / (step + 1)) ** 0.5 if self.schedule == "inverse_sqrt" else self.lr

    def value(self, name: str) -> Any:
        """Return the field or the model's option of that name, or None."""
        return self.options[name] if name in self.options else getattr(self, name, None)


def _importable_name(model: Callable[..., nn.Module] | str) -> Callable[..., nn.Module] | str:
    if isinstance(model, str):
        return model
    if not callable(model):
        raise ValueError(f"model: a callable or 'module:name' wanted, got {model!r}")
    module, name = getattr(model, "__module__", None), getattr(model, "__qualname__", "<")
    if module in (None, "__main__", "__mp_main__") or "." in name or "<" in name:
        return model
    return f"{module}:{name}"


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (options, fields): what is a field of Run, and what is left for the model."""
    fields = {name: value for name, value in settings.items() if name in Run.__dataclass_fields__}
    return {name: value for name, value in settings.items() if name not in fields}, fields


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """What one Run gave. S seeds, T steps, R recorded steps, P weight matrices, A and Q measured modules.

    loss (S, T): the mini-batch's loss before each step; NaN after a divergence stopped the run.
    recorded (R,): the steps at which the following were taken (before the update).
    gradient_norm (S, R, P): Frobenius norm of each weight's gradient; `weights` names them, in the model's order.
    activation_std (S, R, A), response_std (S, R, Q): standard deviation over batch and features of the outputs of the
        modules that `Run.activations` and `Run.responses` name.
    train_loss, test_loss, train_error, test_error (S,): at the end, in evaluation mode, on at most 2048 samples each;
        an error is a share of wrong answers, NaN for regression. diverged (S,): the loss stopped being finite.
    seconds: wall time. state: the trained weights, each (S, ...), where `Run.keep_state` asks for them.
    """

    run: Run
    loss: NDArray[np.float64]
    recorded: NDArray[np.int64]
    weights: tuple[str, ...]
    gradient_norm: NDArray[np.float64]
    activation_std: NDArray[np.float64]
    response_std: NDArray[np.float64]
    train_loss: NDArray[np.float64]
    test_loss: NDArray[np.float64]
    train_error: NDArray[np.float64]
    test_error: NDArray[np.float64]
    diverged: NDArray[np.bool_]
    seconds: float
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Record({self.run!r}, train_loss={np.array2string(self.train_loss, precision=4)})"


_ARRAYS = [f.name for f in dataclasses.fields(Record) if f.name not in ("run", "weights", "seconds", "state")]


@dataclass(frozen=True, eq=False, repr=False)
class Results(Sequence[Record]):
    """Records in the order of the runs that were asked for. `interrupted`: the reader stopped before all were done."""

    records: tuple[Record, ...]
    interrupted: bool = False

    def __repr__(self) -> str:
        return f"Results({len(self)} records{', interrupted' if self.interrupted else ''})"

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:  # type: ignore[override]
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __add__(self, other: "Results") -> "Results":
        return Results(self.records + other.records, self.interrupted or other.interrupted)

    def where(self, **wanted: Any) -> "Results":
        """Return the records whose Run has these fields or model options: `where(kind="plain", depth=24)`."""
        matches = (r for r in self if all(r.run.value(name) == value for name, value in wanted.items()))
        return Results(tuple(matches), self.interrupted)

    def one(self, **wanted: Any) -> Record:
        """Return the only record that `where` finds. Raises KeyError when there are none or several."""
        found = self.where(**wanted)
        if len(found) != 1:
            why = " (the training was interrupted)" if self.interrupted else ""
            raise KeyError(f"{len(found)} records with {wanted}{why}, one wanted")
        return found[0]

    def values(self, name: str) -> list[Any]:
        """Return that field or model option of every run, in order: `values("depth")`."""
        return [record.run.value(name) for record in self]

    def column(self, name: str) -> NDArray[Any]:
        """Return one array of every record, stacked: `column("train_loss")` is (runs, seeds)."""
        return np.stack([getattr(record, name) for record in self])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one compressed .npz file. Raises ValueError for a model without an importable name."""
        arrays: dict[str, Any] = {}
        heads = []
        for i, record in enumerate(self):
            if not isinstance(record.run.model, str):
                raise ValueError(f"model: {record.run.model!r} has no importable name, so a file cannot refer to it")
            run = {f.name: getattr(record.run, f.name) for f in dataclasses.fields(Run)}
            heads.append({"run": run, "weights": record.weights, "seconds": record.seconds})
            arrays |= {f"{i}/{name}": getattr(record, name) for name in _ARRAYS}
            arrays |= {f"{i}/state/{name}": value for name, value in record.state.items()}
        head = json.dumps({"records": heads, "interrupted": self.interrupted})
        with open(path, "wb") as file:
            np.savez_compressed(file, head=np.array(head), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Results":
        """Read what `save` wrote. Nothing in the file is executed or imported."""
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(str(file["head"]))
            records = []
            for i, entry in enumerate(head["records"]):
                state = {k.removeprefix(f"{i}/state/"): file[k] for k in file.files if k.startswith(f"{i}/state/")}
                arrays = {name: file[f"{i}/{name}"] for name in _ARRAYS}
                weights, seconds = tuple(entry["weights"]), entry["seconds"]
                records.append(Record(Run(**entry["run"]), weights=weights, seconds=seconds, state=state, **arrays))
        return cls(tuple(records), head["interrupted"])

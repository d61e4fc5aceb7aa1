"""Train many small networks at once: the seeds of one Run as one stacked network, the Runs side by side.

S small matrix products become one batched product (`network_stack`). The losses of the seeds are summed before the
backward pass: each seed's weights see the gradient of its own loss only, and SGD and
Adam work element by element, so every seed trains as it would alone: to rounding. (In float32 rounding may grow in
deep nets, where one ReLU that opens a step earlier changes what follows; in plain nets of 24 blocks it does in float64.
The statistics over seeds are what repeats there, not the digits of one curve.)

Everything runs on one thread a Run: at these sizes two threads are slower than one, and the numbers repeat.
"""

import concurrent.futures as cf
import contextlib
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments import records
from addnorm_lib.experiments.data import Dataset
from addnorm_lib.experiments.network_stack import NetworkStack, build
from addnorm_lib.experiments.progress import progress_bar
from addnorm_lib.experiments.results import Record, Results, Run
from addnorm_lib.messages import _
from addnorm_lib.processes import follow_parent, without_main

_EVALUATED = 2048
_CHUNK = 512


class Stopped(Exception):
    """Training was asked to stop before its last step."""


def _loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every seed (S,): cross-entropy for integer targets, mean squared error otherwise."""
    seeds = len(outputs)
    if y.is_floating_point():
        return ((outputs - y) ** 2).reshape(seeds, -1).mean(1)
    each = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), y.reshape(-1), reduction="none")
    return each.view(seeds, -1).mean(1)


@torch.no_grad()
def _evaluate(stack: NetworkStack, x: Tensor, y: Tensor, seeds: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    stack.template.eval()
    total, wrong = torch.zeros(seeds, dtype=torch.float64), torch.full((seeds,), torch.nan, dtype=torch.float64)
    if not y.is_floating_point():
        wrong.zero_()
    n = len(x[:_EVALUATED])
    for start in range(0, n, _CHUNK):
        rows = slice(start, min(start + _CHUNK, n))
        part = x[rows].expand(seeds, *x[rows].shape)
        target = y[rows].expand(seeds, *y[rows].shape)
        outputs = stack(part)
        total += _loss(outputs, target).cpu().double() * (rows.stop - start)
        if not y.is_floating_point():
            misses = (outputs.argmax(-1) != target).double().reshape(seeds, -1).mean(1)
            wrong += misses.cpu() * (rows.stop - start)
    stack.template.train()
    return (total / n).numpy(), (wrong / n).numpy()


def _optimiser(run: Run, params: list[Tensor]) -> torch.optim.Optimizer:
    fused = params[0].device.type in ("cpu", "cuda")
    if run.optimiser == "adam":
        return torch.optim.Adam(params, lr=run.lr, fused=fused)
    return torch.optim.SGD(params, lr=run.lr, momentum=run.momentum, fused=fused)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold torch to one thread inside the `with` block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_process_stop: Any = None


def train_run(
    run: Run,
    dataset: Dataset,
    device: str = "cpu",
    stop: Callable[[], bool] | None = None,
    on_step: Callable[[], Any] | None = None,
) -> Record:
    """Train all seeds of `run` here and now. `stop()` is asked before each step, `on_step()` called after it.

    Raises Stopped when `stop` says so, and whatever the model raises.
    """
    if stop is None and _process_stop is not None:
        stop = _process_stop.is_set
    with one_thread():
        return _train(run, dataset, torch.device(device), stop or (lambda: False), on_step or (lambda: None))


def _train(
    run: Run, dataset: Dataset, device: torch.device, stop: Callable[[], bool], on_step: Callable[[], Any]
) -> Record:
    began = time.perf_counter()
    seeds, dtype = len(run.seeds), getattr(torch, run.dtype)

    def tensor(array: NDArray[Any]) -> Tensor:
        value = torch.from_numpy(np.ascontiguousarray(array)).to(device)
        return value.to(dtype) if value.is_floating_point() else value

    x, y = tensor(dataset.x_train), tensor(dataset.y_train)
    indices = np.stack([datasets.batch_indices(len(x), run.batch_size, run.steps, s) for s in run.seeds], axis=1)
    batches = torch.from_numpy(indices).to(device)
    stack = NetworkStack(run, device)
    optimiser = _optimiser(run, list(stack.params.values()))

    recorded = np.arange(0, run.steps, run.record_every)
    loss = np.full((seeds, run.steps), np.nan)
    gradients = np.full((seeds, len(recorded), len(stack.weights)), np.nan)
    scales = {
        "activation_std": (stack.activations, np.full((seeds, len(recorded), len(stack.activations)), np.nan)),
        "response_std": (stack.responses, np.full((seeds, len(recorded), len(stack.responses)), np.nan)),
    }
    for step in range(run.steps):
        if stop():
            raise Stopped
        notes: dict[str, Tensor] | None = {} if step % run.record_every == 0 else None
        losses = _loss(stack(x[batches[step]], notes), y[batches[step]])
        optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()
        if notes is not None:
            row = step // run.record_every
            for i, name in enumerate(stack.weights):
                gradient = stack.params[name].grad
                if gradient is not None:
                    gradients[:, row, i] = torch.linalg.vector_norm(gradient.flatten(1), dim=1).cpu()
            for names, table in scales.values():
                for i, name in enumerate(names):
                    if name in notes:
                        table[:, row, i] = notes[name].cpu()
        for group in optimiser.param_groups:
            group["lr"] = run.learning_rate(step)
        optimiser.step()
        loss[:, step] = losses.detach().cpu()
        on_step()
        if not np.isfinite(loss[:, step]).any():
            break
    train_loss, train_error = _evaluate(stack, x, y, seeds)
    test_loss, test_error = _evaluate(stack, tensor(dataset.x_test), tensor(dataset.y_test), seeds)
    state = {**stack.params, **stack.buffers} if run.keep_state else {}
    return Record(
        run=run,
        loss=loss,
        recorded=recorded,
        weights=tuple(stack.weights),
        gradient_norm=gradients,
        activation_std=scales["activation_std"][1],
        response_std=scales["response_std"][1],
        train_loss=train_loss,
        test_loss=test_loss,
        train_error=train_error,
        test_error=test_error,
        diverged=~(np.isfinite(loss).all(axis=1) & np.isfinite(train_loss)),
        seconds=time.perf_counter() - began,
        state={name: value.detach().cpu().numpy() for name, value in state.items()},
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros((), device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device: 'auto' or a device of this machine wanted, got {name!r} ({error})") from error
    return device


def _prepare(runs: Sequence[Run]) -> tuple[list[Dataset], list[int]]:
    """Return every run's data and rough cost. Whatever is wrong with a run shows here, before any training."""
    loaded, costs = [], []
    for run in runs:
        dataset = datasets.load(run.data, **run.data_options)
        datasets.batch_indices(len(dataset.x_train), run.batch_size, 1, 0)
        network = build(run, run.seeds[0])
        if not any(p.requires_grad for p in network.parameters()):
            raise ValueError(f"model: something to train wanted, {run.model!r} has no parameters")
        loaded.append(dataset)
        costs.append(sum(p.numel() for p in network.parameters()) * len(run.seeds) * run.steps * run.batch_size)
    return loaded, costs


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start_worker(stop: Any) -> None:
    global _process_stop
    _process_stop = stop
    follow_parent()


@contextlib.contextmanager
def _local_pool(runs: Sequence[Run], workers: int) -> Iterator[tuple[cf.Executor, Any, dict[str, Any]]]:
    """Yield an executor, the event that stops its work, and what `train_run` needs to see that event."""
    if any(not isinstance(run.model, str) for run in runs):
        # A function typed into a notebook cannot be found by another process, but threads see it.
        event: Any = threading.Event()
        with cf.ThreadPoolExecutor(workers) as threads:
            yield threads, event, {"stop": event.is_set}
        return
    # Fork is unsafe beside the threads of a kernel; a fork server starts without them and imports torch only once.
    context = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        # torch imports torch._dynamo at the first optimiser, which would cost every worker most of a second.
        context.set_forkserver_preload(["torch", "torch._dynamo", "addnorm_lib.experiments.training"])
    event = context.Event()
    with cf.ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(event,)) as processes:
        yield processes, event, {}


def train(
    runs: Run | Sequence[Run],
    *,
    executor: cf.Executor | None = None,
    device: str = "auto",
    workers: int | None = None,
    progress: bool = True,
) -> Results:
    """Train all runs and return their records in the same order.

    executor: where to train; any `concurrent.futures.Executor`, for example Dask's `Client.get_executor()`. By default
        local processes, one a core (`workers`), each with one thread. Models that only this process knows (defined in a
        notebook) train in threads; a single run, and everything on a GPU, trains here.
    device: "auto" (CUDA where there is one, otherwise the CPU) or a torch device.
    progress: show a bar to a live reader once the work has taken two seconds.

    Where the environment variable ADDNORM_RECORDS names a folder, finished records are kept there and found again.

    Ctrl-C or a kernel interrupt stops within a step: the finished records are returned with `interrupted=True` and a
    warning, and no process is left. (Work in a caller's own executor is cancelled where it has not begun.)
    A run whose loss stops being finite is recorded as diverged. The same runs give the same numbers.

    Raises ValueError on bad input before any training starts, and whatever a model raises in training.
    """
    runs = [runs] if isinstance(runs, Run) else list(runs)
    if not runs or not all(isinstance(run, Run) for run in runs):
        raise ValueError(f"runs: one or more Run wanted, got {runs!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers: at least 1 wanted, got {workers}")
    if executor is not None and not isinstance(executor, cf.Executor):
        raise ValueError(f"executor: a concurrent.futures.Executor wanted, got {executor!r}")
    where = _device(device)
    loaded, costs = _prepare(runs)
    done, names = _kept(runs, loaded, str(where))
    # The longest first: the last to finish decides.
    order = sorted((i for i in range(len(runs)) if i not in done), key=costs.__getitem__, reverse=True)
    workers = min(workers or _cores(), len(order))
    with contextlib.ExitStack() as cleanup:
        bar = cleanup.enter_context(progress_bar(sum(runs[i].steps for i in order), progress))
        try:
            if executor is None and (workers <= 1 or where.type != "cpu"):
                for i in sorted(order):
                    done[i] = train_run(runs[i], loaded[i], str(where), on_step=bar.update)
            else:
                pool, event, extra = executor, threading.Event(), {}
                if pool is None:
                    pool, event, extra = cleanup.enter_context(_local_pool(runs, workers))
                _collect(pool, event, extra, runs, loaded, order, str(where), bar, done)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    for i, name in names.items():
        if name is not None and i in order and i in done:
            records.keep(done[i], name)
    if interrupted:
        message = _("Interrupted: {done} of {all} runs are finished and kept.").format(done=len(done), all=len(runs))
        warnings.warn(message, stacklevel=2)
    return Results(tuple(done[i] for i in sorted(done)), interrupted)


def _kept(
    runs: Sequence[Run], loaded: Sequence[Dataset], device: str
) -> tuple[dict[int, Record], dict[int, str | None]]:
    """Return the records that are kept already, and the names under which those of all runs are."""
    if records.folder() is None:
        return {}, {}
    names = {i: records.key(run, dataset, device) for i, (run, dataset) in enumerate(zip(runs, loaded, strict=True))}
    found = {i: records.find(runs[i], name) for i, name in names.items() if name is not None}
    return {i: record for i, record in found.items() if record is not None}, names


def _collect(
    pool: cf.Executor,
    event: Any,
    extra: dict[str, Any],
    runs: Sequence[Run],
    loaded: Sequence[Dataset],
    order: Sequence[int],
    device: str,
    bar: Any,
    done: dict[int, Record],
) -> None:
    futures: dict[cf.Future[Record], int] = {}
    try:
        with without_main():
            for i in order:
                futures[pool.submit(train_run, runs[i], loaded[i], device, **extra)] = i
        pending = set(futures)
        while pending:
            # A wait without a timeout could not be interrupted on Windows.
            finished, pending = cf.wait(pending, timeout=0.2, return_when=cf.FIRST_COMPLETED)
            for future in finished:
                i = futures[future]
                try:
                    done[i] = future.result()
                except Exception as error:
                    if isinstance(error, cf.BrokenExecutor):
                        error.add_note("In a script, call train below `if __name__ == '__main__':`, or pass workers=1.")
                    error.add_note(f"while training {runs[i]!r}")
                    raise
                bar.update(runs[i].steps)
    finally:
        event.set()
        for future in futures:
            future.cancel()

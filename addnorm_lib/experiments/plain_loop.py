"""Measure the engine against the loop that a reader would write: `python -m addnorm_lib.experiments.plain_loop`.

The same work three ways in one run: 8 seeds × plain and residual × three depths, digits, batch norm. The loop as
written trains one network after another with torch's default threads; the second loop is held to one thread.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from addnorm_lib.experiments import data as datasets
from addnorm_lib.experiments.depth import DepthNet
from addnorm_lib.experiments.network_stack import build
from addnorm_lib.experiments.results import Run
from addnorm_lib.experiments.training import train


def plain_loop(run: Run, seed: int, device: str = "cpu") -> list[float]:
    """Train one network as every tutorial does and return the loss of every step."""
    dataset = datasets.load(run.data, **run.data_options)
    x, y = torch.from_numpy(dataset.x_train).to(device), torch.from_numpy(dataset.y_train).to(device)
    if x.is_floating_point():
        x = x.to(getattr(torch, run.dtype))
    batches = torch.from_numpy(datasets.batch_indices(len(x), run.batch_size, run.steps, seed)).to(device)
    model = build(run, seed).to(device)
    if run.optimiser == "sgd":
        optimiser: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=run.lr, momentum=run.momentum)
    else:
        optimiser = torch.optim.Adam(model.parameters(), lr=run.lr)
    losses = []
    for step, rows in enumerate(batches):
        for group in optimiser.param_groups:
            group["lr"] = run.learning_rate(step)
        optimiser.zero_grad()
        logits = model(x[rows])
        loss = F.cross_entropy(logits.flatten(0, -2), y[rows].flatten())
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def _loops(runs: Sequence[Run], device: str, threads: int) -> None:
    torch.set_num_threads(threads)
    for run in runs:
        for seed in run.seeds:
            plain_loop(run, seed, device)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 12, 24])
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    runs = [
        Run(DepthNet, {"kind": kind, "depth": depth}, steps=args.steps, seeds=range(args.seeds))
        for depth in args.depths
        for kind in ("plain", "residual")
    ]
    default = torch.get_num_threads()
    ways: dict[str, Callable[[], Any]] = {
        "engine": lambda: train(runs, device=args.device, progress=False),
        "engine, one process": lambda: train(runs, device=args.device, workers=1, progress=False),
        "loop as written": lambda: _loops(runs, args.device, default),
        "loop, one thread": lambda: _loops(runs, args.device, 1),
    }
    # The first call starts the fork server and fills the caches; that cost falls once a session.
    train([Run(DepthNet, {"depth": 1}, steps=1, seeds=[s]) for s in (0, 1)], device=args.device, progress=False)
    best = dict.fromkeys(ways, float("inf"))
    for _round in range(args.rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            outcome = way()
            best[name] = min(best[name], time.perf_counter() - began)
            if name == "engine":
                results = outcome
    torch.set_num_threads(default)

    print(f"{len(runs)} runs × {args.seeds} seeds × {args.steps} steps on {args.device}; torch's threads: {default}")
    for name, seconds in best.items():
        print(f"{name:22}{seconds:8.2f} s   {seconds / best['engine']:5.2f} × the engine")
    for record in results:
        kind, depth = record.run.value("kind"), record.run.value("depth")
        print(
            f"  {kind:9} depth {depth:3}: {record.seconds:6.2f} s, {1e3 * record.seconds / args.steps:6.2f} ms a step"
        )


if __name__ == "__main__":
    main()

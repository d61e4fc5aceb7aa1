"""The networks of a Run's seeds as one: every weight with a leading dimension S, one slice a seed.

Any `nn.Module` that `torch.func.vmap` can run will do; a module with a method

    forward_stacked(state, x, note) -> outputs      state[name] (S, ...), x (S, B, ...), outputs (S, B, ..., classes)

brings its own, faster stacked forward pass and calls `note(module_name, tensor)` on what is worth measuring.
"""

import contextlib
import fnmatch
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from addnorm_lib.experiments.results import Run

Note = Callable[[str, Tensor], None]
_global_random_numbers = threading.Lock()


def build(run: Run, seed: int) -> nn.Module:
    """Return the network of one seed, as the engine starts it: torch's random numbers set to `seed`, in `run.dtype`."""
    with _global_random_numbers, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return run.build().to(getattr(torch, run.dtype))


def _std(x: Tensor) -> Tensor:
    # torch.std takes sixty times as long on a CPU as these two sums.
    n = x.shape[1]
    return ((torch.linalg.vector_norm(x, dim=1).double() ** 2 / n - x.mean(1).double() ** 2).clamp(min=0)).sqrt()


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    wanted = pattern.split(".")
    parts = [(name, name.split(".")) for name in names]
    return [n for n, p in parts if len(p) == len(wanted) and all(map(fnmatch.fnmatchcase, p, wanted))]


@contextlib.contextmanager
def _attention_that_vmap_can_stack() -> Iterator[None]:
    # The fused CPU attention kernels have no batching rule: vmap would run them seed by seed, with a warning.
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class NetworkStack:
    """S networks of one Run with their weights stacked: one forward pass for all.

    template: one of them, whose modules run; params, buffers: every name's tensors, (S, ...); weights: the names of its
    matrices; activations, responses: the modules that `Run.activations` and `Run.responses` name.
    """

    def __init__(self, run: Run, device: torch.device) -> None:
        networks = [build(run, seed) for seed in run.seeds]
        self.template = networks[0]
        params, buffers = torch.func.stack_module_state(networks)
        self.params = {k: v.detach().to(device).requires_grad_() for k, v in params.items()}
        self.buffers = {k: v.to(device) for k, v in buffers.items()}
        self.template.to(device)
        names = [name for name, _module in self.template.named_modules()]
        self.activations, self.responses = _matching(names, run.activations), _matching(names, run.responses)
        self.weights = [name for name, p in self.template.named_parameters() if p.ndim >= 2]
        self._notes: dict[str, Tensor] | None = None
        self._native = getattr(self.template, "forward_stacked", None)
        if self._native is None:
            watched = {*self.activations, *self.responses}
            for name, module in self.template.named_modules():
                if name in watched:
                    module.register_forward_hook(self._hook(name))
            self._mapped = torch.vmap(self._one)

    def _hook(self, name: str) -> Callable[..., None]:
        def measure(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            if self._notes is not None and isinstance(output, Tensor):
                self._notes[name] = _std(output.detach().reshape(1, -1))[0]

        return measure

    def _one(
        self, params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        output = torch.func.functional_call(self.template, (params, buffers), (x,))
        return output, self._notes or {}

    def __call__(self, x: Tensor, notes: dict[str, Tensor] | None = None) -> Tensor:
        """Return the outputs (S, B, ..., classes) for x (S, B, ...); fill `notes` with standard deviations (S,)."""
        if self._native is not None:

            def note(name: str, value: Tensor) -> None:
                if notes is not None:
                    notes[name] = _std(value.detach().flatten(1))

            return self._native(self.params | self.buffers, x, note)
        self._notes = None if notes is None else {}
        with _attention_that_vmap_can_stack():
            output, measured = self._mapped(self.params, self.buffers, x)
        if notes is not None:
            notes.update(measured)
        self._notes = None
        return output

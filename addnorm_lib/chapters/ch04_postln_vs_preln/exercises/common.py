"""What the exercises of chapter 4 share."""

import torch

from addnorm_lib.course.exercises.inputs import Shown, normal, sine, square, zero

# The cases are float32, so that torch.nn's modules and functions take them; float32 sets these tolerances.
FLOAT32 = {"rtol": 1e-4, "atol": 1e-5}

layer_norm = Shown(lambda z: torch.nn.functional.layer_norm(z, z.shape[-1:]), "LN")
turn = Shown(lambda z: z.roll(1, dims=-1), "z ↦ (z_D, z₁, …)")
previous = Shown(lambda z: torch.tanh(z.cumsum(dim=-2)), "z ↦ tanh of the sum of the tokens so far")


def block_cases():
    """Return the cases of one block; D > 2, as LN makes ±1 of any two numbers."""
    return [
        (torch.tensor([1.0, 2.0, 3.0]), square, layer_norm),
        (torch.tensor([1.0, 2.0, 6.0]), zero, layer_norm),
        ((1 + 2 * normal(2, 4)).float(), sine, layer_norm),
        (normal(2, 3, 5, seed=1).float(), previous, layer_norm),
        (1e-3 * normal(2, 4, seed=2).float(), turn, layer_norm),  # variance below ε: LN of LN is not LN here
    ]

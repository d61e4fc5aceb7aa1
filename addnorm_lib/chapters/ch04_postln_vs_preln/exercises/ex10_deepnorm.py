"""4.10: DeepNorm: what makes Post-LN deep."""

import torch

from addnorm_lib.chapters.ch04_postln_vs_preln.exercises.common import FLOAT32, layer_norm
from addnorm_lib.course.exercises.define import exercise
from addnorm_lib.course.exercises.inputs import normal


def deepnorm_block(x, weight, norm, n_layers):
    """Return a DeepNorm block's output for x (..., D) in an encoder with N = `n_layers` layers, at initialisation.

    F(x) = x (βW)ᵀ, where `weight` is W (D, D) as Xavier's rule drew it, α = (2N)^(1/4), β = (8N)^(−1/4); `norm` is LN.
    The block is Post-LN, with α on the shortcut (Wang et al. 2022, section 3).
    """
    alpha, beta = (2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25
    return norm(alpha * x + x @ (beta * weight).T)


def _cases():
    weight = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 4.0, 0.0]])
    return [
        (torch.tensor([1.0, 2.0, 4.0]), weight, layer_norm, 8),  # α = 2, β = 64^(−1/4) = 1/√8
        (torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]]), weight, layer_norm, 2),  # α = √2, β = 1/2
        ((1 + normal(2, 4)).float(), normal(4, 4, seed=1).float(), layer_norm, 50),
    ]


MISTAKES = """
α on the branch: alpha * x + x @ → x + alpha * x @
    Is α on the branch, or 1/α on the shortcut? To LN both are one; α > 1 makes the shortcut weigh more.
α and β exchanged: alpha, beta → beta, alpha
    Have α and β changed places? α > 1 is for the shortcut, β < 1 for the weights.
the square root: every 0.25 → 0.5
    Are these square roots? The exponents are 1/4 and −1/4.
precedence: every 0.25 → 1 / 4
    Is that ** 1 / 4? Python reads it as (… ** 1) / 4; write ** 0.25 or ** (1 / 4).
2 and 8 outside the power: (2 * n_layers) → 2 * n_layers; (8 * n_layers) → 8 * n_layers
    Is that 2 * n_layers ** 0.25? Python takes the power first: write (2 * n_layers) ** 0.25.
sublayers counted: every n_layers → 2 * n_layers
    Is N counted in sublayers? N is the number of layers; the 2 in 2N counts each layer's two sublayers.
the decoder's constants: 2 * → 3 *; 8 * → 12 *
    Are these (3M)^(1/4) and (12M)^(−1/4)? They are a decoder's, whose layers have three sublayers.
no α: alpha * →
    Where is α, or does F read αx, too? LN undoes a factor on the whole sum: scale the shortcut alone.
no β: beta * →
    Where is β? The branch starts with the weights βW.
plain Post-LN: alpha * →; beta * →
    Are α and β both missing? This is Post-LN as it always was.
β of the wrong sign: -0.25 → 0.25
    Is β = (8N)^(1/4)? It is below 1: the deeper the net, the smaller its branches start.
the tenth root: every 0.25 → 0.1
    Are the exponents 1/10? An encoder's are 1/4 and −1/4.
α outside the norm: norm(alpha * x → alpha * norm(x
    Does α multiply what LN returns? It belongs on the shortcut, inside LN.
α outside, on the shortcut: norm(alpha * x + x @ → alpha * x + norm(x @
    Does the norm take F(x) only? DeepNorm is a Post-LN: it normalises the sum αx + F(x).
Pre-LN: norm(alpha * x + x @ → (alpha * x + norm(x) @
    Is that Pre-LN with α? Then the stream grows by α in every block; DeepNorm normalises the sum.
no norm: norm( → (
    Where is the norm? The sum αx + F(x) passes through LN.
no shortcut: alpha * x + →
    Where is the shortcut? The sum αx + F(x) passes through LN.
β twice: beta * → beta * beta *
    Is β there twice, on the weight and on the branch? Once will do.
all layers: for _layer in range(n_layers): x = deepnorm_block(x, weight, norm, n_layers) ⏎ return x
    Is there a loop over the layers? One block is wanted; n_layers only sets α and β.
no transpose: .T →
    Is the transpose of W missing? For rows, W x is written x @ weight.T.
"""

HINTS = """
Post-LN is LN(x + F(x)); which of the two summands should weigh more in a deep net?
alpha = (2 * n_layers) ** 0.25 on x, beta = (8 * n_layers) ** -0.25 on the weight, and LN around the sum.
"""

EXERCISE = exercise(__doc__, deepnorm_block, _cases, MISTAKES, HINTS, claims="D4", **FLOAT32)

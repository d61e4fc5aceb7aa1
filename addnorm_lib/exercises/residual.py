"""Chapter 1: the residual connection."""

import math

import torch

from addnorm_lib.exercises.exercise import Exercise, Misconception, Shown
from addnorm_lib.exercises.inputs import half, normal, sine, square, zero
from addnorm_lib.messages import N_

# 1.1 ------------------------------------------------------------------------------------------------------------------


def residual_block(x, branch):
    """Return y = x + F(x), where `branch` is F."""
    return x + branch(x)


def _block_cases():
    return [
        (torch.tensor([1.0, 2.0]), half),
        (torch.tensor([1.0, 2.0]), zero),
        (torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.5, -1.0]]), square),
        (normal(2, 3, 4), sine),
    ]


BLOCK = Exercise(
    id="1.1",
    title=N_("the residual block"),
    claims=("B1",),
    solve=residual_block,
    cases=_block_cases,
    misconceptions=(
        Misconception(
            "the branch alone", lambda x, branch: branch(x), N_("Where has x gone? This is a plain layer, not a sum.")
        ),
        Misconception("a copy", lambda x, branch: x, N_("Is F(x) added at all? This block returns x whatever F does.")),
        Misconception(
            "x twice",
            lambda x, branch: x + x + branch(x),
            N_("Is x added twice? The shortcut carries it once, with factor 1."),
        ),
        Misconception(
            "composed",
            lambda x, branch: branch(x + branch(x)),
            N_("Does the sum pass through F once more? The shortcut goes around F, to the output."),
        ),
        Misconception(
            "the branch sees the sum",
            lambda x, branch: x + branch(branch(x)),
            N_("Is F applied twice? The branch reads x itself."),
        ),
        Misconception(
            "product",
            lambda x, branch: x * branch(x),
            N_("Is that a product? Add & Norm adds: with F = 0 a product erases x, a sum keeps it."),
        ),
        Misconception(
            "difference", lambda x, branch: x - branch(x), N_("Is the sign right? The branch's output is added.")
        ),
        Misconception(
            "concatenation",
            lambda x, branch: torch.cat([x, branch(x)], dim=-1),
            N_("Is this a concatenation? It keeps x but changes the shape: the next block would not fit."),
        ),
    ),
    hints=(
        N_("The block has two roads from input to output: one around F, one through it."),
        N_("Call branch(x) once and add its result to x."),
    ),
)


# 1.2 ------------------------------------------------------------------------------------------------------------------


def projected_block(x, branch, weight):
    """Return y = W_s x + F(x) for every row of x (N, D_in); `weight` is W_s (D_out, D_in), F(x) is (N, D_out)."""
    return x @ weight.T + branch(x)


def _projection_cases():
    widen = Shown(lambda z: torch.cat([z, z[:, :1]], dim=1) / 2, "z ↦ [z, z₀]/2")
    narrow = Shown(lambda z: z[:, :1] ** 2, "z ↦ z₀²")
    square_weight = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    return [
        (torch.tensor([[1.0, 2.0]], dtype=torch.float64), sine, square_weight),
        (torch.tensor([[1.0, 2.0]], dtype=torch.float64), narrow, torch.tensor([[3.0, 1.0]], dtype=torch.float64)),
        (normal(3, 2), widen, normal(3, 2, seed=1)),
    ]


def _pad_or_cut(x, branch, weight):
    y = branch(x)
    shared = min(x.shape[1], y.shape[1])
    y[:, :shared] += x[:, :shared]
    return y


PROJECTION = Exercise(
    id="1.2",
    title=N_("a projection shortcut, for an F that changes the width"),
    claims=("A2",),
    solve=projected_block,
    cases=_projection_cases,
    misconceptions=(
        Misconception(
            "no transpose",
            lambda x, branch, weight: x @ weight + branch(x),
            N_("Is W_s transposed? Its shape is (D_out, D_in), and the rows of x have length D_in."),
        ),
        Misconception(
            "no projection",
            lambda x, branch, weight: x + branch(x),
            N_("Where is W_s? Without it x keeps the width D_in, or is broadcast."),
        ),
        Misconception(
            "the branch alone",
            lambda x, branch, weight: branch(x),
            N_("Has the shortcut been dropped where the widths differ? W_s x belongs in the sum."),
        ),
        Misconception(
            "projected branch input",
            lambda x, branch, weight: x @ weight.T + branch(x @ weight.T),
            N_("Does F read the projected x? Only the shortcut is projected, F reads x itself."),
        ),
        Misconception(
            "padded or cut",
            _pad_or_cut,
            N_("Is x padded or cut to fit? That keeps some coordinates and drops others; here W_s decides."),
        ),
    ),
    hints=(
        N_("F(x) has width D_out already. Which matrix takes a row of x from D_in to D_out?"),
        N_("For rows, W_s x is written x @ weight.T."),
    ),
)


# 1.3 ------------------------------------------------------------------------------------------------------------------


def token_update(x, weight):
    """Return y = x + F(x) for x (B, T, D), where F(x) = tanh(x Wᵀ) at each token; `weight` is W (D, D)."""
    update = torch.tanh(x @ weight.T)
    return x + update


def _buggy_token_update(x, weight):
    """Return y = x + F(x) for x (B, T, D), where F(x) = tanh(x Wᵀ) at each token; `weight` is W (D, D)."""
    update = torch.tanh(x[:, -1:] @ weight.T)
    return x + update


def _update_cases():
    weight = torch.tensor([[1.0, 0.0], [1.0, -1.0]], dtype=torch.float64)
    return [
        (torch.tensor([[[1.0, 2.0], [0.0, 0.5]]], dtype=torch.float64), weight),
        (normal(2, 3, 4), normal(4, 4, seed=1)),
        (normal(3, 1, 2), normal(2, 2, seed=2)),
    ]


BROADCAST = Exercise(
    id="1.3",
    title=N_("find the bug: a broadcast that passes silently"),
    claims=("A2",),
    solve=token_update,
    cases=_update_cases,
    starter=_buggy_token_update,
    misconceptions=(
        Misconception(
            "the first token instead",
            lambda x, weight: x + torch.tanh(x[:, :1] @ weight.T),
            N_("Does every token still receive the first token's update? A token's update must come from that token."),
        ),
        Misconception(
            "averaged",
            lambda x, weight: x + torch.tanh(x @ weight.T).mean(dim=1, keepdim=True),
            N_("Is the update averaged over the tokens? Then all tokens receive the same one."),
        ),
        Misconception(
            "only the last token",
            lambda x, weight: torch.cat([x[:, :-1], x[:, -1:] + torch.tanh(x[:, -1:] @ weight.T)], dim=1),
            N_("Do the earlier tokens receive an update? F acts on all of them."),
        ),
        Misconception(
            "no transpose",
            lambda x, weight: x + torch.tanh(x @ weight),
            N_("Where did the transpose of W go? It was right as given."),
        ),
        Misconception(
            "update alone",
            lambda x, weight: torch.tanh(x @ weight.T),
            N_("Where has x gone? The bug is in the update, not in the sum."),
        ),
    ),
    hints=(
        N_("Print update.shape beside x.shape. Which of the two should differ from the other?"),
        N_("A size of 1 is stretched to T without a word. Which slice makes it 1?"),
    ),
)


# 1.4 ------------------------------------------------------------------------------------------------------------------


def block_jacobian(branch, x):
    """Return the Jacobian ∂y/∂x (D, D) of y = x + F(x) at x (D,); torch.func.jacrev(F)(x) is F's."""
    jacobian = torch.func.jacrev(branch)(x)
    return torch.eye(len(x), dtype=x.dtype) + jacobian


def _jacobian(branch, x):
    return torch.func.jacrev(branch)(x)


def _jacobian_cases():
    weight = torch.tensor([[1.0, 2.0], [0.0, -1.0]], dtype=torch.float64)
    linear = Shown(lambda z: weight @ z, "z ↦ [[1, 2], [0, −1]] z")
    mixing = Shown(lambda z: torch.sin(z) * z.roll(1), "z ↦ sin(z)·roll(z)")
    return [
        (linear, torch.tensor([1.0, 2.0], dtype=torch.float64)),
        (square, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)),
        (mixing, normal(4)),
    ]


JACOBIAN = Exercise(
    id="1.4",
    title=N_("the Jacobian of a block"),
    claims=("B6",),
    solve=block_jacobian,
    cases=_jacobian_cases,
    misconceptions=(
        Misconception(
            "the branch's Jacobian", _jacobian, N_("Is this the Jacobian of F alone? y also depends on x directly.")
        ),
        Misconception(
            "one instead of the identity",
            lambda branch, x: 1 + _jacobian(branch, x),
            N_("Is 1 added to every entry? ∂x/∂x is the identity matrix: ones on the diagonal, zeros elsewhere."),
        ),
        Misconception(
            "transposed",
            lambda branch, x: torch.eye(len(x), dtype=x.dtype) + _jacobian(branch, x).T,
            N_("Is it transposed? Row i, column j holds ∂y_i/∂x_j."),
        ),
        Misconception(
            "minus",
            lambda branch, x: torch.eye(len(x), dtype=x.dtype) - _jacobian(branch, x),
            N_("Is the sign right? The branch is added."),
        ),
        Misconception(
            "gradient of the sum",
            lambda branch, x: torch.func.grad(lambda z: (z + branch(z)).sum())(x),
            N_("Is this the gradient of the outputs' sum? That is one vector; the Jacobian has a row for each output."),
        ),
    ),
    hints=(
        N_("Differentiate the two roads apart: what is ∂x/∂x?"),
        N_("torch.func.jacrev(branch)(x) is the Jacobian of F; torch.eye(D, dtype=x.dtype) is the identity."),
    ),
)


# 1.5 ------------------------------------------------------------------------------------------------------------------


def identity_depth(branch, x, deviation):
    """Return the largest whole L (0 if none) for which √((1 + s²)^L − 1) ≤ `deviation`: so many blocks stay near I.

    An experiment: measure the gain s = ‖J‖_F / √D of `branch` at x (D,), with torch.func.jacrev; s is not zero.
    """
    jacobian = torch.func.jacrev(branch)(x)
    gain = jacobian.norm() / math.sqrt(len(x))
    return math.floor(math.log(1 + deviation**2) / math.log(1 + float(gain) ** 2))


def _depth_cases():
    tenth = Shown(lambda z: z / 10, "z ↦ z/10")
    first = Shown(lambda z: z[0] * torch.ones_like(z) / 3, "z ↦ (z₀/3, …, z₀/3)")
    weight = 0.05 * normal(16, 16, seed=3)
    network = Shown(lambda z: weight @ torch.tanh(z), "z ↦ W tanh z")
    ones = torch.ones(2, dtype=torch.float64)
    return [(tenth, ones, 1.0), (first, ones, 0.9), (network, normal(16), 0.5), (sine, normal(8), 30.0)]


def _depth_from(gain_of, depth_of=None):
    def wrong(branch, x, deviation):
        gain = float(gain_of(torch.func.jacrev(branch)(x)))
        exact = math.log(1 + deviation**2) / math.log(1 + gain**2)
        return depth_of(exact, gain, deviation) if depth_of else math.floor(exact)

    return wrong


def _root_mean_gain(jacobian):
    return jacobian.norm() / math.sqrt(len(jacobian))


DEPTH = Exercise(
    id="1.5",
    title=N_("measure a branch, and predict how deep ≈ I holds"),
    claims=("B6",),
    solve=identity_depth,
    cases=_depth_cases,
    misconceptions=(
        Misconception(
            "√D forgotten",
            _depth_from(lambda jacobian: jacobian.norm()),
            N_("Is ‖J‖_F divided by √D? The identity itself has ‖I‖_F = √D: s compares the two."),
        ),
        Misconception(
            "spectral norm",
            _depth_from(lambda jacobian: torch.linalg.matrix_norm(jacobian, ord=2)),
            N_("Is this the largest singular value? s is the root mean square of them all, ‖J‖_F / √D."),
        ),
        Misconception(
            "rounded up",
            _depth_from(_root_mean_gain, lambda exact, gain, deviation: math.ceil(exact)),
            N_("Is the depth rounded up? At that depth the deviation is past the limit already."),
        ),
        Misconception(
            "linear",
            _depth_from(_root_mean_gain, lambda exact, gain, deviation: math.floor(deviation / gain)),
            N_("Do the deviations add up block by block? Independent ones add in squares, and they compound."),
        ),
        Misconception(
            "first order",
            _depth_from(_root_mean_gain, lambda exact, gain, deviation: math.floor(deviation**2 / gain**2)),
            N_("Is √(L·s²) used? That is the first order only; (1 + s²)^L grows faster."),
        ),
    ),
    hints=(
        N_("torch.func.jacrev(branch)(x) gives J; s = J.norm() / √D."),
        N_("Solve (1 + s²)^L − 1 = deviation² for L with logarithms, then round down."),
    ),
)


# 1.6 ------------------------------------------------------------------------------------------------------------------


def path_shares(n_blocks, gain):
    """Return a list that sums to 1: the share of energy carried by paths through k branches, k = 0 … n_blocks.

    There are C(n, k) paths of length k: at each block a path takes the branch or the shortcut. `gain` is s: each
    branch on a path multiplies the energy by s².
    """
    energies = [math.comb(n_blocks, k) * gain ** (2 * k) for k in range(n_blocks + 1)]
    return [energy / sum(energies) for energy in energies]


def _shares(weights):
    return [weight / sum(weights) for weight in weights]


PATHS = Exercise(
    id="1.6",
    title=N_("which paths carry the gradient"),
    claims=("B13",),
    solve=path_shares,
    cases=lambda: [(2, 0.5), (3, 1.0), (24, 0.3), (10, 2.0)],
    misconceptions=(
        Misconception(
            "counts alone",
            lambda n_blocks, gain: _shares([math.comb(n_blocks, k) for k in range(n_blocks + 1)]),
            N_("Do all paths count the same? A path through k branches is damped by s² at each of them."),
        ),
        Misconception(
            "one path of each length",
            lambda n_blocks, gain: _shares([gain ** (2 * k) for k in range(n_blocks + 1)]),
            N_("How many paths have length k? There are many ways to choose k blocks out of n_blocks."),
        ),
        Misconception(
            "amplitude",
            lambda n_blocks, gain: _shares([math.comb(n_blocks, k) * gain**k for k in range(n_blocks + 1)]),
            N_("Is that s to the power k? Energy is amplitude squared: s² for each branch."),
        ),
        Misconception(
            "not normalised",
            lambda n_blocks, gain: [math.comb(n_blocks, k) * gain ** (2 * k) for k in range(n_blocks + 1)],
            N_("Do the shares sum to 1? Divide by the total energy, which is (1 + s²)^n_blocks."),
        ),
        Misconception(
            "the empty path left out",
            lambda n_blocks, gain: _shares([math.comb(n_blocks, k) * gain ** (2 * k) for k in range(1, n_blocks + 1)]),
            N_("Is k = 0 missing? The path that takes every shortcut is a path too, the most important one."),
        ),
    ),
    hints=(
        N_("In how many ways can a path pick k of the n_blocks branches? Python's math.comb counts them."),
        N_("Paths of length k have energy comb(n_blocks, k) · s^(2k) together; divide by the sum over k."),
    ),
    rtol=1e-9,
)


# 1.7 ------------------------------------------------------------------------------------------------------------------


def erase(x, direction):
    """Return F(x) such that x + F(x) has no component along `direction`, and every other component is kept.

    x is (N, D); direction is (D,), not zero, of any length.
    """
    unit = direction / direction.norm()
    return -(x @ unit)[:, None] * unit


def _erase_cases():
    return [
        (torch.tensor([[3.0, 1.0]], dtype=torch.float64), torch.tensor([2.0, 0.0], dtype=torch.float64)),
        (torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64), torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)),
        (normal(4, 5), normal(5, seed=1)),
    ]


ERASE = Exercise(
    id="1.7",
    title=N_("an F that erases a subspace"),
    claims=("B8",),
    solve=erase,
    cases=_erase_cases,
    misconceptions=(
        Misconception(
            "direction not normalised",
            lambda x, direction: -(x @ direction)[:, None] * direction,
            N_("Does the direction have length 1? A longer one is overshot: the component changes sign instead."),
        ),
        Misconception(
            "normalised once",
            lambda x, direction: -(x @ direction)[:, None] * direction / direction.norm(),
            N_("Is the length divided out once? The direction enters twice, in x·u and in u."),
        ),
        Misconception(
            "plus",
            lambda x, direction: (x @ direction)[:, None] * direction / direction.norm() ** 2,
            N_("Is the sign right? Adding the component doubles it."),
        ),
        Misconception(
            "everything", lambda x, direction: -x, N_("Is all of x erased? The other components must be kept.")
        ),
        Misconception(
            "the sum instead of F",
            lambda x, direction: x - (x @ direction)[:, None] * direction / direction.norm() ** 2,
            N_("Is this x + F(x)? Return the branch F(x) alone; the block adds x."),
        ),
    ),
    hints=(
        N_("How long is x's shadow on the unit vector u? It is x·u."),
        N_("Take that shadow away: F(x) = −(x·u) u with u = direction / ‖direction‖."),
    ),
)


# 1.8 ------------------------------------------------------------------------------------------------------------------


def invert_block(y, branch, n_steps):
    """Return x with x + F(x) = y, found by n_steps rounds of x ← y − F(x), begun at x = y (no round: y).

    It converges wherever F shrinks distances (a Lipschitz constant below 1): such a branch erases nothing.
    """
    x = y
    for _step in range(n_steps):
        x = y - branch(x)
    return x


def _invert_cases():
    gentle = Shown(lambda z: 0.5 * torch.sin(z), "z ↦ ½ sin z")
    flip = Shown(lambda z: -z / 2, "z ↦ −z/2")
    vector = torch.tensor([1.0, 2.0], dtype=torch.float64)
    return [(vector, half, 1), (vector, half, 2), (vector, flip, 30), (normal(3, 4), gentle, 50), (vector, gentle, 0)]


def _invert_with(step):
    def wrong(y, branch, n_steps):
        x = y
        for _step in range(n_steps):
            x = step(x, y, branch)
        return x

    return wrong


INVERT = Exercise(
    id="1.8",
    title=N_("an F that can erase nothing"),
    claims=("B8", "B7"),
    solve=invert_block,
    cases=_invert_cases,
    misconceptions=(
        Misconception(
            "a single step",
            lambda y, branch, n_steps: y - branch(y),
            N_("Is that one step only? y − F(y) uses F at y, but the equation has F at x: repeat with the better x."),
        ),
        Misconception(
            "plus",
            _invert_with(lambda x, y, branch: y + branch(x)),
            N_("Is the sign right? Solve x + F(x) = y for the x that stands alone."),
        ),
        Misconception(
            "subtracting again and again",
            _invert_with(lambda x, y, branch: x - branch(x)),
            N_("Does each round begin from y? x − F(x) takes the branch off again and again; y − F(x) takes it once."),
        ),
        Misconception(
            "F at y in every round",
            _invert_with(lambda x, y, branch: y - branch(y)),
            N_("Does F read the newest x? y − F(y) is the same in every round."),
        ),
        Misconception(
            "begun at zero",
            lambda y, branch, n_steps: _invert_from_zero(y, branch, n_steps),
            N_("Does the loop begin at x = y? It converges from elsewhere too, but not in the same steps."),
        ),
    ),
    hints=(
        N_("Write the equation as x = y − F(x) and read it as an instruction."),
        N_("Begin with x = y; in each of n_steps rounds compute y − branch(x) and call it x."),
    ),
)


def _invert_from_zero(y, branch, n_steps):
    x = torch.zeros_like(y)
    for _step in range(n_steps):
        x = y - branch(x)
    return x


EXERCISES = (BLOCK, PROJECTION, BROADCAST, JACOBIAN, DEPTH, PATHS, ERASE, INVERT)

"""Chapter 2: the degradation experiment."""

import math

import torch

from addnorm_lib.exercises.exercise import Exercise, Misconception, Shown
from addnorm_lib.exercises.inputs import normal, sine, square, vector
from addnorm_lib.messages import N_

turn = Shown(lambda z: z.roll(1), "z ↦ (z₄, z₁, z₂, z₃)")


# 2.1 ------------------------------------------------------------------------------------------------------------------


def copy_weights(width, extra):
    """Return the weights (extra, width, width) of `extra` layers h ← relu(W h) that hand every h ≥ 0 on unchanged."""
    return torch.eye(width).repeat(extra, 1, 1)


COPY = Exercise(
    id="2.1",
    title=N_("the deep copy: layers that change nothing"),
    claims=("B3",),
    solve=copy_weights,
    cases=lambda: [(2, 1), (3, 2), (4, 3)],
    misconceptions=(
        Misconception(
            "zeros",
            lambda width, extra: torch.zeros(extra, width, width),
            N_("Are the weights zero? A residual block with F = 0 copies its input; a plain layer erases it."),
        ),
        Misconception(
            "ones",
            lambda width, extra: torch.ones(extra, width, width),
            N_("Is every entry 1? Then each output is the sum of all inputs."),
        ),
        Misconception(
            "mean",
            lambda width, extra: torch.full((extra, width, width), 1 / width),
            N_("Is every entry 1/D? Then each output is the mean of all inputs."),
        ),
        Misconception(
            "He's factor",
            lambda width, extra: math.sqrt(2) * torch.eye(width).repeat(extra, 1, 1),
            N_("Is that √2 times the identity? The factor suits random weights; here relu loses nothing, as h ≥ 0."),
        ),
        Misconception(
            "twice",
            lambda width, extra: 2 * torch.eye(width).repeat(extra, 1, 1),
            N_("Is that twice the identity, to make up for relu? relu loses nothing here, as h ≥ 0."),
        ),
        Misconception(
            "minus",
            lambda width, extra: -torch.eye(width).repeat(extra, 1, 1),
            N_("Is the sign negative? Then relu sets everything to zero."),
        ),
        Misconception(
            "one matrix",
            lambda width, extra: torch.eye(width),
            N_("Is this one matrix? `extra` of them are wanted, stacked: shape (extra, width, width)."),
        ),
    ),
    hints=(
        N_("What is relu(h) when h ≥ 0 already? So what must W h be?"),
        N_("The identity matrix, once for each layer: torch.eye(width), repeated."),
    ),
)


# 2.2 ------------------------------------------------------------------------------------------------------------------


def degradation_gap(deep, shallow):
    """Return (gap, error): by how much the deep net's mean loss is higher, and the standard error of that number.

    `deep`, `shallow` are tensors (S,) of final losses; entry i of both has seed i, so take differences by seed. Return
    two floats.
    """
    difference = torch.as_tensor(deep - shallow)  # NumPy's std() would divide by S
    return difference.mean().item(), difference.std().item() / math.sqrt(len(difference))


def _gap_cases():
    return [
        (vector(1.0, 2.0, 4.0), vector(1.0, 1.0, 1.0)),
        (vector(3.0, 5.0), vector(1.0, 2.0)),
        (1 + normal(8).abs(), normal(8, seed=1).abs()),
        (vector(1.0, 1.5, 1.0), vector(2.0, 1.0, 4.0)),  # a deep net that is better: the gap is negative
    ]


def _gap(error, sign=1):
    return lambda deep, shallow: (sign * (deep - shallow).mean().item(), float(error(deep, shallow)))


GAP = Exercise(
    id="2.2",
    title=N_("the degradation gap, with its error"),
    claims=("B4",),
    solve=degradation_gap,
    cases=_gap_cases,
    misconceptions=(
        Misconception(
            "standard deviation",
            _gap(lambda d, s: (d - s).std()),
            N_("Is the error a standard deviation? That is how far one seed strays; the mean of S strays √S less."),
        ),
        Misconception(
            "divided by S",
            _gap(lambda d, s: (d - s).std() / len(d)),
            N_("Is the error divided by S? The mean's error falls as √S."),
        ),
        Misconception(
            "biased",
            _gap(lambda d, s: (d - s).std(correction=0) / math.sqrt(len(d))),
            N_("Is the deviation divided by S instead of S − 1? With few seeds that makes the error too small."),
        ),
        Misconception(
            "not paired",
            _gap(lambda d, s: ((d.var() + s.var()) / len(d)).sqrt()),
            N_("Are the two nets' errors added? The seeds are paired: take the difference seed by seed first."),
        ),
        Misconception(
            "reversed",
            _gap(lambda d, s: (d - s).std() / math.sqrt(len(d)), sign=-1),
            N_("Is the sign reversed? The gap is positive where the deep net is worse."),
        ),
        Misconception(
            "absolute value",
            lambda d, s: (abs((d - s).mean().item()), (d - s).std().item() / math.sqrt(len(d))),
            N_("Is the sign dropped? Where the deep net is better the gap is negative, and that must show."),
        ),
        Misconception(
            "median",
            lambda d, s: ((d - s).quantile(0.5).item(), (d - s).std().item() / math.sqrt(len(d))),
            N_("Is the gap a median? This standard error is the error of the mean."),
        ),
        Misconception(
            "population deviation",
            _gap(lambda d, s: (d - s).std(correction=0)),
            N_("Is the error a standard deviation, divided by S? Divide by S − 1 (NumPy: ddof=1), then by √S."),
        ),
        Misconception(
            "best against best",
            lambda d, s: ((d.min() - s.min()).item(), (d - s).std().item() / math.sqrt(len(d))),
            N_("Are the luckiest seeds compared? Take the mean over all seeds."),
        ),
    ),
    hints=(
        N_("First the differences, seed by seed; then their mean."),
        N_("The standard error of a mean is the differences' standard deviation (with S − 1) divided by √S."),
    ),
)


# 2.3 ------------------------------------------------------------------------------------------------------------------

_RIGHT = {"A": "overfitting", "B": "degradation", "C": "fine", "D": "divergence"}

DIAGNOSIS = Exercise(
    id="2.3",
    title=N_("four curves, four diagnoses"),
    claims=("B4",),
    solve=_RIGHT,
    cases=None,
    value_name="diagnosis",
    value_stub="""\
# Replace ... by a dict: each of "A", "B", "C", "D" is "fine", "overfitting", "degradation" or "divergence"
# (divergence: training breaks off, and the net ends at guessing, 90 %).
diagnosis = ...""",
    value_source='diagnosis = {"A": "overfitting", "B": "degradation", "C": "fine", "D": "divergence"}',
    misconceptions=(
        Misconception(
            "degradation as overfitting",
            {**_RIGHT, "B": "overfitting"},
            N_("Is B overfitting? A net that overfits does well on its training data; look at B's training error."),
        ),
        Misconception(
            "overfitting as degradation",
            {**_RIGHT, "A": "degradation"},
            N_("Is A degradation? Its training error falls with depth; only the test error rises."),
        ),
        Misconception(
            "swapped",
            {**_RIGHT, "A": "degradation", "B": "overfitting"},
            N_("Are A and B the wrong way round? Degradation shows on the training data, overfitting does not."),
        ),
        Misconception(
            "divergence as degradation",
            {**_RIGHT, "D": "degradation"},
            N_("Is D degradation? It improves with depth, then jumps to guessing at once: the training broke off."),
        ),
        Misconception(
            "divergence as overfitting",
            {**_RIGHT, "D": "overfitting"},
            N_("Is D overfitting? At depth 16 it is as bad on its training data as on the test data."),
        ),
        Misconception(
            "a gap is overfitting",
            {**_RIGHT, "C": "overfitting"},
            N_("Is C overfitting because test lies above train? It nearly always does; here depth improves both."),
        ),
    ),
    hints=(
        N_("Look at the training error first: does it rise with depth?"),
        N_("Falling train, rising test: overfitting. Both rising: degradation. A jump to guessing: divergence."),
    ),
)


# 2.4 ------------------------------------------------------------------------------------------------------------------


def normless_block(x, branch, depth):
    """Return the output of one of L = `depth` residual blocks without a norm; `branch` is F, with Var F(x) = Var x.

    Scale F(x) so that the variance grows by the factor 1 + 1/L a block: by less than e over all of them.
    """
    return x + branch(x) / math.sqrt(depth)


def _all_blocks(x, branch, depth):
    for _ in range(depth):
        x = x + branch(x) / math.sqrt(depth)
    return x


def _normless_cases():
    return [
        (vector(1.0, 1.0, -1.0, -1.0), turn, 4),  # Var F(x) = Var x, no covariance: from 1 to 1.25
        (vector(1.0, -2.0), square, 16),
        (normal(2, 3), sine, 32),
        (normal(3), square, 1),
    ]


NORMLESS = Exercise(
    id="2.4",
    title=N_("a residual block that trains at depth 32 without a norm"),
    claims=("B11", "B7"),
    solve=normless_block,
    cases=_normless_cases,
    misconceptions=(
        Misconception(
            "no factor",
            lambda x, branch, depth: x + branch(x),
            N_("Is there no factor? Then the variance doubles in every block: 2^32 after 32."),
        ),
        Misconception(
            "1/L",
            lambda x, branch, depth: x + branch(x) / depth,
            N_("Is the factor 1/L? Variances add, not amplitudes: that lets all L branches add only 1/L together."),
        ),
        Misconception(
            "the shortcut scaled too",
            lambda x, branch, depth: (x + branch(x)) / math.sqrt(depth),
            N_("Is x scaled too? After L blocks the shortcut would carry x·L^(−L/2): nothing."),
        ),
        Misconception(
            "the average",
            lambda x, branch, depth: (x + branch(x)) / math.sqrt(2),
            N_("Is the sum divided by √2? The variance stays level, but the shortcut halves x's share in every block."),
        ),
        Misconception(
            "the shortcut alone scaled",
            lambda x, branch, depth: x / math.sqrt(depth) + branch(x),
            N_("Is the factor on the shortcut? It belongs on the branch: the shortcut must stay the identity."),
        ),
        Misconception(
            "inside the branch",
            lambda x, branch, depth: x + branch(x / math.sqrt(depth)),
            N_("Does F read a scaled x? Scale what F returns; a nonlinear F answers a scaled input differently."),
        ),
        Misconception(
            "no shortcut",
            lambda x, branch, depth: branch(x) / math.sqrt(depth),
            N_("Where has the shortcut gone? The block still adds x."),
        ),
        Misconception(
            "precedence",
            lambda x, branch, depth: x + branch(x) / depth / 2,
            N_("Is that depth ** 1 / 2? It is (depth ** 1) / 2; write depth ** 0.5 or math.sqrt(depth)."),
        ),
        Misconception(
            "all blocks",
            lambda x, branch, depth: _all_blocks(x, branch, depth),
            N_("Are these all L blocks? One is wanted; L only sets its factor."),
        ),
        Misconception(
            "√L",
            lambda x, branch, depth: x + math.sqrt(depth) * branch(x),
            N_("Is the branch multiplied by √L? It must become smaller with depth, not larger."),
        ),
    ),
    hints=(
        N_("With a factor c on F, the variance grows by 1 + c² a block. Which c makes that 1 + 1/L?"),
        N_("c = 1/√L, on the branch only; math.sqrt(depth) is √L."),
    ),
)


# 2.5 ------------------------------------------------------------------------------------------------------------------


def bn_residual_block(x, weight):
    """Return x + relu(BN(x)) Wᵀ for x (B, D): BN over the batch with ε = 1e-5, no γ, β. `weight` is W (D, D)."""
    mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
    normalised = (x - mean) / torch.sqrt(var + 1e-5)
    return x + torch.relu(normalised) @ weight.T


def _buggy_bn_residual_block(x, weight):
    """Return x + relu(BN(x)) Wᵀ for x (B, D): BN over the batch with ε = 1e-5, no γ, β. `weight` is W (D, D)."""
    mean, var = x.mean(dim=0), x.var(dim=0, correction=0)
    x = (x - mean) / torch.sqrt(var + 1e-5)
    return x + torch.relu(x) @ weight.T


def _bn(x, dim=0, correction=0, eps=1e-5):
    mean, var = x.mean(dim=dim, keepdim=True), x.var(dim=dim, correction=correction, keepdim=True)
    return (x - mean) / torch.sqrt(var + eps)


def _bn_cases():
    weight = torch.tensor([[1.0, 0.0], [1.0, -2.0]])
    return [  # float32, so that torch.nn.BatchNorm1d takes them
        (torch.tensor([[1.0, -4.0], [3.0, 0.0]]), weight),
        ((3 + 2 * normal(4, 3)).float(), normal(3, 3, seed=1).float()),
        ((0.01 * normal(5, 2)).float(), normal(2, 2, seed=2).float()),
    ]


BUG = Exercise(
    id="2.5",
    title=N_("find the bug in a batch-norm residual block"),
    claims=("B12",),
    solve=bn_residual_block,
    cases=_bn_cases,
    starter=_buggy_bn_residual_block,
    rtol=1e-4,
    atol=1e-5,
    misconceptions=(
        Misconception(
            "the norm on the sum",
            lambda x, weight: _bn(x + torch.relu(_bn(x)) @ weight.T),
            N_("Is the sum normalised? Then nothing travels unchanged: the shortcut must bypass every norm."),
        ),
        Misconception(
            "norm left out",
            lambda x, weight: x + torch.relu(x) @ weight.T,
            N_("Where has the norm gone? The branch still reads BN(x); only the shortcut must not."),
        ),
        Misconception(
            "relu on the shortcut",
            lambda x, weight: torch.relu(x) + torch.relu(_bn(x)) @ weight.T,
            N_("Does x pass through relu on the shortcut? Negative entries would be lost there."),
        ),
        Misconception(
            "over the features",
            lambda x, weight: x + torch.relu(_bn(x, dim=1)) @ weight.T,
            N_("Are mean and variance taken over the features? That is LayerNorm; the statistics were right as given."),
        ),
        Misconception(
            "unbiased variance",
            lambda x, weight: x + torch.relu(_bn(x, correction=1)) @ weight.T,
            N_("Is the variance divided by B − 1? The statistics were right as given."),
        ),
        Misconception(
            "no ε",
            lambda x, weight: x + torch.relu(_bn(x, eps=0)) @ weight.T,
            N_("Has ε gone? It matters where a feature hardly varies over the batch."),
        ),
        Misconception(
            "no shortcut",
            lambda x, weight: torch.relu(_bn(x)) @ weight.T,
            N_("Where has the shortcut gone? The block still adds x."),
        ),
    ),
    hints=(
        N_("Follow the name x from the first line to the last. What does it hold in the sum?"),
        N_("Give the normalised values a name of their own, so that x in the sum is the block's input."),
    ),
)


# 2.6 ------------------------------------------------------------------------------------------------------------------


def gradient_correlation(function, x):
    """Return the mean cosine between ∂f/∂x_a and ∂f/∂x_b over all pairs a ≠ b of the rows of x (B, D).

    An experiment: `function` maps x (B, D) to (B,), row by row. Let autograd measure each row's gradient. Return a
    float; B is at least 2, and no gradient is zero.
    """
    x = x.clone().requires_grad_()
    (gradients,) = torch.autograd.grad(function(x).sum(), x)
    unit = gradients / gradients.norm(dim=1, keepdim=True)
    cosines = unit @ unit.T
    return ((cosines.sum() - cosines.trace()) / (len(x) * (len(x) - 1))).item()


def _correlation_cases():
    weight = normal(4, 4, seed=3)
    squares = Shown(lambda z: (z**2).sum(dim=1) / 2, "z ↦ ½‖z‖²")
    cubes = Shown(lambda z: (z**3).sum(dim=1), "z ↦ Σ z³")
    network = Shown(lambda z: torch.relu(z @ weight).sum(dim=1), "z ↦ Σ relu(z W)")
    pair = torch.tensor([[1.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    return [(squares, pair), (cubes, pair), (cubes, 1 + normal(3, 2)), (network, normal(6, 4))]


def _gradients(function, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


def _unit(g):
    return g / g.norm(dim=-1, keepdim=True)


def _pairs(matrix):
    n = len(matrix)
    return ((matrix.sum() - matrix.trace()) / (n * (n - 1))).item()


CORRELATION = Exercise(
    id="2.6",
    title=N_("an experiment: how alike are the gradients?"),
    claims=("B12",),
    solve=gradient_correlation,
    cases=_correlation_cases,
    misconceptions=(
        Misconception(
            "each with itself",
            lambda function, x: (_unit(_gradients(function, x)) @ _unit(_gradients(function, x)).T).mean().item(),
            N_("Are the pairs a = b counted? Each has cosine 1 with itself, whatever the network does."),
        ),
        Misconception(
            "not normalised",
            lambda function, x: _pairs(_gradients(function, x) @ _gradients(function, x).T),
            N_("Are these dot products? A cosine divides by both lengths."),
        ),
        Misconception(
            "the inputs' cosine",
            lambda function, x: _pairs(_unit(x) @ _unit(x).T),
            N_("Is this the cosine of the inputs? The question is how alike their gradients are."),
        ),
        Misconception(
            "absolute values",
            lambda function, x: _pairs((_unit(_gradients(function, x)) @ _unit(_gradients(function, x)).T).abs()),
            N_("Are the cosines' signs dropped? Opposed gradients cancel in a batch, and that must show."),
        ),
        Misconception(
            "centred",
            lambda function, x: _pairs(torch.corrcoef(_gradients(function, x))),
            N_("Is each gradient's mean taken off? That is Pearson's correlation; a cosine keeps the mean."),
        ),
        Misconception(
            "divided by B²",
            lambda function, x: (
                _pairs(_unit(_gradients(function, x)) @ _unit(_gradients(function, x)).T) * (len(x) - 1) / len(x)
            ),
            N_("Is the mean over all B² entries, zeros on the diagonal counted? There are B(B − 1) pairs a ≠ b."),
        ),
        Misconception(
            "half",
            lambda function, x: _pairs(_unit(_gradients(function, x)) @ _unit(_gradients(function, x)).T) / 2,
            N_("Is each pair added once, but divided by B(B − 1)? The upper triangle holds half as many."),
        ),
        Misconception(
            "by columns",
            lambda function, x: _pairs(
                (_gradients(function, x) / _gradients(function, x).norm(dim=0))
                @ (_gradients(function, x) / _gradients(function, x).norm(dim=0)).T
            ),
            N_("Is each column divided by its length? A row is one input's gradient: norm(dim=1, keepdim=True)."),
        ),
        Misconception(
            "summed",
            lambda function, x: (
                _pairs(_unit(_gradients(function, x)) @ _unit(_gradients(function, x)).T) * len(x) * (len(x) - 1)
            ),
            N_("Is this a sum? Divide by the number of pairs, B(B − 1)."),
        ),
    ),
    hints=(
        N_("The rows do not mix, so the gradient of function(x).sum() holds every row's own gradient."),
        N_("Divide each row by its length; G @ G.T holds all cosines. Leave the diagonal out of the mean."),
    ),
)

EXERCISES = (COPY, GAP, DIAGNOSIS, NORMLESS, BUG, CORRELATION)

"""3.13: edge cases, predicted."""

from addnorm_lib.course.exercises.define import table

PREDICTIONS = {
    "LN([5, 5, 5])": "zeros",
    "RMSNorm([5, 5, 5])": "ones",
    "LN([7])": "zeros",
    "LN([3, 800])": "[-1, 1]",
    "LN([1, 2, 4])": "something else",
    "LN(LN(x))": "LN(x)",
    "LN(-2 * x)": "-LN(x)",
    "LN(1e-6 * x)": "zeros",
    "GroupNorm(3, 3)([[1, 2, 4], [3, 5, 9]])": "zeros",
    "256 + 0.5 - 256 in bfloat16": "zeros",
}

TASK = """
Predict first, then run. Each is "zeros", "ones", "[-1, 1]", "LN(x)", "-LN(x)" or "something else", to two decimals.
x is a token of 8 standard normal numbers; γ = 1, β = 0, ε = 1e-5.
"""

MISTAKES = """
constant becomes 1: LN([5, 5, 5]) → ones
    Does a constant token become 1? Its mean is taken off first: 0/√ε = 0. RMSNorm keeps it, and gives 1.
RMSNorm centres: RMSNorm → zeros
    Does RMSNorm take the mean off? It divides by √mean(x²) alone, so [5, 5, 5] becomes ones.
RMSNorm is layer norm: LN([5, 5, 5]) → ones; RMSNorm → zeros
    Are layer norm and RMSNorm the wrong way round? Only layer norm subtracts the mean.
D = 1 is harmless: LN([7]) → ones
    Is D = 1 harmless? A single number is its own mean: layer norm erases it.
D = 1 keeps something: LN([7]) → something else
    Does anything of a single number survive? It is its own mean, so x − μ = 0.
D = 2 keeps something: LN([3, 800]) → something else
    Does LN([3, 800]) differ from LN([3, 4])? With two features only their order is left: always ±1.
twice is more: LN(LN(x)) → something else
    Does a second norm change anything? LN(x) has mean 0 and variance 1 already, up to ε.
the sign is lost: LN(-2 * x) → LN(x)
    Is LN(αx) = LN(x) for negative α too? The variance loses the sign, x − μ keeps it.
every scale is undone: LN(1e-6 * x) → LN(x)
    Is LN(αx) = LN(x) for tiny α too? σ² = 1e-12 is far below ε, and σ/√(σ² + ε) is about 3e-4.
every scale is undone, the sign too: LN(-2 * x) → LN(x); LN(1e-6 * x) → LN(x)
    Is LN(αx) = LN(x) for every α? A negative α flips the sign, and for a tiny one ε takes over.
a channel a group: GroupNorm → LN(x)
    Is GroupNorm(3, 3) on (N, 3) layer norm? Each group holds one number, its own mean: zeros.
a channel a group keeps something: GroupNorm → something else
    What does GroupNorm(C, C) leave of (N, C)? Each group holds one number, its own mean: nothing.
bfloat16 keeps the update: 256 → something else
    Is 256.5 a bfloat16 number? From 256 on they are 2 apart: the update is lost before any norm sees it.
a negative factor: LN(-2 * x) → something else
    What does −2 do in x − μ, and in σ? The factor 2 cancels, the sign stays.
two decimals: LN(1e-6 * x) → something else
    Is anything left of LN(1e-6·x) to two decimals? σ is 1e-6 and √ε is 3e-3.
"""

HINTS = """
First x − μ: what is left of a constant, of one number, of two?
Then the factor 1/√(σ² + ε): what is it when σ² is far below ε?
"""

EXERCISE = table(__doc__, "predictions", PREDICTIONS, MISTAKES, HINTS, claims="C3 C4 C7 C8 C17", task=TASK)

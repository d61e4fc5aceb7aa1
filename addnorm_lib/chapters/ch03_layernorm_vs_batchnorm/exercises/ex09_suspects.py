"""3.9: seven suspects: six wrong layer norms and a right one."""

from addnorm_lib.course.exercises.define import table

BUGS = {
    "A": "one-pass variance",
    "B": "unbiased variance",
    "C": "gamma per token",
    "D": "fine",
    "E": "eps outside the root",
    "F": "wrong axis",
    "G": "changes x",
}

TASK = """
Each of "unbiased variance", "eps outside the root", "wrong axis", "one-pass variance", "gamma per token",
"changes x" and "fine" fits once. show_suspects() shows them; SUSPECTS["A"](x, weight, bias, eps) runs one.
"""

MISTAKES = """
one-pass is fine: A → fine
    Is A fine? mean(x²) − μ² is the variance in algebra; try tokens of mean 1e4 in float32.
two-pass is suspicious: A → fine; D → one-pass variance
    Are A and D the wrong way round? D subtracts the mean before it squares; A squares first.
D is unbiased: B → fine; D → unbiased variance
    Are B and D the wrong way round? D's mean of squares divides by D features; what does var() divide by?
unbiased is fine: B → fine
    Is B fine? var() divides by D − 1 unless told otherwise: try [1, 2, 3, 4].
ε is a matter of taste: E → fine
    Is E fine? For large σ you cannot tell: try a token with σ = 1e-3.
E is unbiased: B → eps outside the root; E → unbiased variance
    Are B and E the wrong way round? E says correction=0; look at where its ε stands.
axis 1 is the last one: F → fine
    Is F fine? It is on (N, D): try (B, T, D).
C is the wrong axis: C → wrong axis; F → gamma per token
    Are C and F the wrong way round? C's statistics are each token's own; look at its γ and β.
C is fine: C → fine
    Is C fine? With γ = 1, β = 0 it is: give it a γ of your own, on a square x (D, D), and compare.
in place is fine: G → fine
    Is G fine? Its result is; compare x before and after the call. In x + LN(x), which x is added?
"""

HINTS = """
Compare with torch.nn.functional.layer_norm on several x: (N, D), (D, D), (B, T, D), tiny, shifted.
Give γ and β random values; look at x after the call, too.
correction= is 1 unless given; dim=1 is the last axis of (N, D) only; x -= … writes into the caller's x.
"""

EXERCISE = table(__doc__, "bugs", BUGS, MISTAKES, HINTS, claims="C2 C5 C8", task=TASK)

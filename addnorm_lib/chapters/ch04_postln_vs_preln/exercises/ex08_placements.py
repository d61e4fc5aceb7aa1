"""4.8: an experiment: four blocks, four placements."""

from addnorm_lib.course.exercises.define import table

PLACED = {"A": "branch", "B": "post", "C": "sandwich", "D": "pre"}

TASK = """
Replace ... by a dict: each of "A", "B", "C", "D" is "post", "pre", "sandwich" or "branch".
Ask the blocks: blocks["A"](x, sublayer) takes any sublayer that you can think of; what does F = 0 give?
"""

MISTAKES = """
pre and post swapped: B → pre; D → post
    Are pre and post the wrong way round? With F = 0 Pre-LN returns x itself, Post-LN returns LN(x).
pre and branch swapped: A → pre; D → branch
    Are pre and branch the wrong way round? Try F(z) = 1000 z: a norm behind F takes the factor off again.
sandwich and branch swapped: A → sandwich; C → branch
    Are sandwich and branch the wrong way round? Let F print what it reads: x, or LN(x)?
sandwich and pre swapped: C → pre; D → sandwich
    Are sandwich and pre the wrong way round? Try F(z) = 1000 z: which block does not care?
post and branch swapped: A → post; B → branch
    Are post and branch the wrong way round? Take x with mean 5: whose output has mean 0?
all pre but one: A → pre; C → pre
    Is every block that returns x for F = 0 a pre? Three placements do that; try another F.
turned round: A → pre; B → sandwich; C → post; D → branch
    Is each placement taken for its opposite? Start with F = 0: one block alone does not return x.
"""

HINTS = """
F = 0: torch.zeros_like as the sublayer. One block alone changes x then.
For the other three: does F read x or LN(x) (let it print), and does 1000·F change the output?
"""

EXERCISE = table(__doc__, "placements", PLACED, MISTAKES, HINTS, claims="D1 D2", task=TASK, keys_given=False)

"""4.9: six statements, decided by running them."""

from addnorm_lib.course.exercises.define import table

TRUE = {"A": False, "B": False, "C": True, "D": False, "E": True, "F": True}

TASK = """
Replace ... by a dict: each of "A" to "F" is True or False. A line of code decides each better than memory.
A: nn.TransformerEncoderLayer(d_model, n_heads) is a Pre-LN layer.
B: nn.TransformerEncoder(layer, 6) puts a norm after the last layer, where `layer` is a Pre-LN layer.
C: The layers of a new nn.TransformerEncoder all start from the same numbers.
D: In a new Pre-LN stack every layer receives an equally large gradient.
E: A Post-LN stack of 6 layers can be trained without warm-up.
F: In a new Pre-LN stack the variance of the residual stream grows from block to block.
"""

MISTAKES = """
Pre-LN by default: A → True
    Is A true? Read norm_first's default with inspect.signature: it is Post-LN, as in Vaswani et al. 2017.
a final norm by itself: B → True
    Is B true? Look at the encoder's .norm: it is None unless you hand one over.
drawn one by one: C → False
    Is C false? Compare two layers' weights: the encoder deep-copies the layer that it is given.
equal gradients: D → True
    Is D true? Later layers add to a stream that has grown: their gradients are smaller. Measure them.
warm-up always: E → False
    Is E false? Depth decides: 6 layers learn without warm-up; it is the deep stack that needs care.
a normalised stream: F → False
    Is F false? LN(x) has variance 1, but only F reads it; the stream adds up all branches (exercise 4.3).
all true: A → True; B → True; D → True
    Are all six true? Three are not; each takes one line to refute.
all false: C → False; E → False; F → False
    Are all six false? Three are true; each takes one line to show.
"""

HINTS = """
inspect.signature and the modules' attributes settle A, B and C.
Autograd settles D, exercise 4.3 settles F, and this chapter's warm-up experiment settles E.
"""

EXERCISE = table(__doc__, "statements", TRUE, MISTAKES, HINTS, claims="D1 D2 D3 D4", task=TASK, keys_given=False)

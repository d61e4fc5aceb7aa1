"""2.3: four curves, four diagnoses."""

from addnorm_lib.course.exercises.define import table

DIAGNOSED = {"A": "overfitting", "B": "degradation", "C": "fine", "D": "divergence"}

TASK = """
Replace ... by a dict: each of "A", "B", "C", "D" is "fine", "overfitting", "degradation" or "divergence"
(divergence: training breaks off, and the net ends at guessing, 90 %).
"""

MISTAKES = """
degradation as overfitting: B → overfitting
    Is B overfitting? A net that overfits does well on its training data; look at B's training error.
overfitting as degradation: A → degradation
    Is A degradation? Its training error falls with depth; only the test error rises.
swapped: A → degradation; B → overfitting
    Are A and B the wrong way round? Degradation shows on the training data, overfitting does not.
divergence as degradation: D → degradation
    Is D degradation? It improves with depth, then jumps to guessing at once: the training broke off.
divergence as overfitting: D → overfitting
    Is D overfitting? At depth 16 it is as bad on its training data as on the test data.
a gap is overfitting: C → overfitting
    Is C overfitting because test lies above train? It nearly always does; here depth improves both.
"""

HINTS = """
Look at the training error first: does it rise with depth?
Falling train, rising test: overfitting. Both rising: degradation. A jump to guessing: divergence.
"""

EXERCISE = table(__doc__, "diagnosis", DIAGNOSED, MISTAKES, HINTS, claims="B4", task=TASK, keys_given=False)

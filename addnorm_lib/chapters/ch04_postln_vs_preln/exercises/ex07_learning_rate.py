"""4.7: warm-up, then 1/√step."""

from addnorm_lib.course.exercises.define import exercise


def learning_rate(step, d_model, warmup_steps):
    """Return the learning rate at `step` = 1, 2, …, by Vaswani et al. 2017, section 5.3, as a float.

    It rises linearly to (d_model · warmup_steps)^(−1/2) at step = warmup_steps, then falls as 1/√step.
    """
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def _cases():
    return [(1, 4, 4), (2, 4, 4), (4, 4, 4), (16, 4, 4), (9, 16, 25), (1000, 512, 4000), (100_000, 512, 4000)]


def _peak(d_model, warmup_steps):
    return (d_model * warmup_steps) ** -0.5


MISTAKES = """
max for min: min( → max(
    Is the larger of the two taken? Early 1/√step is the larger: the smaller is wanted on either side.
no warm-up: , step * warmup_steps**-1.5 → , float("inf")
    Is there no warm-up, or a line never below 1/√step? Deep Post-LN needs care at step 1.
no decay: step**-0.5 → warmup_steps**-0.5
    Does the rate stay at its peak? After warm-up it falls as 1/√step.
rises for ever: min(step**-0.5, → (
    Does the rate rise for ever? The linear part ends at step = warmup_steps.
d_model left out: d_model**-0.5 * →
    Where is d_model? Wider models get a smaller rate, by 1/√d_model.
1/d_model: d_model**-0.5 → 1 / d_model
    Is d_model's root missing? The factor is d_model^(−1/2).
√d_model: d_model**-0.5 → d_model**0.5
    Is the rate multiplied by √d_model? Wider models get a smaller rate.
the shape alone: return min(step / warmup_steps, (warmup_steps / step) ** 0.5)
    Is the peak 1? The peak is (d_model · warmup_steps)^(−1/2).
exponent of the warm-up: warmup_steps**-1.5 → warmup_steps**-0.5
    Is it step · warmup^(−1/2)? At step = warmup_steps both parts must meet: the exponent is −3/2.
warm-up to 1/√d_model: return d_model**-0.5 * (step / warmup_steps if step < warmup_steps else step**-0.5)
    Does the warm-up rise to d_model^(−1/2)? Then the rate jumps where it ends; both parts must meet.
warm-up to 1: return step / warmup_steps if step < warmup_steps else (d_model * step) ** -0.5
    Does the warm-up rise to 1? Both parts must meet at step = warmup_steps.
exponent −1 in the warm-up: warmup_steps**-1.5 → warmup_steps**-1
    Is it step / warmup_steps? At step = warmup_steps both parts must meet: the exponent is −3/2.
the peak over √step: late = step > warmup_steps ⏎
        return _peak(d_model, warmup_steps) * (step**-0.5 if late else step / warmup_steps)
    Is the peak divided by √step after the warm-up? Then the rate jumps: it is 1/√(d_model · step).
the peak over √(step − warm-up): late = step - warmup_steps ⏎
        return _peak(d_model, warmup_steps) * (late**-0.5 if late > 0 else step / warmup_steps)
    Does the decay count its steps from the end of the warm-up? It is 1/√(d_model · step).
the peak over √(step − warm-up + 1): late = step - warmup_steps ⏎
        return _peak(d_model, warmup_steps) * ((late + 1) ** -0.5 if late > 0 else step / warmup_steps)
    Does the decay start again at step 1 when the warm-up ends? It is 1/√(d_model · step).
the peak without its root: return min(step / warmup_steps, (warmup_steps / step) ** 0.5) / (d_model * warmup_steps)
    Is the peak's root missing? It is (d_model · warmup_steps)^(−1/2).
the peak's exponent positive:
        return min(step / warmup_steps, (warmup_steps / step) ** 0.5) * (d_model * warmup_steps) ** 0.5
    Is the sign of the peak's exponent lost? It is (d_model · warmup_steps)^(−1/2), well below 1.
precedence: d_model**-0.5 → d_model**-1 / 2; step**-0.5 → step**-1 / 2; warmup_steps**-1.5 → warmup_steps**-3 / 2
    Is that ** -1 / 2? Python reads it as (… ** −1) / 2; write ** -0.5 and ** -1.5.
steps from 0: return → step = step + 1 ⏎ return
    Is 1 added to the step? Steps are counted from 1 already.
a step behind: return learning_rate(step - 1, d_model, warmup_steps) if step > 1 else 0.0
    Is 1 taken off the step? The first step has a rate above 0 already.
1/step: return _peak(d_model, warmup_steps) * min(step / warmup_steps, warmup_steps / step)
    Does the rate fall as 1/step? The decay is by the root: 1/√step.
restarted decay: late = step - warmup_steps ⏎
        return d_model**-0.5 * (late**-0.5 if late > 0 else step * warmup_steps**-1.5)
    Does the decay count its steps from the end of the warm-up? Then the rate jumps; it is step^(−1/2).
warm-up by the root: return _peak(d_model, warmup_steps) * min(step / warmup_steps, warmup_steps / step) ** 0.5
    Does the rate rise as √step? The warm-up is linear; only the decay has a root.
"""

HINTS = """
Write the two parts one by one: a line through 0, and c/√step. Where must they meet?
min(step^(−1/2), step · warmup_steps^(−3/2)), times d_model^(−1/2).
"""

EXERCISE = exercise(__doc__, learning_rate, _cases, MISTAKES, HINTS, claims="D3", atol=0.0)

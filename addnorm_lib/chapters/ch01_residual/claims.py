"""What chapter 1 proves about the residual connection: each claim's id and its sentence."""

from addnorm_lib.messages import N_

STATEMENTS = {
    "A2": N_("F(x) has the shape of x, or a projection aligns the two"),
    "B1": N_("y = x + F(x): with F = 0 the block is exactly the identity"),
    "B2": N_("learning F ≈ 0 is easier than learning the identity with a stack of nonlinear layers"),
    "B5": N_("a plain stack multiplies Jacobians: the gradient vanishes or explodes with the gain"),
    "B6": N_("with a residual the factor is I + J, and near I only while L·s² is small"),
    "B7": N_("a residual relieves vanishing gradients, it does not abolish vanishing or explosion"),
    "B8": N_("plain stacks lose early information, residual stacks keep what no branch erases"),
    "B9": N_("at initialisation the branch's share of the variance is 1/(l + 1)"),
    "B10": N_(
        "a residual is the sum, not a copy: it gives a direct path at constant width, a detached copy gives none"
    ),
    "B13": N_("gradients reach early layers by short paths"),
}

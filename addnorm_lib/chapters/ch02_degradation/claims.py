"""What chapter 2 proves about degradation: each claim's id and its sentence."""

from addnorm_lib.messages import N_

STATEMENTS = {
    "B3": N_("a deeper net can copy the shallower one exactly, so it need never be worse"),
    "B4": N_("deeper plain nets have a higher training error too: degradation is not overfitting"),
    "B11": N_("a residual does not make depth unlimited: scale, norm and learning rate still matter"),
    "B12": N_("all else equal, the residual stack is easier to optimise"),
}

AGAIN = ("B7",)  # another chapter's claims, proven here once more

"""What chapter 4 proves about where the norm stands: each claim's id and its sentence."""

from addnorm_lib.messages import N_

STATEMENTS = {
    "D1": N_("Post-LN is LN(x + F(x)), Pre-LN is x + F(LN(x)), and a Pre-LN stack wants a final norm"),
    "D2": N_("the order changes gradients and hidden states at initialisation, not only the style"),
    "D3": N_("Pre-LN trains deep stacks without the warm-up that Post-LN needs"),
    "D4": N_("Post-LN is not worthless, and Pre-LN has its price: the outcome depends on depth and schedule"),
    "D6": N_("residual and norm solve different problems: at depth only both together train"),
}

"""What chapter 3 proves about norms: each claim's id and its sentence."""

from addnorm_lib.messages import N_

STATEMENTS = {
    "C1": N_("batch, layer, instance and group norm and RMSNorm differ in the numbers that share one statistic"),
    "C2": N_("layer norm divides by the biased deviation: [1, 2, 3, 4] becomes [−1.34, −0.45, 0.45, 1.34]"),
    "C3": N_("normalised values have mean 0 and variance σ²/(σ² + ε); nothing confines them to [0, 1]"),
    "C4": N_("layer norm brings large and small vectors to one scale while σ² is far above ε"),
    "C5": N_("on (B, T, D) layer norm takes one mean and one variance a token; tokens never mix"),
    "C6": N_("γ and β scale and shift each feature, alike for all tokens: they cannot undo a token's own μ and σ"),
    "C7": N_("layer norm removes exactly two degrees of freedom of a token: its mean and its length"),
    "C8": N_("ε keeps a constant token from dividing by zero"),
    "C9": N_("a very large scale saturates softmax and a very small one flattens it; behind a norm the scale is gone"),
    "C10": N_("batch norm lowers the sensitivity to the learning rate, and makes a sample depend on its batch"),
    "C11": N_("small batches make batch norm's statistics noisy: the mean's deviation falls as 1/√B"),
    "C12": N_("at B = 1, T = 1 batch norm refuses in training mode and uses running statistics in evaluation mode"),
    "C13": N_("padding moves batch norm's outputs for real tokens, and layer norm's not"),
    "C14": N_("layer norm gives a token the same output alone or in a batch, in training or evaluation mode"),
    "C15": N_("layer norm suits generation token by token; batch norm in training mode leaks the future"),
    "C16": N_("the tokens of real text differ in their statistics, and a batch of neighbours says less than strangers"),
    "C17": N_("group norm stands between layer norm (one group) and instance norm (one channel a group)"),
    "C18": N_("layer norm speeds up convergence and widens the range of learning rates in deep stacks"),
}

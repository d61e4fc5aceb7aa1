"""What chapter 6 proves about the fused core: each claim's id and its sentence."""

from addnorm_lib.messages import N_

STATEMENTS = {
    "F1": N_("the fused forward moves 3 tensors' bytes, 4 where the sum is kept"),
    "F2": N_("eager mode's two lines move 5, for the sum is written and read again; Pre-LN's backward 6, fused 4"),
    "F3": N_("Add & Norm does so little arithmetic a byte that memory alone decides its time"),
    "F4": N_("two passes over the rounded sum give what eager mode gives on x + residual"),
    "F5": N_("backward needs two numbers a row, c1 and c2, and no more"),
    "F6": N_("the gradients of γ and β are partial sums in a fixed order: the same bits in every run"),
    "F7": N_("block shapes depend on D and dtype alone, so a row has the same bits alone and in any batch"),
    "F8": N_("small shapes are bound by the call, not by the bytes"),
    "F9": N_("masked lanes let a tile of a power of two hold any D, if they are masked twice"),
    "F10": N_("mean and variance of two parts merge exactly into the whole's"),
    "F11": N_("the layers compute each sum together with the norm that follows it, even in the next layer"),
}

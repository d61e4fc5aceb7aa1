"""A microscope on the fused core: its bytes counted, its kernel stepped through, its time against a copy's."""

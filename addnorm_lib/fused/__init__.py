"""The fused Add & Norm."""

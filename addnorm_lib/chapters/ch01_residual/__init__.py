"""Chapter 1: the residual connection."""

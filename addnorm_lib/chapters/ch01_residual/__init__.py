"""Chapter 1: what "+ x" does to values, gradients and information."""

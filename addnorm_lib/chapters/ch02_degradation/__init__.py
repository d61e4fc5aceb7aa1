"""Chapter 2: the degradation experiment."""

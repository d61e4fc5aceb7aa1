"""Chapter 4: whether it matters that the norm stands before or after."""

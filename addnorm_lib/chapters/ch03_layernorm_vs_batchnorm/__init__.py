"""Chapter 3: over which numbers the mean is taken, and why Transformers choose the features."""

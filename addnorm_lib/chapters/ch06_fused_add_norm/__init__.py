"""Chapter 6: what a GPU does with Add & Norm."""

"""The exercises of chapter 1."""

"""The exercises of chapter 2."""

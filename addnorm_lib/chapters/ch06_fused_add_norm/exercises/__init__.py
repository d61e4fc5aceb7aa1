"""The exercises of chapter 6."""

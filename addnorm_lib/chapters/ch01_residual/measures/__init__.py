"""What chapter 1 measures, one module a question."""

"""What chapter 3 measures, one module a question."""

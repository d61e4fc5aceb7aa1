"""Chapter 4: Post-LN and Pre-LN."""

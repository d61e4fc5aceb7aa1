"""Chapter 2: why deeper plain networks get worse on their own training data."""

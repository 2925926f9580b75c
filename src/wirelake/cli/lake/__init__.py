"""Lake."""

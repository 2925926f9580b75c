"""esnp."""

"""The protocols."""

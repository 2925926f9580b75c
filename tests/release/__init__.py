"""Distributions: their files, and the wheel in an empty environment."""

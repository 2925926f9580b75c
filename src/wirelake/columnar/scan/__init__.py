"""Scan."""

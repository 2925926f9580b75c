"""Decode."""

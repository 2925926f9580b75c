"""Packets."""

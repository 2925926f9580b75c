"""Wirelake: private binary TCP protocols, from the wire to the lake."""

__version__ = "0.1.0"

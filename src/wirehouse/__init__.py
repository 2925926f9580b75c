"""Wirehouse: private binary TCP protocols, from the wire to the warehouse."""

__version__ = "0.1.0"

"""Kernels of the built-in protocols, generated from their layouts."""

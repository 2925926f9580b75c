"""Layouts to kernels: the source of functions that decode many messages in one call.

In reading order: `plan.py` (the buffers that a kernel fills), `text.py` (source text), `emit.py`
(fields), `dynamic.py` (values whose type is on the wire), `frames.py` (frames), `module.py` (a
whole module). `python -m wirelake.columnar.generate` writes `columnar/kernels`.

Kernels are files, not strings that are executed: Numba caches only code that has a file.
"""

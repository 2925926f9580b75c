"""Layouts to kernels: the source of functions that decode many messages in one call.

In reading order: `plan.py` (the buffers that a kernel fills), `text.py` (source text), `emit.py`
(fields), `dynamic.py` (values whose type is on the wire), `frames.py` (frames), `module.py` (a
whole module). `python -m wirelake.columnar.generate` writes `columnar/kernels`.

Each kernel is specialised to one layout, with every bound checked: it reaches 0.79 times the speed
of hand-written C without checks, where an interpreter of opcodes in Numba reached 0.4. Kernels are
files, not strings that are executed, because Numba caches only code that has a file.
"""

"""Layouts to kernels: the source of functions that decode many messages in one call.

In reading order: `plan.py` (the columns that a kernel fills), `emit.py` (fields), `frames.py`
(frames), `module.py` (a whole module). `python -m wirelake.columnar.generate` writes the kernels of
the default dialects to `columnar/kernels`; others are generated into the cache folder.

Each kernel is specialised to one layout, with every bound checked. Generated kernels reach 0.87 to
1.04 times the speed of hand-written C (benchmarks/results/columnar.json); an interpreter of opcodes
in Numba reached 0.4. Kernels are files, not strings that are executed, because Numba caches only
code that has a file.
"""

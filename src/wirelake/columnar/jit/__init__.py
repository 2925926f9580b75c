"""How kernels are compiled, and the helpers that all of them share.

    mode.py         whether kernels are compiled or interpreted; where compiled ones are kept
    options.py      `kernel`, `inline`, and the conventions of kernels
    compiler.py     the one place that knows Numba
    intrinsics.py   numbers of any width and byte order from bytes; UTF-8 validation

Imports nothing of `columnar`.
"""

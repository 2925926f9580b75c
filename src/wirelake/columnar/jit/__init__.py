"""How kernels are compiled, and the helpers that all of them share.

    options.py      `kernel` and `inline`: the one place that knows Numba's options
    intrinsics.py   numbers of any width and byte order from bytes; UTF-8 validation

Imports nothing of `columnar`.
"""

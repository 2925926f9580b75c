"""How kernels are compiled, and the helpers that all of them share.

    options.py  `kernel` and `inline`: the one place that knows Numba's options
    loads.py    numbers of any width and byte order out of bytes
    utf8.py     whether bytes are UTF-8
    memory.py   memory that goes back to the system as soon as it is free

Imports nothing of `columnar`.
"""

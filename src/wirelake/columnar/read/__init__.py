"""The public face of `columnar`: captures to any table, filtered, in one process or several.

In reading order:

    options.py    `ReadOptions`: what to read, and the schema of the result; without Numba
    reader.py     `read_batches`: a table, through a pipeline and a fold
    parallel.py   `read_parallel`: shares of the connections, each in a process of its own
    warm.py       kernels loaded or compiled before processes are forked
"""

"""The public face of `columnar`: captures to any table, filtered, in one process or several.

In reading order:

    reader.py     `read_batches`, `ReadOptions`: a table, through a pipeline and a fold
    parallel.py   `read_parallel`: shares of the connections, each in a process of its own
    warm.py       kernels loaded or compiled before processes are forked
"""

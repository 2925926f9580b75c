"""The public face of `columnar`: captures to any table, filtered, in one process or several.

In reading order:

    reader.py          `read_batches`, `ReadOptions`: a table, through a pipeline and an engine
    reorder_buffer.py  events of a connection in the order of their time, for the engines
    parallel.py        `read_parallel`: shares of the connections, or parts of a file
    workers.py         its processes, and what they send
    warm.py            kernels loaded or compiled before processes are forked
"""

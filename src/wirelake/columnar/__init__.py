"""Captures to Arrow batches, by Numba kernels that are generated from the protocols' layouts.

It reads the same tables as `wirelake.capture`, the reference in plain Python, a hundred times as
fast, and leaves to it whatever is not plainly good: tests compare the two row by row.

Data passes through the packages from the bottom up, and each imports only from those below it:

    read/       the public face: `read_batches`, `read_parallel`, filters
    fold/       messages to calls, connections, deliveries, tunnels and roll-ups by minute
    pipeline/   `CapturePipeline`: windows of captures to batches; saving and restoring
    decode/     frames of a window to columns of `messages`
    tcp/        packets to contiguous bytes of streams
    scan/       files to packets
    generate/   layouts to kernels; kernels/ holds those of the default dialects
    jit/        how kernels are compiled, and the helpers that they share

`state_format.py` is the file format of saved state. To follow a capture, read
`scan/scanner.py`, `tcp/frontend.py`, `pipeline/pipeline.py`, `decode/messages.py`, `fold/fold.py`.

Imported from elsewhere: `capture`, `records`, `protocols`, `wire`. Only this package imports numba.
No name is exported here, so that a user of one table does not import everything.
"""

"""Packets to contiguous bytes of streams: connections, order, reassembly.

In reading order:

    frontend.py      `FrontEnd`: everything below, window by window
    packets.py       the packets of a window, as columns
    flows.py         kernels: packets to connections and directions
    stream_order.py  kernels: which payload is next in its stream
    tracker.py       `Tracker`: the arrays that these kernels work on, and their growth
    reassembly.py    streams with segments out of order, through the assembler of `capture`
    pieces.py        which packet each byte came from; unfinished frames between windows
    gather.py        all of it to the bytes of a window
    window.py        `Window`: what a reader gets
    state.py         what is saved after a file, and how it is restored

Knows nothing of protocols: the caller says which ports are server ports, and which bytes to keep.
"""

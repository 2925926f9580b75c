"""Packets to contiguous bytes of streams: connections, order, reassembly.

In reading order:

    frontend.py      `FrontEnd`: everything below, window by window
    packets.py       the packets of a window, as columns
    slots.py         the records of connections, their index and their lists
    flows.py         kernel: packets to connections and directions
    stream_order.py  kernel: which payload is next in its stream
    tracker.py       `Tracker`: the arrays that these kernels work on, and their growth
    reassembly.py    streams that are out of order, through the assembler of `capture`
    pieces.py        kernels that copy payloads and remember where they came from
    carry.py         unfinished frames, from one window to the next
    gather.py        all of it to the bytes of a window
    window.py        `Window`: what a reader gets
    state.py         what is saved after a file, and how it is restored

Knows nothing of protocols: it is told which ports are those of servers, and which bytes to keep.
"""

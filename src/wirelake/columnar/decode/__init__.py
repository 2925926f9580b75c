"""Frames of a window to columns of `messages`.

In reading order:

    protocol_selector.py   which protocol a connection has, and the decoder of each
    kernel.py              the kernels of a protocol: committed, cached, or generated now
    messages.py            `MessageBuilder`: slices of bytes to batches; `CoverageCounts`
    arrays.py              buffers that kernels filled to Arrow arrays
    meaning.py             kind, name, ids, target and status, from a protocol's declaration
    texts.py               columns with few different texts, as Arrow dictionaries
    sealed_parts.py        decryption of sealed bodies, in batches
    scalar.py              what kernels reject, through the code of `capture`

Knows nothing of windows to come or of tables other than `messages` and `coverage`.
"""

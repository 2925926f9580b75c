"""Captures to batches of `messages`, `packets`, `faults` and `coverage`, window by window.

In reading order:

    pipeline.py      `CapturePipeline`
    window_rows.py   rows of kernels and of the reference, merged in the order of arrival
    lifecycle.py     when connections begin and end
    faults.py        rows of `faults`
    packet_table.py  rows of `packets`
    state.py         `PipelineState`: saving after a file, and continuing with the next

Knows nothing of calls, deliveries or tunnels.
"""

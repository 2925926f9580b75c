"""Captures to batches of `messages`, `packets`, `faults` and `coverage`, window by window.

In reading order:

    pipeline.py      `CapturePipeline`
    window_rows.py   the rows of a window: messages in order of arrival, packets, faults, and the
                     beginnings and ends of connections
    state.py         `PipelineState`: saving after a file, and continuing with the next

Knows nothing of calls, deliveries or tunnels.
"""

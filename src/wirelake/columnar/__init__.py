"""Captures to Arrow: generated kernels and stages, equal to `wirelake.capture` and much faster.

The front end (`frontend.py`) turns capture files into contiguous bytes of streams, window by
window; what stands behind it finds frames in them and decodes these into columns. See
`docs/concepts/captures.md`, which both implement.
"""

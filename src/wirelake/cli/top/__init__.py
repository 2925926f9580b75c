"""`wirelake top`: live statistics of a hub.

- `command`: the options and the update loop.
- `figures`: computes rates and percentiles from samples of the hub's counters.
- `view`: draws the figures, and reads key presses.
"""

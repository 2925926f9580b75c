"""Messages to calls, connections, deliveries and tunnels, a window at a time.

The rules are those of `docs/concepts/matching.md`. Their other implementation is the incremental
engines of `wirelake.records`, which serve the live hub and are the oracle of the tests.

In reading order:

    fold.py             `Fold`: goes with a `CapturePipeline`
    event_builder.py    batches and events of a window to arrays; event_arrays.py names the rows
    tables.py           the records of connections and calls that kernels work on
    kernels.py          the kernel that goes through all events in the order of time
    calls.py, connections.py, uncertainty.py   what it does for each of them
    memory.py           the arrays that are remembered from window to window; text_codes.py
    pending.py          events that wait for bytes behind a hole
    output.py           final records to batches
    delivery_parts.py   what `deliveries` is made of, across connections
    tunnel_events.py, tunnels.py, tunnel_kernels.py   tunnels, across links and sources
    state.py            `FoldState` and `TunnelState`: what is saved

Nothing here reads captures or knows bytes.
"""

from .fold import Fold
from .memory import FoldState
from .tunnels import TunnelFold, events_of_share, tunnel_hash

__all__ = ["Fold", "FoldState", "TunnelFold", "events_of_share", "tunnel_hash"]

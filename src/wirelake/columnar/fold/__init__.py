"""Messages to calls, connections, deliveries and tunnels, a window at a time.

The rules are those of `docs/concepts/matching.md`. Their other implementation is the incremental
engines of `wirelake.records`, which serve the live hub and are the oracle of the tests.

In reading order:

    fold.py             `Fold`: the events of a window to final rows; goes with a `CapturePipeline`
    event_arrays.py     the arrays that kernels work on; event_builder.py fills them
    tables.py           the records of connections and calls, and the codes of texts
    kernels.py          the kernel that processes all events in the order of time
    calls.py            what it does to calls, and their rows
    connections.py      what it does to connections
    pending.py          events that wait for bytes behind a hole, and what such a hole hides
    memory.py           the records that are kept from window to window, and their saved state
    groups.py           rows in groups, for the merges across connections:
    deliveries.py       parts of deliveries, and their merge
    sign_ons.py         sign-ons, and the previous connection of each
    tunnels.py          events of tunnels, and `TunnelFold` over all links; tunnel_kernels.py
    rollups.py          roll-ups by minute, from the rows of the other tables
    capture_fold.py     `CaptureFold`: all of it for a whole capture, in bounded memory

Nothing here reads captures or decodes bytes.
"""

from .fold import Fold
from .memory import FoldState
from .tunnels import TunnelFold, events_of_share

__all__ = ["Fold", "FoldState", "TunnelFold", "events_of_share"]

"""When messages of a connection cannot be matched by order, in kernels.

See `wirelake.records.calls.Uncertainty`, and "When order can be trusted" in
`docs/concepts/matching.md`.
"""

from __future__ import annotations

from wirelake.records.calls import QUIET_NS

from ..jit.options import Int, S, U, inline
from .event_arrays import PART, REQUEST
from .tables import NO, NOTHING, Tables

__all__ = ["broken", "hides", "notice", "unsettle"]


@inline
def broken(t: Tables, slot: Int, way: Int, ts_ns: Int, code: Int) -> None:
    """Note that messages of a direction may be missing from here on."""
    found = t.connections[U(slot)]
    if way:
        found.broken_s2c_ns, found.broken_s2c = ts_ns, code
    else:
        found.broken_c2s_ns, found.broken_c2s = ts_ns, code


@inline
def unsettle(t: Tables, slot: Int, ts_ns: Int) -> None:
    """Stop matching by order from here on."""
    found = t.connections[U(slot)]
    found.unsettled = 1
    found.quiet_ns = max(S(found.quiet_ns), ts_ns)


@inline
def notice(t: Tables, slot: Int, kind: Int, way: Int, ts_ns: Int) -> None:
    """Match by order again after a request that follows a quiet time."""
    found = t.connections[U(slot)]
    if found.unsettled:
        settled = False
        if REQUEST <= kind <= PART:
            quiet = ts_ns - found.quiet_ns >= QUIET_NS
            settled = quiet and kind == REQUEST and found.awaited == 0
            if settled:
                found.unsettled = 0
            else:
                found.quiet_ns = ts_ns
        if not settled:
            found.awaited = S(found.awaited) & ~(1 << way)


@inline
def hides(t: Tables, slot: Int, call: Int) -> Int:
    """Return the code of a fault that may hide the answer of an open call, or NO."""
    found, place = t.calls[U(call)], t.connections[U(slot)]
    if found.way:
        code, ts_ns = S(place.broken_c2s), S(place.broken_c2s_ns)
    else:
        code, ts_ns = S(place.broken_s2c), S(place.broken_s2c_ns)
    return NO if found.request_ns == NOTHING or ts_ns < found.request_ns else code

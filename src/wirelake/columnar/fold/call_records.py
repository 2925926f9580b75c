"""Records of calls in kernels: how they begin, what is added to them, how they end.

See `wirelake.records.call_rows`.
"""

from __future__ import annotations

from typing import Final

from ..numba_options import Int, S, U, inline, kernel
from .tables import DONE, FREE_CALLS, KNOWN, NO, NOTHING, Tables, remove, remove_call
from .told import (
    FLAGS,
    KEY,
    LINK,
    NUMBER,
    NUMBERED,
    PROTOCOL,
    REASON,
    REPLIES,
    REPLY,
    SIZE,
    STATUS,
    TARGET,
    TS,
    Told,
)

__all__ = [
    "LOST",
    "ORPHAN",
    "OUTCOMES",
    "STILL_OPEN",
    "UNKNOWN",
    "add_part",
    "asked_call",
    "complete",
    "end_call",
    "forget_call",
    "orphan",
    "ready",
    "unasked_call",
]

OUTCOMES: Final = ("answered", "failed", "lost", "unknown", "open", "orphan")
_OK, _FAILED, LOST, UNKNOWN, STILL_OPEN, ORPHAN = range(6)
"""Places in `OUTCOMES`."""
_OK_TEXT: Final = KNOWN.index("ok")


@kernel
def _new(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> Int:
    """A call of which nothing is known but where it is."""
    t.counts[FREE_CALLS] -= 1
    call = S(t.free_calls[U(t.counts[FREE_CALLS])])
    found = t.calls[U(call)]
    found.connection = e.wide[KEY, U(i)]
    found.tunnel_link = e.wide[LINK, U(i)]
    found.protocol = e.narrow[PROTOCOL, U(i)]
    found.target = e.narrow[TARGET, U(i)]
    found.client = t.connections[U(slot)].caller
    found.slot, found.way = slot, way
    found.response_ns, found.first_part_ns, found.response_bytes = NOTHING, NOTHING, NOTHING
    found.parts, found.traces, found.duplicates = 0, 0, 0
    found.status, found.reason, found.cause, found.outcome = NO, NO, NO, NO
    return call


@inline
def asked_call(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> Int:
    """The call of a request."""
    call = _new(t, e, i, slot, way)
    found = t.calls[U(call)]
    found.message_id = e.wide[NUMBER, U(i)]
    found.numbered = 1 if e.narrow[FLAGS, U(i)] & NUMBERED else 0
    found.request_ns, found.request_bytes = e.wide[TS, U(i)], e.wide[SIZE, U(i)]
    found.requests = 1
    return call


@inline
def unasked_call(t: Tables, e: Told, i: Int, slot: Int, way: Int) -> Int:
    """The call of an answer whose request was not seen."""
    call = _new(t, e, i, slot, way)
    found = t.calls[U(call)]
    found.message_id = e.wide[REPLY, U(i)]
    found.numbered = 1 if e.narrow[FLAGS, U(i)] & REPLIES else 0
    found.request_ns, found.request_bytes = NOTHING, NOTHING
    found.requests = 0
    return call


@inline
def ready(t: Tables, call: Int) -> None:
    """A call that is in no list is final."""
    t.done[U(t.counts[DONE])] = call
    t.counts[DONE] += 1


@inline
def end_call(t: Tables, call: Int, outcome: Int, cause: Int) -> None:
    """A call that is in no list is final, with this outcome."""
    found = t.calls[U(call)]
    found.outcome, found.cause = outcome, cause
    ready(t, call)


@inline
def add_part(t: Tables, e: Told, i: Int, call: Int) -> None:
    """A message of the answer."""
    found = t.calls[U(call)]
    if found.first_part_ns == NOTHING:
        found.first_part_ns, found.response_bytes = e.wide[TS, U(i)], e.wide[SIZE, U(i)]
    else:
        found.response_bytes += e.wide[SIZE, U(i)]
    found.parts += 1


@kernel
def complete(t: Tables, e: Told, i: Int, call: Int) -> None:
    """The last message of the answer."""
    add_part(t, e, i, call)
    found = t.calls[U(call)]
    status = e.narrow[STATUS, U(i)]
    found.response_ns = e.wide[TS, U(i)]
    found.status, found.reason = status, e.narrow[REASON, U(i)]
    if found.request_ns == NOTHING:
        found.outcome = ORPHAN
    else:
        found.outcome = _OK if status in (_OK_TEXT, NO) else _FAILED


@kernel
def orphan(t: Tables, e: Told, i: Int, slot: Int, way: Int, cause: Int) -> None:
    """An answer that finds no call is a call of its own."""
    call = unasked_call(t, e, i, slot, way)
    complete(t, e, i, call)
    t.calls[U(call)].cause = cause
    ready(t, call)


@kernel
def forget_call(t: Tables, slot: Int, call: Int) -> None:
    """Take a call that has an id out of its list, and from where it can be found."""
    remove_call(t, slot, call)
    remove(t, slot, call)

"""The kernel that processes all events of a window, in the order of time.

The rules ask for the order of events of one connection only. The order over all of them needs one
sort and no grouping, and calls and connections become final in the order of time.

Ends of connections are processed after all other events of a window (`fold_ends`): bytes that were
captured out of order may complete messages after the second FIN. A connection with a hole waits,
so its end is in the same window as the last of its messages, however the capture is cut.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..jit.options import Int, S, U, inline, kernel
from .calls import LOST, end_calls, message_of_call, stream_broke
from .connections import (
    begin_row,
    count_fault,
    count_message,
    emit_row,
    end_row,
    fact_of_client,
    fact_of_close,
)
from .event_arrays import (
    CLOSE,
    END,
    FAULT,
    FLAGS,
    HARMLESS,
    KEY,
    KIND,
    MINE,
    OPENED,
    PROTOCOL,
    SIGN_ON,
    TS,
    TUNNELLED,
    WHOLE,
    EventArrays,
)
from .pending import mark_unsettled
from .tables import EVICTED, FREE_CALLS, FREE_SLOTS, KNOWN, Tables, find_slot, new_slot

__all__ = ["end", "fold", "fold_ends", "slot_of"]

_CLOSED: Final = KNOWN.index("closed")
_WAITS, _ENDS = 1, 2
"""In `waiting` of a connection: its events wait; its end was seen in this window."""


@kernel
def fold(t: Tables, e: EventArrays, first: int) -> int:
    """Process events from the index `first` on, except ends and those of connections that wait.

    Returns the place of the event for which there is no room, or their number. Then the caller
    makes room, and calls again from there.
    """
    for at in range(first, len(e.order)):
        if t.counts[FREE_SLOTS] == 0 or t.counts[FREE_CALLS] == 0:
            return at
        i = e.order[U(at)]
        kind = S(e.narrow[KIND, U(i)])
        connection = S(e.wide[KEY, U(i)])
        slot = find_slot(t, connection)
        # A connection whose bytes are not yet in order up to this time: its events are folded with
        # a later window, so that a fold never sees them out of order.
        if slot >= 0 and _waits(t, slot, S(e.wide[TS, U(i)])):
            e.pending[U(i)] = True
        elif kind == TUNNELLED:
            continue
        elif kind in (CLOSE, SIGN_ON):
            # A fact after the end does not change the row.
            if slot < 0 or t.connections[U(slot)].waiting != _ENDS:
                _fact(t, e, i, slot)
        else:
            if slot < 0:
                slot = _begin(t, e, i)
            if kind == END:
                t.connections[U(slot)].waiting = _ENDS
            else:
                _event(t, e, i, slot, kind)
    return len(e.order)


@kernel
def fold_ends(t: Tables, e: EventArrays) -> None:
    """Process the ends of connections that do not wait, after all other events."""
    for at in range(len(e.order)):
        i = e.order[U(at)]
        if e.narrow[KIND, U(i)] == END and not e.pending[U(i)]:
            slot = find_slot(t, S(e.wide[KEY, U(i)]))
            # A second end of the same connection has a row of its own, as in the engines: the first
            # has freed its slot. Readers never report one.
            if slot < 0:
                slot = _begin(t, e, i)
            if t.connections[U(slot)].waiting == _WAITS:
                e.pending[U(i)] = True
            else:
                e.of_link[U(i)] = _may_be_link(t, e, i, slot)
                end_calls(t, slot, S(LOST), S(_CLOSED))
                end_row(t, e, i, slot)
                emit_row(t, slot)


@inline
def _waits(t: Tables, slot: Int, ts_ns: Int) -> Int:
    """Return whether an event waits; then all later ones of the connection wait."""
    found = t.connections[U(slot)]
    if ts_ns >= found.since:
        found.waiting = _WAITS
    return found.waiting == _WAITS


@kernel
def _begin(t: Tables, e: EventArrays, i: Int) -> Int:
    """Add an unknown connection; it may be one that was evicted, with open calls."""
    slot = new_slot(t, S(e.wide[KEY, U(i)]))
    # After an eviction nothing says whether this one was evicted; order is not trusted then
    # ("Limits" of matching.md).
    if t.counts[EVICTED] and e.narrow[KIND, U(i)] != OPENED:
        mark_unsettled(t, slot, S(e.wide[TS, U(i)]))
    return slot


@inline
def _event(t: Tables, e: EventArrays, i: Int, slot: Int, kind: Int) -> None:
    flags = S(e.narrow[FLAGS, U(i)])
    if kind == OPENED:
        if not flags & WHOLE:
            mark_unsettled(t, slot, S(e.wide[TS, U(i)]))
        begin_row(t, e, i, slot)
    elif kind == FAULT:
        e.of_link[U(i)] = _may_be_link(t, e, i, slot)
        e.receiver[U(i)] = t.connections[U(slot)].receiver
        if not flags & HARMLESS:
            stream_broke(t, e, i, slot)
        count_fault(t, e, i, slot)
    else:
        message_of_call(t, e, i, slot)
        count_message(t, e, i, slot)
        e.receiver[U(i)] = t.connections[U(slot)].receiver


@inline
def _may_be_link(t: Tables, e: EventArrays, i: Int, slot: Int) -> Int:
    protocol = S(t.connections[U(slot)].protocol)
    if protocol < 0:
        protocol = S(e.narrow[PROTOCOL, U(i)])
    found = protocol < 0
    for at in range(len(e.link_protocols)):
        found |= protocol == e.link_protocols[U(at)]
    return found


@kernel
def _fact(t: Tables, e: EventArrays, i: Int, slot: Int) -> None:
    """Apply a fact. It adds no connection, but may name the client before the connection begins."""
    if e.narrow[KIND, U(i)] == CLOSE:
        if slot >= 0 and t.connections[U(slot)].seen:
            fact_of_close(t, e, i, slot)
    elif e.narrow[FLAGS, U(i)] & MINE or (slot >= 0 and t.connections[U(slot)].seen):
        if slot < 0:
            slot = new_slot(t, S(e.wide[KEY, U(i)]))
        fact_of_client(t, e, i, slot)


@kernel
def end(t: Tables, slots: NDArray[np.int32], outcome: int, cause: int) -> None:
    """Finish connections as they are; their open calls get this outcome."""
    for at in range(U(len(slots))):
        slot = S(slots[at])
        end_calls(t, slot, outcome, cause)
        emit_row(t, slot)


@kernel
def slot_of(t: Tables, connection: int) -> Int:
    """Return the slot of a connection; a new one if it has none."""
    slot = find_slot(t, connection)
    return new_slot(t, connection) if slot < 0 else slot

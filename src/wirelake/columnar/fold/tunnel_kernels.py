"""Tunnels in kernels: the rules of `wirelake.records.tunnels`, and the calls in tunnels.

A tunnel has a slot among the connections, for its calls, and a record of its own (`TUNNEL`) with
the number of that slot. A link has a slot while it carries calls (then it is `seen`), or when
something of it is missing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.options import Int, S, U, inline, kernel, record
from .calls import LOST, UNKNOWN, end_calls, message_of_call, stream_broke
from .event_arrays import (
    CARRIER,
    CONNECT,
    CONNECTED,
    DISCONNECT,
    END,
    FAULT,
    FLAGS,
    FROM_SERVER,
    HARMLESS,
    INSTANCE,
    KEY,
    KIND,
    LINK,
    REFUSED,
    REQUEST,
    SIZE,
    TS,
    TUNNEL,
    USER_FAMILY,
    USER_HIGH,
    USER_LOW,
    USER_PORT,
    EventArrays,
)
from .tables import (
    FREE_CALLS,
    FREE_SLOTS,
    KNOWN,
    NOTHING,
    OPEN,
    Tables,
    find_slot,
    free_slot,
    new_slot,
)

__all__ = [
    "OUTCOMES",
    "TUNNEL_RECORD",
    "TUNNEL_TIMES",
    "Tunnels",
    "end_all_calls",
    "fold_tunnels",
    "forget_tunnels",
]

OUTCOMES: Final = ("closed", "refused", "replaced", "lost", "open")
"""The outcomes of tunnels, by number."""
_CLOSED, _REFUSED, _REPLACED = range(3)
_CLOSED_TEXT: Final = KNOWN.index("closed")
_REPLACED_TEXT: Final = KNOWN.index("replaced")
_LIMIT: Final = KNOWN.index("limit")

TUNNEL_TIMES: Final = ("opened_ns", "connected_ns", "closed_ns", "first_ns", "last_ns")
_COUNTED: Final = (
    *("messages_c2s", "messages_s2c", "bytes_c2s", "bytes_s2c", "late_messages", "switches"),
)
TUNNEL_RECORD: Final = record(
    [
        ("connection", "i8"),
        ("instance_id", "i8"),
        ("tunnel_id", "i8"),
        ("ended", "i8"),
        ("user_high", "i8"),
        ("user_low", "i8"),
        *((name, "i8") for name in (*TUNNEL_TIMES, "first_link", "last_link", *_COUNTED)),
        ("user_port", "i4"),
        *((name, "i1") for name in ("used", "named", "outcome", "closed_by", "user_family")),
    ],
)
"""A tunnel. Most fields are columns of its row; `used` says that there is one, `named` that its ids
are known, `ended` counts tunnels in the order of their ends. `user_high` and `user_low` are the two
halves of an address; one of `user_family` 4 is all in the lower, without a family there is none."""


class Tunnels(NamedTuple):
    """The arrays of tunnels."""

    rows: NDArray[Any]
    """By slot."""
    final: NDArray[Any]
    """Tunnels that are final."""
    blank: NDArray[Any]
    """The initial record of a tunnel."""
    counts: NDArray[np.int64]
    """How many are final; how many ever ended; how many are in `hidden`."""
    hidden: NDArray[np.int64]
    """Three rows: tunnels in which a fault of the link may hide a message from the user, who was
    signed on in it (a code or NO), and the time."""


@kernel
def fold_tunnels(t: Tables, u: Tunnels, e: EventArrays, first: int) -> int:
    """Process events from the index `first` on.

    Returns the place of the event for which there is no room, or their number. Then the caller
    makes room, and calls again from there.
    """
    for at in range(first, len(e.order)):
        # A message may need a slot for its tunnel, and one for its link.
        if t.counts[FREE_SLOTS] < 2 or t.counts[FREE_CALLS] == 0 or u.counts[0] == len(u.final):
            return at
        i = e.order[U(at)]
        kind = S(e.narrow[KIND, U(i)])
        if kind == FAULT:
            # A fault may concern every tunnel.
            if u.hidden.shape[1] - u.counts[2] < len(u.rows):
                return at
            if not e.narrow[FLAGS, U(i)] & HARMLESS:
                stream_broke(t, e, i, _slot(t, S(e.wide[KEY, U(i)])))
                if not e.narrow[FLAGS, U(i)] & FROM_SERVER:
                    _hide(t, u, e, i)
        elif kind == END:
            _link_ends(t, S(e.wide[KEY, U(i)]))
        elif kind > END:
            _packet(t, u, e, i, kind)
        else:
            _message(t, u, e, i, kind)
    return len(e.order)


@inline
def _slot(t: Tables, connection: Int) -> Int:
    slot = find_slot(t, connection)
    return new_slot(t, connection) if slot < 0 else slot


@inline
def _known(t: Tables, u: Tunnels, connection: Int) -> Int:
    """Return the slot of a tunnel, and add the tunnel if it is new."""
    slot = _slot(t, connection)
    found = u.rows[U(slot)]
    found.used = 1
    found.connection = connection
    return slot


@inline
def _see(u: Tunnels, e: EventArrays, i: Int, slot: Int) -> None:
    found = u.rows[U(slot)]
    link = e.wide[LINK, U(i)]
    if found.first_ns == NOTHING:
        found.first_ns, found.first_link = e.wide[TS, U(i)], link
    elif link != found.last_link:
        found.switches += 1
    found.last_ns, found.last_link = e.wide[TS, U(i)], link


@kernel
def _message(t: Tables, u: Tunnels, e: EventArrays, i: Int, kind: Int) -> None:
    """Process a message in a tunnel."""
    slot = _known(t, u, S(e.wide[KEY, U(i)]))
    if kind == REQUEST:
        t.connections[U(_slot(t, S(e.wide[LINK, U(i)])))].seen = 1
    message_of_call(t, e, i, slot)
    e.receiver[U(i)] = t.connections[U(slot)].caller
    _see(u, e, i, slot)
    found = u.rows[U(slot)]
    if e.narrow[FLAGS, U(i)] & FROM_SERVER:
        found.messages_s2c += 1
        found.bytes_s2c += e.wide[SIZE, U(i)]
    else:
        found.messages_c2s += 1
        found.bytes_c2s += e.wide[SIZE, U(i)]
    if found.outcome >= 0:
        found.late_messages += 1


@kernel
def _hide(t: Tables, u: Tunnels, e: EventArrays, i: Int) -> None:
    """Note a fault of a link for all tunnels that it carries."""
    for slot in range(len(u.rows)):
        found = u.rows[U(slot)]
        if found.used and found.outcome < 0 and found.last_link == e.wide[KEY, U(i)]:
            at = U(u.counts[2])
            u.hidden[0, at] = found.connection
            u.hidden[1, at] = t.connections[U(slot)].caller
            u.hidden[2, at] = e.wide[TS, U(i)]
            u.counts[2] += 1


@kernel
def _packet(t: Tables, u: Tunnels, e: EventArrays, i: Int, kind: Int) -> None:
    """Process a packet of a link about a tunnel."""
    connection = S(e.wide[KEY, U(i)])
    slot = find_slot(t, connection)
    known = slot >= 0 and u.rows[U(slot)].used
    if kind == CONNECT and known:
        _close_calls(t, slot, S(_REPLACED_TEXT))
        _replace(u, e, i, slot)
    elif known and kind in (DISCONNECT, REFUSED):
        _close_calls(t, slot, S(_CLOSED_TEXT))
    elif kind == DISCONNECT:
        return  # what a peer answers when it knows no such tunnel
    slot = _known(t, u, connection)
    found = u.rows[U(slot)]
    if kind == CONNECT:
        found.opened_ns = e.wide[TS, U(i)]
        found.user_high, found.user_low = e.wide[USER_HIGH, U(i)], e.wide[USER_LOW, U(i)]
        found.user_family, found.user_port = e.narrow[USER_FAMILY, U(i)], e.narrow[USER_PORT, U(i)]
    found.instance_id, found.tunnel_id = e.wide[INSTANCE, U(i)], e.wide[TUNNEL, U(i)]
    found.named = 1
    if kind != CARRIER:  # its message is an event of its own
        _see(u, e, i, slot)
    if found.outcome < 0:
        if kind == REFUSED:
            _end(u, e, i, slot, S(_REFUSED))
        elif kind == DISCONNECT:
            _end(u, e, i, slot, S(_CLOSED))
        elif kind == CONNECTED and found.connected_ns == NOTHING:
            found.connected_ns = e.wide[TS, U(i)]


@kernel
def _end(u: Tunnels, e: EventArrays, i: Int, slot: Int, outcome: Int) -> None:
    found = u.rows[U(slot)]
    found.outcome, found.closed_ns = outcome, e.wide[TS, U(i)]
    found.closed_by = e.narrow[FLAGS, U(i)] & FROM_SERVER
    u.counts[1] += 1
    found.ended = u.counts[1]


@inline
def _replace(u: Tunnels, e: EventArrays, i: Int, slot: Int) -> None:
    """Finish a tunnel when another one with the same ids begins."""
    if u.rows[U(slot)].outcome < 0:
        _end(u, e, i, slot, S(_REPLACED))
    u.final[U(u.counts[0])] = u.rows[U(slot)]
    u.counts[0] += 1
    u.rows[U(slot)] = u.blank[0]


@kernel
def _close_calls(t: Tables, slot: Int, cause: Int) -> None:
    """End the calls of a tunnel: open ones are lost."""
    end_calls(t, slot, S(LOST), cause)
    # The next tunnel with these ids is another one: what is uncertain about this one ends with it.
    found, blank = t.connections[U(slot)], t.blank[0]
    found.caller, found.caller_confirmed = blank.caller, blank.caller_confirmed
    found.unsettled, found.awaited = blank.unsettled, blank.awaited
    found.quiet_ns = blank.quiet_ns
    found.broken_c2s, found.broken_c2s_ns = blank.broken_c2s, blank.broken_c2s_ns
    found.broken_s2c, found.broken_s2c_ns = blank.broken_s2c, blank.broken_s2c_ns


@kernel
def _link_ends(t: Tables, link: Int) -> None:
    """Copy the faults of a link to its tunnels when the link ends."""
    slot = find_slot(t, link)
    if slot < 0:
        return
    found = t.connections[U(slot)]
    # The slot is freed below, but an open call of a tunnel still needs to know that its answer may
    # have been lost here. A scan of all calls, for the few links with calls and faults.
    if found.seen and (found.broken_c2s >= 0 or found.broken_s2c >= 0):
        for call in range(len(t.calls)):
            other = t.calls[U(call)]
            if other.state == OPEN and other.tunnel_link == link:
                _join(t, S(other.slot), slot)
    free_slot(t, slot)


@inline
def _join(t: Tables, slot: Int, link: Int) -> None:
    """Copy where a link broke to one of its tunnels."""
    mine, its = t.connections[U(slot)], t.connections[U(link)]
    if its.broken_c2s >= 0 and its.broken_c2s_ns > mine.broken_c2s_ns:
        mine.broken_c2s, mine.broken_c2s_ns = its.broken_c2s, its.broken_c2s_ns
    if its.broken_s2c >= 0 and its.broken_s2c_ns > mine.broken_s2c_ns:
        mine.broken_s2c, mine.broken_s2c_ns = its.broken_s2c, its.broken_s2c_ns


@kernel
def end_all_calls(t: Tables, slots: NDArray[np.int32], outcome: int, cause: int) -> None:
    """Finish the calls of these slots."""
    for at in range(U(len(slots))):
        end_calls(t, S(slots[at]), outcome, cause)


@kernel
def forget_tunnels(t: Tables, u: Tunnels, slots: NDArray[np.int32]) -> None:
    """Give up tunnels, with their open calls."""
    for at in range(U(len(slots))):
        slot = S(slots[at])
        end_calls(t, slot, S(UNKNOWN), S(_LIMIT))
        u.rows[U(slot)] = u.blank[0]
        free_slot(t, slot)

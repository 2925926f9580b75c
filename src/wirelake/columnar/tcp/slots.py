"""The table of connections in arrays: slots, an index of hashes, and two lists through the slots.

- `table`: one record for each connection (`CONNECTION`), in slots that are used again.
- `index`: open addressing with linear probing; an entry is a hash of 31 bits above a slot plus one,
  so that most strangers are told apart without a look at their record. 0 is empty. Removing moves
  later entries back, so that no tombstones gather.
- By last use: `older` and `newer` link the slots from OLDEST to NEWEST. By when a connection was
  over: `over_before` and `over_after`, from OVER_FIRST to OVER_LAST.
- `state` holds the few numbers of the table as a whole.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..jit.options import Int, S, U, inline, kernel

__all__ = [
    "CLOSED_C2S",
    "CLOSED_S2C",
    "CONNECTION",
    "DROPPED",
    "EVICTED",
    "EXPIRED",
    "FREE",
    "HELD",
    "NEWEST",
    "NOW",
    "OLDEST",
    "OVER_FIRST",
    "OVER_LAST",
    "REPLACED",
    "RESET",
    "STATE_SIZE",
    "append",
    "append_over",
    "are_over",
    "by_last_use",
    "drop",
    "insert",
    "is_over",
    "rebuild",
    "unlink",
]

CONNECTION: Final = np.dtype(
    [
        ("id", "i8"),
        ("recorded", "i8"),
        ("client_high", "u8"),
        ("client_low", "u8"),
        ("server_high", "u8"),
        ("server_low", "u8"),
        ("over_ns", "i8"),
        ("tag", "i8"),
        ("older", "i4"),
        ("newer", "i4"),
        ("over_before", "i4"),
        ("over_after", "i4"),
        ("began_seq", "u4"),
        ("hash", "u4"),
        ("client_port", "u2"),
        ("server_port", "u2"),
        ("family", "u1"),
        ("state", "u1"),
        ("ours", "u1"),
        ("why", "u1"),
    ],
    align=True,
)
"""A connection. `recorded` is the recorder's id or 0, `tag` the hash in the index, `hash` the one
that tells its share, `state` the bits below, `ours` whether it belongs to our share, `why` the
reason why it was dropped."""

CLOSED_C2S: Final = 1
CLOSED_S2C: Final = 2
RESET: Final = 4
"""Bits of `state`: FIN was seen from the client, from the server; RST was seen."""

HELD_STILL, EXPIRED, REPLACED, EVICTED = range(4)
"""Why a connection was dropped: not at all; it was over for long enough; it began anew; it made
room for another."""

NOW, HELD, FREE, DROPPED, OLDEST, NEWEST, OVER_FIRST, OVER_LAST = range(8)
"""Places in `state`: the latest time seen, connections held, length of `free` and of `dropped`, the
ends of the lists (-1 when empty)."""
STATE_SIZE: Final = 8
"""How many numbers `state` has."""

_NONE: Final = -1

Table = NDArray[Any]
Ints = NDArray[np.int64]


@inline
def is_over(state: Int) -> Int:
    """Whether a connection is closed from both sides, or reset."""
    return state >= RESET or state == CLOSED_C2S | CLOSED_S2C


def are_over(connections: Table) -> NDArray[np.bool_]:
    """The same, of many connections."""
    state = connections["state"]
    closed = CLOSED_C2S | CLOSED_S2C
    return np.asarray((state & RESET != 0) | (state & closed == closed))


@inline
def insert(slot: Int, tag: Int, index: Ints) -> None:
    """Put a slot into the index; there is room."""
    mask = len(index) - 1
    at = tag & mask
    while index[U(at)] != 0:
        at = (at + 1) & mask
    index[U(at)] = tag << 32 | (slot + 1)


@inline
def _remove(slot: Int, tag: Int, index: Ints) -> None:
    """Take a slot out of the index, and move back what stands behind it out of place."""
    mask = len(index) - 1
    hole = tag & mask
    while index[U(hole)] & 0xFFFFFFFF != slot + 1:
        hole = (hole + 1) & mask
    at = hole
    while True:
        at = (at + 1) & mask
        entry = index[U(at)]
        if entry == 0:
            break
        home = (entry >> 32) & mask
        if (at - home) & mask >= (at - hole) & mask:
            index[U(hole)] = entry
            hole = at
    index[U(hole)] = 0


@inline
def append(slot: Int, table: Table, state: Ints) -> None:
    """Make a slot the one that was used last."""
    newest = state[NEWEST]
    table[U(slot)].older = newest
    table[U(slot)].newer = _NONE
    if newest >= 0:
        table[U(newest)].newer = slot
    else:
        state[OLDEST] = slot
    state[NEWEST] = slot


@inline
def unlink(slot: Int, table: Table, state: Ints) -> None:
    """Take a slot out of the list by last use."""
    older = S(table[U(slot)].older)
    newer = S(table[U(slot)].newer)
    if older >= 0:
        table[U(older)].newer = newer
    else:
        state[OLDEST] = newer
    if newer >= 0:
        table[U(newer)].older = older
    else:
        state[NEWEST] = older


@inline
def append_over(slot: Int, table: Table, state: Ints) -> None:
    """A connection is over from now on."""
    last = state[OVER_LAST]
    new = table[U(slot)]
    new.over_ns = state[NOW]
    new.over_before = last
    new.over_after = _NONE
    if last >= 0:
        table[U(last)].over_after = slot
    else:
        state[OVER_FIRST] = slot
    state[OVER_LAST] = slot


@inline
def _unlink_over(slot: Int, table: Table, state: Ints) -> None:
    """Take a slot out of the list of those that are over."""
    before = S(table[U(slot)].over_before)
    after = S(table[U(slot)].over_after)
    if before >= 0:
        table[U(before)].over_after = after
    else:
        state[OVER_FIRST] = after
    if after >= 0:
        table[U(after)].over_before = before
    else:
        state[OVER_LAST] = before


@inline
def drop(
    slot: Int, why: Int, table: Table, index: Ints, dropped: NDArray[np.int32], state: Ints
) -> None:
    """Forget a connection. Its record stays as it is until the end of the window."""
    old = table[U(slot)]
    _remove(slot, old.tag, index)
    unlink(slot, table, state)
    if is_over(old.state):
        _unlink_over(slot, table, state)
    old.why = why
    dropped[U(state[DROPPED])] = slot
    state[DROPPED] += 1
    state[HELD] -= 1


@kernel
def rebuild(table: Table, index: Ints, state: Ints) -> None:
    """Fill an empty index with every connection that is held."""
    slot = state[OLDEST]
    while slot >= 0:
        insert(slot, table[U(slot)].tag, index)
        slot = S(table[U(slot)].newer)


@kernel
def by_last_use(table: Table, state: Ints, found: NDArray[np.int32]) -> None:
    """List the connections that are held, the longest silent first."""
    slot = state[OLDEST]
    for k in range(len(found)):
        found[k] = slot
        slot = S(table[U(slot)].newer)

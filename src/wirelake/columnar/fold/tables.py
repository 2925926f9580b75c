"""The records of a fold, in arrays: connections, their calls, and lists through the calls.

- `connections`: a record for each connection (`CONNECTION`), in slots that are used again.
- `calls`: a record for each call (`CALL`) that is open, or answered so lately that a second answer
  may come. Those of one end of a connection are linked to lists in the order of time: OPEN has the
  open calls with an id, ANSWERED the answered ones, ORDER the open ones without id.
- `slots` and `numbers` find a connection by its id, and a call by connection, end and id: heads of
  chains through the records.

Why not dicts: kernels are compiled without Numba's runtime (`_nrt=False`), because reference
counting of array arguments makes them about six times slower (0.13 of the speed of C, not 0.79). So
they can neither allocate nor use typed dicts; records, chains and lists are places in arrays.

Texts are codes (`Texts`, at the end); those that kernels know have fixed ones. NOTHING stands for
an unknown time, NO for a missing code, slot or call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..jit.options import Int, S, U, inline, kernel, record

__all__ = [
    "ANSWERED",
    "CALL",
    "CALL_TEXTS",
    "CLOSED",
    "CONNECTION",
    "CONNECTION_TEXTS",
    "COUNTS",
    "CREATED",
    "DONE",
    "ENDS",
    "EVICTED",
    "FREE",
    "FREE_CALLS",
    "FREE_SLOTS",
    "KNOWN",
    "NO",
    "NOTHING",
    "OPEN",
    "ORDER",
    "SIGNED",
    "Tables",
    "Texts",
    "add_call",
    "append",
    "count_of",
    "find_call",
    "find_slot",
    "first_of",
    "free_slot",
    "index_calls",
    "index_slots",
    "indices_of",
    "new_slot",
    "remove",
    "remove_call",
]


NO: Final = -1
NOTHING: Final = -(1 << 63)
"""In place of a missing slot, call or text (NO), or of any other missing number (NOTHING)."""

KNOWN: Final = (
    *("ok", "", "client", "server", "closed", "replaced", "unfinished", "unsettled"),
    *("limit", "sealed", "gateway"),
)
"""Texts with a fixed code: their index."""

CONNECTION_TEXTS: Final = (
    *("protocol", "client_address", "server_address", "client", "closed_by", "closed_how"),
    *("close_reason", "network_type", "isp", "phone_type"),
    *("caller", "signed_on", "receiver", "broken_c2s", "broken_s2c"),
)
_TIMES: Final = (
    *("signed_on_ns", "opened_ns", "closed_ns", "first_ns", "last_ns", "handshake_ns"),
    *("handshake_start_ns", "quiet_ns", "broken_c2s_ns", "broken_s2c_ns"),
)
_COUNTED: Final = (
    *("messages_c2s", "messages_s2c", "bytes_c2s", "bytes_s2c", "requests", "failures", "pushes"),
    *("heartbeats", "faults", "gaps", "missing_bytes"),
)
CONNECTION: Final = record(
    [
        ("connection", "i8"),
        ("sequence", "i8"),
        ("since", "i8"),
        *((name, "i8") for name in (*_TIMES, *_COUNTED)),
        *((name, "i4") for name in (*CONNECTION_TEXTS, "client_port", "server_port", "chain")),
        *((name, "i1") for name in ("used", "seen", "waiting", "resumed", "unsettled", "awaited")),
        *((name, "i1") for name in ("caller_confirmed", "confirmed", "receiver_confirmed")),
    ],
)
"""A connection. Most fields are columns of its row; beside them:

- `sequence` counts connections; `used` says that the slot is taken, `seen` that there is a row.
- `waiting`: its events are held back; from `since` on, they are to be.
- `caller`, `signed_on` and `receiver`: who is signed on, as `calls`, `connections` and `deliveries`
  see it; and whether the server has confirmed it.
- `handshake_start_ns`: when a handshake began.
- What is uncertain: `unsettled`, the directions `awaited` (as bits), the last activity `quiet_ns`
  while it was unsettled, and for each direction where it broke last, and the code.
"""

CALL_TEXTS: Final = ("protocol", "target", "status", "reason", "client", "cause")
CALL: Final = record(
    [
        *(
            (name, "i8")
            for name in (
                *("connection", "message_id", "request_ns", "response_ns", "first_part_ns"),
                *("request_bytes", "response_bytes", "parts", "requests", "traces", "duplicates"),
                "tunnel_link",
            )
        ),
        *((name, "i4") for name in (*CALL_TEXTS, "slot", "chain", "before", "after")),
        *((name, "i1") for name in ("way", "state", "numbered", "outcome")),
    ],
)
"""A call. `way` is the direction of its request (the name is part of saved state), `state` the list
in which it is, or FREE; `numbered` says whether it has a `message_id`, and with 2 that
it is one to sign on. `tunnel_link` is 0 outside
of tunnels."""

FREE, OPEN, ANSWERED, ORDER = range(4)
"""States of a call: none, or its list."""

ENDS: Final = 18
"""For each slot: of both ends, and of each of their three lists: first, last, and number."""

FREE_SLOTS, FREE_CALLS, DONE, CLOSED, SIGNED, CREATED, EVICTED = range(7)
COUNTS: Final = 7
"""Places in `counts`: how many slots and calls are free; how many calls and connections are final,
and how many have signed on; how many connections there ever were; whether some were evicted."""

Table = NDArray[Any]
Codes = NDArray[np.int32]
Ints = NDArray[np.int64]

# Multipliers of Fibonacci hashing and of MurmurHash3's finalizer: ids are often consecutive, and a
# table of a power of two would otherwise use their low bits alone.
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = np.uint64(0xFF51AFD7ED558CCD)


class Tables(NamedTuple):
    """All arrays that kernels work on."""

    connections: Table
    ends: Codes
    """See `ENDS`."""
    oldest: Ints
    """For each slot, of both ends: no later than the first of its answered calls."""
    slots: Codes
    free_slots: Codes
    calls: Table
    numbers: Codes
    free_calls: Codes
    counts: Ints
    done: Codes
    """Calls that are final; their records are free once they are taken."""
    closed: Table
    """Connections that are final."""
    blank: Table
    """The initial record of a connection."""


# -- lists -------------------------------------------------------------------------------------


@inline
def _place(direction: Int, which: Int) -> Int:
    """Return where `ends` has a list."""
    return S(direction) * 9 + (S(which) - 1) * 3


@inline
def first_of(t: Tables, slot: Int, direction: Int, which: Int) -> Int:
    """Return the first call of a list, or NO."""
    return S(t.ends[U(slot), U(_place(direction, which))])


@inline
def count_of(t: Tables, slot: Int, direction: Int, which: Int) -> Int:
    """Return the length of a list."""
    return S(t.ends[U(slot), U(_place(direction, which) + 2)])


@kernel
def append(t: Tables, slot: Int, call: Int, which: Int) -> None:
    """Append a call to a list."""
    found = t.calls[U(call)]
    at = _place(found.way, which)
    last = S(t.ends[U(slot), U(at + 1)])
    found.state = which
    found.before, found.after = last, NO
    if last >= 0:
        t.calls[U(last)].after = call
    else:
        t.ends[U(slot), U(at)] = call
    t.ends[U(slot), U(at + 1)] = call
    t.ends[U(slot), U(at + 2)] += 1


@kernel
def remove(t: Tables, slot: Int, call: Int) -> None:
    """Remove a call from its list."""
    found = t.calls[U(call)]
    at = _place(found.way, found.state)
    before, after = S(found.before), S(found.after)
    if before >= 0:
        t.calls[U(before)].after = after
    else:
        t.ends[U(slot), U(at)] = after
    if after >= 0:
        t.calls[U(after)].before = before
    else:
        t.ends[U(slot), U(at + 1)] = before
    t.ends[U(slot), U(at + 2)] -= 1
    found.state = FREE


# -- calls by number ---------------------------------------------------------------------------


@inline
def _bucket(slot: Int, direction: Int, number: Int, numbers: Codes) -> Int:
    value = (U(number) + U(S(slot) * 2 + S(direction)) * _SPREAD) * _MIX
    return S((value ^ (value >> U(32))) & U(len(numbers) - 1))


@kernel
def find_call(t: Tables, slot: Int, direction: Int, number: Int) -> Int:
    """Return the call with this id, open or answered, or NO."""
    call = S(t.numbers[U(_bucket(slot, direction, number, t.numbers))])
    while call >= 0:
        found = t.calls[U(call)]
        if found.message_id == number and found.slot == slot and found.way == direction:
            return call
        call = S(found.chain)
    return NO


@inline
def add_call(t: Tables, slot: Int, call: Int) -> None:
    """Add a call to the index; its id is not in it yet."""
    found = t.calls[U(call)]
    at = _bucket(slot, found.way, found.message_id, t.numbers)
    found.chain = t.numbers[U(at)]
    t.numbers[U(at)] = call


@kernel
def remove_call(t: Tables, slot: Int, call: Int) -> None:
    """Remove a call from the index."""
    found = t.calls[U(call)]
    at = _bucket(slot, found.way, found.message_id, t.numbers)
    other = S(t.numbers[U(at)])
    if other == call:
        t.numbers[U(at)] = found.chain
        return
    while S(t.calls[U(other)].chain) != call:
        other = S(t.calls[U(other)].chain)
    t.calls[U(other)].chain = found.chain


@kernel
def index_calls(t: Tables) -> None:
    """Add all calls to an empty index."""
    for call in range(len(t.calls)):
        found = t.calls[U(call)]
        if found.numbered and OPEN <= found.state <= ANSWERED:
            add_call(t, S(found.slot), call)


# -- connections by id -------------------------------------------------------------------------


@inline
def _slot_bucket(connection: Int, slots: Codes) -> Int:
    value = U(connection) * _MIX
    return S((value ^ (value >> U(32))) & U(len(slots) - 1))


@inline
def find_slot(t: Tables, connection: Int) -> Int:
    """Return the slot of a connection, or NO."""
    slot = S(t.slots[U(_slot_bucket(connection, t.slots))])
    while slot >= 0:
        found = t.connections[U(slot)]
        if found.connection == connection:
            break
        slot = S(found.chain)
    return slot


@kernel
def new_slot(t: Tables, connection: Int) -> Int:
    """Return a slot for a new connection; there must be a free one."""
    t.counts[FREE_SLOTS] -= 1
    slot = S(t.free_slots[U(t.counts[FREE_SLOTS])])
    found = t.connections[U(slot)]
    found.connection = connection
    found.used = 1
    t.counts[CREATED] += 1
    found.sequence = t.counts[CREATED]
    _add_slot(t, slot)
    return slot


@inline
def _add_slot(t: Tables, slot: Int) -> None:
    found = t.connections[U(slot)]
    at = _slot_bucket(found.connection, t.slots)
    found.chain = t.slots[U(at)]
    t.slots[U(at)] = slot


@kernel
def free_slot(t: Tables, slot: Int) -> None:
    """Forget a connection."""
    found = t.connections[U(slot)]
    at = _slot_bucket(found.connection, t.slots)
    other = S(t.slots[U(at)])
    if other == slot:
        t.slots[U(at)] = found.chain
    else:
        while S(t.connections[U(other)].chain) != slot:
            other = S(t.connections[U(other)].chain)
        t.connections[U(other)].chain = found.chain
    t.connections[U(slot)] = t.blank[0]
    t.free_slots[U(t.counts[FREE_SLOTS])] = slot
    t.counts[FREE_SLOTS] += 1


@kernel
def index_slots(t: Tables) -> None:
    """Add all connections to an empty index."""
    for slot in range(len(t.connections)):
        if t.connections[U(slot)].used:
            _add_slot(t, slot)


# -- texts as codes ----------------------------------------------------------------------------


class Texts:
    """All known texts; the code of a text is its index. Kernels compare codes, never texts."""

    def __init__(self, texts: Iterable[str] = ()):
        self.texts: list[str] = []
        self._codes: dict[str | None, int] = {None: NO}
        self._array = pa.array([], pa.string())
        for text in (*KNOWN, *texts):
            self.code(text)

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: str | None) -> int:
        """Return the code of a text; NO for None."""
        found = self._codes.get(text)
        if found is None:
            assert text is not None
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def coded(self, texts: Iterable[str | None]) -> Codes:
        """Return the codes of texts."""
        given = list(texts)
        found = list(map(self._codes.get, given))
        if None in found:
            found = list(map(self.code, given))
        return np.array(found, np.int32)

    def codes(self, array: pa.Array) -> Codes:
        """Return the codes of a column."""
        if array.null_count == len(array):
            return np.full(len(array), NO, np.int32)
        indices, dictionary = indices_of(array)
        return np.append(self.coded(dictionary), np.int32(NO))[indices]

    def array(self, codes: Codes) -> pa.Array:
        """Return the column with these codes."""
        if len(self._array) < len(self.texts):
            self._array = pa.array(self.texts, pa.string())
        missing = codes < 0
        return self._array.take(pa.array(codes, mask=missing if missing.any() else None))


def indices_of(array: pa.Array) -> tuple[Codes, list[str]]:
    """Return a column as indices into its distinct texts (-1: null), and these texts."""
    encoded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    indices = encoded.indices
    if indices.null_count:
        indices = pc.fill_null(indices, -1)
    return np.asarray(indices.to_numpy(), np.int32), encoded.dictionary.to_pylist()

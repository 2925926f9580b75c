"""Which connection a packet belongs to, in kernels (captures.md, Connections).

The rules are those of `capture.connections.ConnectionTable`: a connection is known by its endpoints
or by the recorder's id; a SYN may begin it anew; it is dropped a while after it was over, or when
it was silent for longest and another one wants its place. The table itself is in `slots.py`.

The streams of a connection have the numbers `2 * slot` (c2s) and `2 * slot + 1` (s2c). A slot that
is dropped in a window is free from the next one on.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import FIN, RST, SYN
from wirelake.capture.tcp.connections import GRACE_NS

from ..jit.options import Int, S, U, inline, kernel
from ..scan.blocks import MARK_C2S, MARK_RECORDED, MARK_S2C, RECORDED, TS
from ..scan.headers import (
    ACK,
    DST_HIGH,
    DST_LOW,
    DST_PORT,
    FAMILY,
    FLAGS,
    NOTE,
    SEQ,
    SRC_HIGH,
    SRC_LOW,
    SRC_PORT,
)

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
    "NOT_OURS",
    "NOW",
    "NO_DIRECTION",
    "NO_STREAM",
    "OLDEST",
    "OVER_FIRST",
    "OVER_LAST",
    "REPLACED",
    "RESET",
    "STATE_SIZE",
    "append",
    "append_over",
    "are_over",
    "assign",
    "by_last_use",
    "drop",
    "insert",
    "is_over",
    "rebuild",
    "unlink",
]


# The table of connections in arrays: slots, an index of hashes, and two lists through the slots.


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


NO_STREAM: Final = -1
NOT_OURS: Final = -2
"""In place of a stream: the packet is no segment; the packet is another share's."""
NO_DIRECTION: Final = 255
"""In place of a direction: the packet is no segment."""

_SYN_ACK: Final = SYN | 16
_C2S: Final = 0
_S2C: Final = 1
_TAG_MASK: Final = np.uint64(0x7FFFFFFF)
_FNV_BASIS: Final = np.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = np.uint64(0x100000001B3)
_MIX_1: Final = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2: Final = np.uint64(0xC4CEB9FE1A85EC53)


@kernel
def assign(
    first: int,
    count: int,
    wide: Ints,
    marks: NDArray[np.uint8],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    table: Table,
    index: Ints,
    free: NDArray[np.int32],
    dropped: NDArray[np.int32],
    state: Ints,
    server_ports: NDArray[np.bool_],
    limit: int,
    share: int,
    shares: int,
    connection: Ints,
    direction: NDArray[np.uint8],
    stream: NDArray[np.int32],
) -> int:
    """Give packets from `first` to `count` their connection, direction and stream.

    Returns the number of the packet for which there is no free slot, or `count`. Then the caller
    brings more slots, and calls again from there.
    """
    for i in range(first, count):
        connection[i] = 0
        direction[i] = NO_DIRECTION
        stream[i] = NO_STREAM if share == 0 else NOT_OURS
        if octets[NOTE, i]:
            continue
        state[NOW] = max(state[NOW], wide[TS, i])
        while state[OVER_FIRST] >= 0:
            oldest = state[OVER_FIRST]
            if state[NOW] - table[U(oldest)].over_ns < GRACE_NS:
                break
            drop(oldest, EXPIRED, table, index, dropped, state)
        recorded = wide[RECORDED, i] if marks[i] & MARK_RECORDED else 0
        mixed = _hash(i, recorded, sizes, octets, addresses)
        tag = S(mixed & _TAG_MASK)
        slot = _find(i, recorded, tag, sizes, octets, addresses, table, index)
        if slot >= 0 and recorded == 0 and octets[FLAGS, i] & _SYN_ACK == SYN:
            old = table[U(slot)]
            if is_over(old.state) or numbers[SEQ, i] != old.began_seq:
                drop(slot, REPLACED, table, index, dropped, state)
                slot = -1
        if slot < 0:
            if state[FREE] == 0:
                return i
            state[FREE] -= 1
            slot = S(free[U(state[FREE])])
            _begin(
                i,
                recorded,
                wide,
                marks,
                sizes,
                numbers,
                octets,
                addresses,
                server_ports,
                table,
                slot,
            )
            new = table[U(slot)]
            new.tag = tag
            new.hash = np.uint32(mixed >> U(32))
            new.ours = S(new.hash) % shares == share
            insert(slot, tag, index)
            append(slot, table, state)
            state[HELD] += 1
            if state[HELD] > limit:
                drop(state[OLDEST], EVICTED, table, index, dropped, state)
        else:
            unlink(slot, table, state)
            append(slot, table, state)
        found = table[U(slot)]
        way = _direction(i, marks, sizes, octets, addresses, found)
        was_over = is_over(found.state)
        if octets[FLAGS, i] & FIN:
            found.state |= CLOSED_C2S if way == _C2S else CLOSED_S2C
        if octets[FLAGS, i] & RST:
            found.state |= RESET
        if is_over(found.state) and not was_over:
            append_over(slot, table, state)
        connection[i] = found.id
        direction[i] = way
        stream[i] = slot * 2 + way if found.ours else NOT_OURS
    return count


# -- keys --------------------------------------------------------------------------------------


@inline
def _mix(value: Int) -> Int:
    """Spread the bits of a 64-bit number (the finaliser of MurmurHash3)."""
    value ^= value >> U(33)
    value *= _MIX_1
    value ^= value >> U(33)
    value *= _MIX_2
    return value ^ (value >> U(33))


@inline
def _hash(
    i: Int,
    recorded: Int,
    sizes: NDArray[np.int32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
) -> Int:
    """A hash of a connection's key, the same for both directions."""
    if recorded:
        return _mix(U(recorded))
    ports = U(sizes[SRC_PORT, i]) << U(48), U(sizes[DST_PORT, i]) << U(48)
    src = _mix(addresses[SRC_LOW, i] ^ ports[0])
    dst = _mix(addresses[DST_LOW, i] ^ ports[1])
    if octets[FAMILY, i] == 6:
        src = _mix(src ^ addresses[SRC_HIGH, i])
        dst = _mix(dst ^ addresses[DST_HIGH, i])
    return _mix(src + dst)


@inline
def _find(
    i: Int,
    recorded: Int,
    tag: Int,
    sizes: NDArray[np.int32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    table: Table,
    index: Ints,
) -> Int:
    """The slot of a packet's connection, or -1."""
    mask = len(index) - 1
    at = tag & mask
    while True:
        entry = index[U(at)]
        if entry == 0:
            return -1
        if entry >> 32 == tag:
            slot = (entry & 0xFFFFFFFF) - 1
            found = table[U(slot)]
            if recorded:
                if found.recorded == recorded:
                    return slot
            elif _between(i, sizes, octets, addresses, found):
                return slot
        at = (at + 1) & mask


@inline
def _from_client(
    i: Int,
    sizes: NDArray[np.int32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    found: Any,
) -> Int:
    """Whether the source of a packet is the client of a connection."""
    return (
        addresses[SRC_LOW, i] == found.client_low
        and sizes[SRC_PORT, i] == found.client_port
        and addresses[SRC_HIGH, i] == found.client_high
        and octets[FAMILY, i] == found.family
    )


@inline
def _between(
    i: Int,
    sizes: NDArray[np.int32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    found: Any,
) -> Int:
    """Whether a packet goes between the endpoints of a connection, in either direction."""
    if octets[FAMILY, i] != found.family or found.recorded:
        return False
    src_port, dst_port = sizes[SRC_PORT, i], sizes[DST_PORT, i]
    src, dst = addresses[SRC_LOW, i], addresses[DST_LOW, i]
    src_high, dst_high = addresses[SRC_HIGH, i], addresses[DST_HIGH, i]
    return (
        src == found.client_low
        and dst == found.server_low
        and src_port == found.client_port
        and dst_port == found.server_port
        and src_high == found.client_high
        and dst_high == found.server_high
    ) or (
        src == found.server_low
        and dst == found.client_low
        and src_port == found.server_port
        and dst_port == found.client_port
        and src_high == found.server_high
        and dst_high == found.client_high
    )


@inline
def _direction(
    i: Int,
    marks: NDArray[np.uint8],
    sizes: NDArray[np.int32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    found: Any,
) -> Int:
    """The recorder's word, or else whoever sent it."""
    if marks[i] & MARK_C2S:
        return _C2S
    if marks[i] & MARK_S2C:
        return _S2C
    return _C2S if _from_client(i, sizes, octets, addresses, found) else _S2C


# -- the beginning of a connection -------------------------------------------------------------


@inline
def _begins_from_client(
    i: Int,
    marks: NDArray[np.uint8],
    sizes: NDArray[np.int32],
    flags: Int,
    server_ports: NDArray[np.bool_],
) -> Int:
    """Whether the first packet of a connection comes from its client."""
    if marks[i] & (MARK_C2S | MARK_S2C):
        return (marks[i] & MARK_C2S) != 0
    if flags & SYN:
        return flags & _SYN_ACK == SYN
    src_known = server_ports[U(sizes[SRC_PORT, i])]
    dst_known = server_ports[U(sizes[DST_PORT, i])]
    if src_known != dst_known:
        return dst_known
    return sizes[SRC_PORT, i] >= sizes[DST_PORT, i]


@inline
def _begin(
    i: Int,
    recorded: Int,
    wide: Ints,
    marks: NDArray[np.uint8],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    server_ports: NDArray[np.bool_],
    table: Table,
    slot: Int,
) -> None:
    """Fill the record of a connection that begins with a packet."""
    new = table[U(slot)]
    flags = S(octets[FLAGS, i])
    if _begins_from_client(i, marks, sizes, flags, server_ports):
        new.client_high, new.client_low = addresses[SRC_HIGH, i], addresses[SRC_LOW, i]
        new.server_high, new.server_low = addresses[DST_HIGH, i], addresses[DST_LOW, i]
        new.client_port, new.server_port = sizes[SRC_PORT, i], sizes[DST_PORT, i]
    else:
        new.client_high, new.client_low = addresses[DST_HIGH, i], addresses[DST_LOW, i]
        new.server_high, new.server_low = addresses[SRC_HIGH, i], addresses[SRC_LOW, i]
        new.client_port, new.server_port = sizes[DST_PORT, i], sizes[SRC_PORT, i]
    new.family = octets[FAMILY, i]
    new.recorded = recorded
    new.state = 0
    new.why = 0
    new.began_seq = numbers[SEQ, i]
    if flags & _SYN_ACK == _SYN_ACK:
        new.began_seq = np.uint32(S(numbers[ACK, i]) - 1)
    new.id = recorded if recorded else _connection_id(new, wide[TS, i])


@inline
def _fnv(value: Int, number: Int, size: Int) -> Int:
    """FNV-1a over the last `size` bytes of a number, the highest first."""
    for k in range(size):
        value = (value ^ ((number >> U(8 * (size - 1 - k))) & U(255))) * _FNV_PRIME
    return value


@inline
def _connection_id(new: Any, ts_ns: Int) -> Int:
    """The id of a connection that no recorder has numbered."""
    value = _FNV_BASIS
    if new.family == 4:
        value = _fnv(_fnv(value, new.client_low, 4), U(new.client_port), 2)
        value = _fnv(_fnv(value, new.server_low, 4), U(new.server_port), 2)
    else:
        value = _fnv(_fnv(value, new.client_high, 8), new.client_low, 8)
        value = _fnv(value, U(new.client_port), 2)
        value = _fnv(_fnv(value, new.server_high, 8), new.server_low, 8)
        value = _fnv(value, U(new.server_port), 2)
    value = _fnv(value, U(ts_ns), 8) >> U(1)
    return S(value) if value else 1

"""Kernels that assign packets to connections and directions (captures.md, Connections).

The rules are those of `wirelake.capture.tcp.connections.ConnectionTable`: a connection is
identified by its endpoints or by the recorder's id; a SYN may replace it, once a further packet
confirms the new one; it is dropped 60 s of
capture time after it was closed, or when the table is full and it was idle for longest.

Connections are records in *slots* of one array. An open-addressing hash index finds the slot of a
packet. Two doubly linked lists run through the slots: all connections by last use, and closed ones
by the time of closing. The streams of a connection have the numbers `2 * slot` (c2s) and
`2 * slot + 1` (s2c). A slot that is dropped in a window becomes free in the next one, because the
reader of the window still looks at its streams.

Numba's typed dictionaries and lists need reference counting, which kernels are compiled without
(`jit/options.py`), and they cannot be saved as columns. Hence plain arrays and indices.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import FIN, RST, SYN
from wirelake.capture.tcp.connections import CONFIRMING_BYTES, GRACE_NS
from wirelake.records.tunnels import FNV_BASIS, FNV_PRIME

from ..jit.options import Int, S, U, inline, kernel, record
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
    "CLOSED_FIRST",
    "CLOSED_LAST",
    "CLOSED_S2C",
    "CONNECTION",
    "EVICTED",
    "EXPIRED",
    "LRU_FIRST",
    "LRU_LAST",
    "NOW_NS",
    "NO_DIRECTION",
    "NO_STREAM",
    "N_DROPPED",
    "N_FREE",
    "N_HELD",
    "OTHER_SHARE",
    "REPLACED",
    "RESET",
    "SCALARS_SIZE",
    "are_closed",
    "assign",
    "least_recently_used",
    "rebuild_index",
]

CONNECTION: Final = record(
    [
        ("id", "i8"),
        ("recorded", "i8"),
        ("client_high", "u8"),
        ("client_low", "u8"),
        ("server_high", "u8"),
        ("server_low", "u8"),
        ("over_ns", "i8"),
        ("tag", "i8"),
        ("lru_prev", "i4"),
        ("lru_next", "i4"),
        ("closed_prev", "i4"),
        ("closed_next", "i4"),
        ("began_seq", "u4"),
        ("hash", "u4"),
        ("client_port", "u2"),
        ("server_port", "u2"),
        ("family", "u1"),
        ("state", "u1"),
        ("in_share", "u1"),
        ("drop_reason", "u1"),
    ],
)
"""A connection. `recorded` is the recorder's id or 0, `over_ns` when it ended or, while it is open,
when it began; `tag` its hash in the index, `hash` the one that determines its share, `state` the
bits below, `in_share` whether it belongs to our share."""

CLOSED_C2S: Final = 1
CLOSED_S2C: Final = 2
RESET: Final = 4
UNCONFIRMED: Final = 8
"""Bits of a connection's `state`: FIN was seen from the client, from the server; RST was seen; its
SYN uses the port of a connection that is still open, and no other packet of it was seen."""
_CLOSED: Final = CLOSED_C2S | CLOSED_S2C
_ASIDE: Final = 1 << 30
"""A bit that differs in the tag of an open connection that was set aside for an unconfirmed one:
then it is found by that tag. The tag is saved, so that this survives a step."""

NOT_DROPPED, EXPIRED, REPLACED, EVICTED = range(4)
"""Values of `drop_reason`: still held; closed for GRACE_NS; replaced by a new SYN; evicted because
the table was full."""

NOW_NS, N_HELD, N_FREE, N_DROPPED, LRU_FIRST, LRU_LAST, CLOSED_FIRST, CLOSED_LAST = range(8)
"""Indices of `scalars`: the latest time seen, connections held, lengths of `free` and `dropped`,
the ends of both lists (-1 when empty). They are in an array because a kernel can only write to
arrays."""
SCALARS_SIZE: Final = 8
"""Length of `scalars`."""

_NONE: Final = -1
_LONG_AGO: Final = -(1 << 63)

Table = NDArray[Any]
Ints = NDArray[np.int64]


NO_STREAM: Final = -1
OTHER_SHARE: Final = -2
"""Instead of a stream number: the packet has no segment, or belongs to another share."""
NO_DIRECTION: Final = 255
"""Instead of a direction: the packet has no segment."""

_SYN_ACK: Final = SYN | 16
_C2S: Final = 0
_S2C: Final = 1
_TAG_MASK: Final = np.uint64(0x7FFFFFFF)
_FNV_BASIS: Final = np.uint64(FNV_BASIS)
_FNV_PRIME: Final = np.uint64(FNV_PRIME)
_MURMUR_1: Final = np.uint64(0xFF51AFD7ED558CCD)
_MURMUR_2: Final = np.uint64(0xC4CEB9FE1A85EC53)


@kernel
def assign(
    first: int,
    count: int,
    packet_i64: Ints,
    marks: NDArray[np.uint8],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    table: Table,
    index: Ints,
    free: NDArray[np.int32],
    dropped: NDArray[np.int32],
    scalars: Ints,
    server_ports: NDArray[np.bool_],
    limit: int,
    share: int,
    shares: int,
    connection: Ints,
    direction: NDArray[np.uint8],
    stream: NDArray[np.int32],
) -> int:
    """Assign connection, direction and stream to the packets from `first` to `count`.

    Returns `count`, or the number of a packet that needs a slot when none is free: a kernel cannot
    allocate. The caller then adds slots and calls again from there.
    """
    for i in range(first, count):
        connection[i] = 0
        direction[i] = NO_DIRECTION
        stream[i] = NO_STREAM if share == 0 else OTHER_SHARE
        if header_u8[NOTE, i]:
            continue
        # Capture time, and never backwards: interfaces and files may be slightly out of order, and
        # a clock that jumps back must not keep closed connections for ever.
        scalars[NOW_NS] = max(scalars[NOW_NS], packet_i64[TS, i])
        # The list of closed connections is sorted by time, because NOW_NS never decreases, so only
        # its head must be looked at: constant time for each packet.
        while scalars[CLOSED_FIRST] >= 0:
            oldest = scalars[CLOSED_FIRST]
            if scalars[NOW_NS] - table[U(oldest)].over_ns < GRACE_NS:
                break
            _drop(oldest, EXPIRED, table, index, dropped, scalars)
        recorded = packet_i64[RECORDED, i] if marks[i] & MARK_RECORDED else 0
        hashed = _hash(i, recorded, header_i32, header_u8, addresses)
        # 31 bits, so that an index entry (tag << 32 | slot + 1) stays a positive int64.
        tag = S(hashed & _TAG_MASK)
        # Every share holds the connections of all shares. The limit and the expiry concern all of
        # them together, and the result must not depend on the number of shares (`state.py`).
        slot = _find(i, recorded, tag, header_i32, header_u8, addresses, table, index)
        before, known_ns, unconfirmed = 0, _LONG_AGO, 0
        if slot >= 0 and recorded == 0 and header_u8[FLAGS, i] & _SYN_ACK == SYN:
            old = table[U(slot)]
            # A SYN with the sequence number of the first one is its retransmission; any other
            # one opens a new connection between the same endpoints (port reuse).
            if is_closed(old.state) or header_u32[SEQ, i] != old.began_seq:
                # Before the old one is dropped: the new one needs its id when it is called again.
                if scalars[N_FREE] == 0:
                    return i
                before, known_ns = old.id, old.over_ns
                unconfirmed = S(old.state) & UNCONFIRMED
                if unconfirmed or is_closed(old.state):
                    _drop(slot, REPLACED, table, index, dropped, scalars)
                else:
                    unconfirmed = UNCONFIRMED
                    _set_aside(slot, table, index, scalars)
                slot = -1
        elif slot >= 0 and table[U(slot)].state & UNCONFIRMED:
            new = table[U(slot)]
            aside = _find(i, recorded, tag ^ _ASIDE, header_i32, header_u8, addresses, table, index)
            sender = _direction(i, marks, header_i32, header_u8, addresses, new)
            number = S(header_u32[SEQ, i]) if sender == _C2S else S(header_u32[ACK, i])
            if aside < 0 or (number - S(new.began_seq) - 1) & 0xFFFFFFFF < CONFIRMING_BYTES:
                new.state &= ~UNCONFIRMED
                if aside >= 0:
                    _drop(aside, REPLACED, table, index, dropped, scalars)
            else:
                slot = aside
        if slot < 0:
            if scalars[N_FREE] == 0:
                return i
            scalars[N_FREE] -= 1
            slot = S(free[U(scalars[N_FREE])])
            _open(
                i,
                recorded,
                packet_i64,
                marks,
                header_i32,
                header_u32,
                header_u8,
                addresses,
                server_ports,
                before,
                known_ns,
                table,
                slot,
            )
            new = table[U(slot)]
            new.state = unconfirmed
            new.tag = tag
            new.hash = np.uint32(hashed >> U(32))
            # Decided once and stored, instead of a division for each packet.
            new.in_share = S(new.hash) % shares == share
            _index_insert(slot, tag, index)
            _lru_append(slot, table, scalars)
            scalars[N_HELD] += 1
            # After the new connection was added, as in the reference, so that the new one itself is
            # never evicted.
            if scalars[N_HELD] > limit:
                _drop(scalars[LRU_FIRST], EVICTED, table, index, dropped, scalars)
        else:
            _lru_unlink(slot, table, scalars)
            _lru_append(slot, table, scalars)
        found = table[U(slot)]
        sender = _direction(i, marks, header_i32, header_u8, addresses, found)
        was_closed = is_closed(found.state)
        if header_u8[FLAGS, i] & FIN:
            found.state |= CLOSED_C2S if sender == _C2S else CLOSED_S2C
        if header_u8[FLAGS, i] & RST:
            found.state |= RESET
        if is_closed(found.state) and not was_closed:
            _append_closed(slot, table, scalars)
        connection[i] = found.id
        direction[i] = sender
        stream[i] = slot * 2 + sender if found.in_share else OTHER_SHARE
    return count


@kernel
def rebuild_index(table: Table, index: Ints, scalars: Ints) -> None:
    """Fill an empty index with all connections that are held."""
    slot = scalars[LRU_FIRST]
    while slot >= 0:
        _index_insert(slot, table[U(slot)].tag, index)
        slot = S(table[U(slot)].lru_next)


@kernel
def least_recently_used(table: Table, scalars: Ints, found: NDArray[np.int32]) -> None:
    """List the connections that are held, the longest idle first."""
    slot = scalars[LRU_FIRST]
    for k in range(len(found)):
        found[k] = slot
        slot = S(table[U(slot)].lru_next)


def are_closed(connections: Table) -> NDArray[np.bool_]:
    """Return which connections are closed in both directions, or reset."""
    state = connections["state"]
    return np.asarray((state & RESET != 0) | (state & _CLOSED == _CLOSED))


# -- keys --------------------------------------------------------------------------------------


@inline
def _mix(value: Int) -> Int:
    """Mix the bits of a 64-bit number (the finaliser of MurmurHash3)."""
    value ^= value >> U(33)
    value *= _MURMUR_1
    value ^= value >> U(33)
    value *= _MURMUR_2
    return value ^ (value >> U(33))


@inline
def _hash(
    i: Int,
    recorded: Int,
    header_i32: NDArray[np.int32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
) -> Int:
    """Return a hash of a packet's connection that is the same for both directions.

    Both endpoints are hashed and then added, which does not depend on their order. The lower 31
    bits select the place in the index, the upper 32 the share.
    """
    if recorded:
        return _mix(U(recorded))
    # The port goes into the top 16 bits: an IPv4 address uses only the lower 32.
    ports = U(header_i32[SRC_PORT, i]) << U(48), U(header_i32[DST_PORT, i]) << U(48)
    src = _mix(addresses[SRC_LOW, i] ^ ports[0])
    dst = _mix(addresses[DST_LOW, i] ^ ports[1])
    if header_u8[FAMILY, i] == 6:
        src = _mix(src ^ addresses[SRC_HIGH, i])
        dst = _mix(dst ^ addresses[DST_HIGH, i])
    return _mix(src + dst)


@inline
def _find(
    i: Int,
    recorded: Int,
    tag: Int,
    header_i32: NDArray[np.int32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    table: Table,
    index: Ints,
) -> Int:
    """Return the slot of a packet's connection, or -1."""
    # Linear probing. An entry holds the tag in its upper half and slot + 1 in its lower half, so
    # most probes touch one cache line of the index and no connection record. The index has at
    # least twice as many entries as slots (`Tracker._grow`), so an empty one ends each search.
    mask = len(index) - 1
    at = tag & mask
    while True:
        entry = index[U(at)]
        if entry == 0:
            return -1
        if entry >> 32 == tag:
            # Equal tags are not enough: 31 bits collide among 262,144 connections, so the key is
            # compared.
            slot = (entry & 0xFFFFFFFF) - 1
            found = table[U(slot)]
            if recorded:
                if found.recorded == recorded:
                    return slot
            elif _same_endpoints(i, header_i32, header_u8, addresses, found):
                return slot
        at = (at + 1) & mask


@inline
def _from_client(
    i: Int,
    header_i32: NDArray[np.int32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    found: Any,
) -> Int:
    """Return whether the client of a connection sent a packet."""
    return (
        addresses[SRC_LOW, i] == found.client_low
        and header_i32[SRC_PORT, i] == found.client_port
        and addresses[SRC_HIGH, i] == found.client_high
        and header_u8[FAMILY, i] == found.family
    )


@inline
def _same_endpoints(
    i: Int,
    header_i32: NDArray[np.int32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    found: Any,
) -> Int:
    """Return whether a packet has the endpoints of a connection, in either direction."""
    if header_u8[FAMILY, i] != found.family or found.recorded:
        return False
    src_port, dst_port = header_i32[SRC_PORT, i], header_i32[DST_PORT, i]
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
    header_i32: NDArray[np.int32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    found: Any,
) -> Int:
    """Return the direction of a packet: as the recorder marked it, or by its source."""
    if marks[i] & MARK_C2S:
        return _C2S
    if marks[i] & MARK_S2C:
        return _S2C
    return _C2S if _from_client(i, header_i32, header_u8, addresses, found) else _S2C


# -- the beginning of a connection -------------------------------------------------------------


@inline
def _begins_from_client(
    i: Int,
    marks: NDArray[np.uint8],
    header_i32: NDArray[np.int32],
    flags: Int,
    server_ports: NDArray[np.bool_],
) -> Int:
    """Return whether the first packet of a connection comes from its client.

    In this order: the recorder's mark, SYN or SYN-ACK, a known server port, the lower port.
    """
    if marks[i] & (MARK_C2S | MARK_S2C):
        return (marks[i] & MARK_C2S) != 0
    # A SYN comes from the client, a SYN-ACK from the server.
    if flags & SYN:
        return flags & _SYN_ACK == SYN
    # An array of 65,536 booleans instead of a set: one load, and Numba has no sets without
    # reference counting.
    src_known = server_ports[U(header_i32[SRC_PORT, i])]
    dst_known = server_ports[U(header_i32[DST_PORT, i])]
    if src_known != dst_known:
        return dst_known
    # Servers usually have the lower port. Equal ports: the sender of the first packet is the
    # client.
    return header_i32[SRC_PORT, i] >= header_i32[DST_PORT, i]


@inline
def _open(
    i: Int,
    recorded: Int,
    packet_i64: Ints,
    marks: NDArray[np.uint8],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: NDArray[np.uint8],
    addresses: NDArray[np.uint64],
    server_ports: NDArray[np.bool_],
    before: Int,
    known_ns: Int,
    table: Table,
    slot: Int,
) -> None:
    """Fill the record of a connection that begins with a packet.

    It may replace the connection with the id `before`, which began or ended at `known_ns`.
    """
    new = table[U(slot)]
    flags = S(header_u8[FLAGS, i])
    if _begins_from_client(i, marks, header_i32, flags, server_ports):
        new.client_high, new.client_low = addresses[SRC_HIGH, i], addresses[SRC_LOW, i]
        new.server_high, new.server_low = addresses[DST_HIGH, i], addresses[DST_LOW, i]
        new.client_port, new.server_port = header_i32[SRC_PORT, i], header_i32[DST_PORT, i]
    else:
        new.client_high, new.client_low = addresses[DST_HIGH, i], addresses[DST_LOW, i]
        new.server_high, new.server_low = addresses[SRC_HIGH, i], addresses[SRC_LOW, i]
        new.client_port, new.server_port = header_i32[DST_PORT, i], header_i32[SRC_PORT, i]
    new.family = header_u8[FAMILY, i]
    new.recorded = recorded
    new.state = 0
    new.drop_reason = 0
    new.began_seq = header_u32[SEQ, i]
    if flags & _SYN_ACK == _SYN_ACK:  # the SYN itself was not captured
        new.began_seq = np.uint32(S(header_u32[ACK, i]) - 1)
    ts_ns = packet_i64[TS, i]
    new.over_ns = max(ts_ns, known_ns)
    new.id = recorded
    if not recorded:
        new.id = _connection_id(new, ts_ns, before if ts_ns <= known_ns else 0)


@inline
def _fnv(value: Int, number: Int, size: Int) -> Int:
    """Continue FNV-1a with the last `size` bytes of a number, the highest first."""
    # All operands are uint64, so the product wraps modulo 2^64 as FNV requires. A single signed
    # operand would make Numba compute in float64.
    for k in range(size):
        value = (value ^ ((number >> U(8 * (size - 1 - k))) & U(255))) * _FNV_PRIME
    return value


@inline
def _connection_id(new: Any, ts_ns: Int, before: Int) -> Int:
    """Return the id of a connection that no recorder has numbered (captures.md, Connections)."""
    value = _FNV_BASIS
    if new.family == 4:
        value = _fnv(_fnv(value, new.client_low, 4), U(new.client_port), 2)
        value = _fnv(_fnv(value, new.server_low, 4), U(new.server_port), 2)
    else:
        value = _fnv(_fnv(value, new.client_high, 8), new.client_low, 8)
        value = _fnv(value, U(new.client_port), 2)
        value = _fnv(_fnv(value, new.server_high, 8), new.server_low, 8)
        value = _fnv(value, U(new.server_port), 2)
    value = _fnv(value, U(ts_ns), 8)
    if before:
        value = _fnv(value, U(before), 8)
    # 63 bits: ids are int64 in tables, where negative numbers would only confuse.
    value = value >> U(1)
    return S(value) if value else 1


# -- the end of a connection ---------------------------------------------------------------------


@inline
def is_closed(state: Int) -> Int:
    """Return whether a connection is closed in both directions, or reset."""
    return state & RESET != 0 or state & _CLOSED == _CLOSED


@inline
def _set_aside(slot: Int, table: Table, index: Ints, scalars: Ints) -> None:
    """Replace an open connection in the index by another one with the same endpoints."""
    old = table[U(slot)]
    _index_remove(slot, old.tag, index)
    old.tag ^= _ASIDE
    _index_insert(slot, old.tag, index)
    _lru_unlink(slot, table, scalars)
    _lru_append(slot, table, scalars)


@inline
def _drop(
    slot: Int, reason: Int, table: Table, index: Ints, dropped: NDArray[np.int32], scalars: Ints
) -> None:
    """Drop a connection. Its record stays readable until the end of the window."""
    old = table[U(slot)]
    _index_remove(slot, old.tag, index)
    _lru_unlink(slot, table, scalars)
    if is_closed(old.state):
        _unlink_closed(slot, table, scalars)
    old.drop_reason = reason
    dropped[U(scalars[N_DROPPED])] = slot
    scalars[N_DROPPED] += 1
    scalars[N_HELD] -= 1


# -- the index -----------------------------------------------------------------------------------


@inline
def _index_insert(slot: Int, tag: Int, index: Ints) -> None:
    """Put a slot into the index, which has a free entry."""
    mask = len(index) - 1
    at = tag & mask
    while index[U(at)] != 0:
        at = (at + 1) & mask
    index[U(at)] = tag << 32 | (slot + 1)


@inline
def _index_remove(slot: Int, tag: Int, index: Ints) -> None:
    """Remove a slot from the index."""
    # Entries after the hole move back if the hole is on their probe path. Tombstones would be
    # simpler, but connections come and go for as long as a capture lasts, and searches would get
    # longer until the index is rebuilt.
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
        # An entry may move back only if the hole is not before its home position: compare both
        # distances, which wrap with the index.
        if (at - home) & mask >= (at - hole) & mask:
            index[U(hole)] = entry
            hole = at
    index[U(hole)] = 0


# -- lists through the slots ---------------------------------------------------------------------


@inline
def _lru_append(slot: Int, table: Table, scalars: Ints) -> None:
    """Append a slot to the list by last use."""
    newest = scalars[LRU_LAST]
    table[U(slot)].lru_prev = newest
    table[U(slot)].lru_next = _NONE
    if newest >= 0:
        table[U(newest)].lru_next = slot
    else:
        scalars[LRU_FIRST] = slot
    scalars[LRU_LAST] = slot


@inline
def _lru_unlink(slot: Int, table: Table, scalars: Ints) -> None:
    """Remove a slot from the list by last use."""
    older = S(table[U(slot)].lru_prev)
    newer = S(table[U(slot)].lru_next)
    if older >= 0:
        table[U(older)].lru_next = newer
    else:
        scalars[LRU_FIRST] = newer
    if newer >= 0:
        table[U(newer)].lru_prev = older
    else:
        scalars[LRU_LAST] = older


@inline
def _append_closed(slot: Int, table: Table, scalars: Ints) -> None:
    """Append a connection that is now closed to the list of closed ones."""
    last = scalars[CLOSED_LAST]
    new = table[U(slot)]
    new.over_ns = scalars[NOW_NS]
    new.closed_prev = last
    new.closed_next = _NONE
    if last >= 0:
        table[U(last)].closed_next = slot
    else:
        scalars[CLOSED_FIRST] = slot
    scalars[CLOSED_LAST] = slot


@inline
def _unlink_closed(slot: Int, table: Table, scalars: Ints) -> None:
    """Remove a slot from the list of closed connections."""
    before = S(table[U(slot)].closed_prev)
    after = S(table[U(slot)].closed_next)
    if before >= 0:
        table[U(before)].closed_next = after
    else:
        scalars[CLOSED_FIRST] = after
    if after >= 0:
        table[U(after)].closed_prev = before
    else:
        scalars[CLOSED_LAST] = before

"""`Tracker`: the connections and streams of a reader, in arrays that kernels work on.

`Tracker.assign` assigns packets to connections and streams (`flows.py`), `Tracker.follow` finds the
payloads that are next in each stream (`stream_order.py`). Both kernels only index the arrays; this
module allocates and grows them. Connections that are dropped in a window keep their slots until
`Tracker.recycle`, so that the reader of the window can still look at their streams.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from . import flows
from .flows import assign
from .packets import Packets
from .stream_order import N_ACTIVE, N_DISORDERED, N_ENDING, STREAM, follow_streams

__all__ = ["Followed", "Tracker", "both_streams"]

_INITIAL_SLOTS: Final = 1024

Followed = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""Active streams, streams that ended, packets that are out of order."""


class Tracker:
    """The connections and streams of one reader."""

    def __init__(self, server_ports: Collection[int], *, limit: int, share: int, shares: int):
        self._limit = limit
        self._share, self._shares = share, shares
        # See `flows._begins_from_client`.
        self._server_ports = np.zeros(65_536, np.bool_)
        self._server_ports[list(server_ports)] = True
        self.connections = np.zeros(0, flows.CONNECTION)
        """One record for each slot."""
        self.streams = np.zeros(0, STREAM)
        """Two records for each slot."""
        self._index = np.zeros(2, np.int64)
        self._free = np.empty(0, np.int32)
        self._dropped = np.empty(0, np.int32)
        self._scalars = np.zeros(flows.SCALARS_SIZE, np.int64)
        self._scalars[[flows.LRU_FIRST, flows.LRU_LAST, flows.CLOSED_FIRST, flows.CLOSED_LAST]] = -1
        self._grow(_INITIAL_SLOTS)

    def assign(self, packets: Packets) -> None:
        """Assign connection, direction and stream to packets."""
        # The kernel returns early whenever it needs more slots, and continues at the same packet.
        done = 0
        while True:
            done = assign(
                done,
                packets.count,
                packets.packet_i64,
                packets.marks,
                packets.header_i32,
                packets.header_u32,
                packets.header_u8,
                packets.addresses,
                self.connections,
                self._index,
                self._free,
                self._dropped,
                self._scalars,
                self._server_ports,
                self._limit,
                self._share,
                self._shares,
                packets.connection,
                packets.direction,
                packets.stream,
            )
            if done == packets.count:
                return
            self._grow(self._growth())

    def follow(self, packets: Packets, window: int) -> Followed:
        """Mark the payloads that are next in their streams."""
        # Each list may get an entry for every packet. Pages that are never written cost nothing.
        active = np.empty(packets.count, np.int32)
        ending = np.empty(packets.count, np.int32)
        disordered = np.empty(packets.count, np.int32)
        counts = np.zeros(3, np.int64)
        follow_streams(
            packets.count,
            window,
            packets.file,
            packets.packet_i64,
            packets.marks,
            packets.header_i64,
            packets.header_i32,
            packets.header_u32,
            packets.header_u8,
            packets.connection,
            packets.stream,
            self.streams,
            packets.in_order,
            packets.previous,
            active,
            ending,
            disordered,
            counts,
        )
        return (
            active[: counts[N_ACTIVE]],
            ending[: counts[N_ENDING]],
            disordered[: counts[N_DISORDERED]],
        )

    def dropped_streams(self) -> NDArray[np.int32]:
        """Return the streams of connections that were dropped in this window."""
        return self._streams_of(self._dropped[: self._scalars[flows.N_DROPPED]])

    @property
    def now_ns(self) -> int:
        """The latest time that was seen."""
        return int(self._scalars[flows.NOW_NS])

    def least_recently_used(self) -> NDArray[np.int32]:
        """Return the slots of all connections, of all shares, the longest idle first."""
        found = np.empty(int(self._scalars[flows.N_HELD]), np.int32)
        flows.least_recently_used(self.connections, self._scalars, found)
        return found

    def held_streams(self) -> NDArray[np.int32]:
        """Return the streams of connections that are still held, the longest idle first."""
        return self._streams_of(self.least_recently_used())

    def restore(self, connections: NDArray[Any], streams: NDArray[Any], now_ns: int) -> None:
        """Replace all connections by these, which are sorted by last use, the longest idle first.

        Slots are assigned in this order. The lists and the index are rebuilt: they hold slot
        numbers, which depend on what was dropped before the state was saved.
        """
        count = len(connections)
        if count > len(self.connections):
            self._grow(count + count // 2 - len(self.connections))
        _copy(connections, self.connections)
        _copy(streams, self.streams)
        held = self.connections[:count]
        _link(held, np.arange(count), "lru_prev", "lru_next")
        over = np.flatnonzero(flows.are_closed(held))
        # Equal times keep their order by last use; the reference has the order of closing, which
        # only matters for the order in which connections expire at the same moment.
        over = over[np.argsort(held["over_ns"][over], kind="stable")]
        _link(held, over, "closed_prev", "closed_next")
        free = len(self.connections) - count
        self._free[:free] = np.arange(len(self.connections) - 1, count - 1, -1)
        self._scalars[flows.NOW_NS] = now_ns
        self._scalars[flows.N_HELD], self._scalars[flows.N_FREE] = count, free
        self._scalars[[flows.LRU_FIRST, flows.LRU_LAST]] = _ends(np.arange(count))
        self._scalars[[flows.CLOSED_FIRST, flows.CLOSED_LAST]] = _ends(over)
        self._index[:] = 0
        flows.rebuild_index(self.connections, self._index, self._scalars)

    def recycle(self) -> NDArray[np.int32]:
        """Free the slots of dropped connections; return their streams."""
        count, free = int(self._scalars[flows.N_DROPPED]), int(self._scalars[flows.N_FREE])
        dropped = self._dropped[:count]
        self._free[free : free + count] = dropped
        self._scalars[flows.N_FREE] += count
        self._scalars[flows.N_DROPPED] = 0
        streams = np.concatenate([dropped * 2, dropped * 2 + 1])
        self._clear(streams)
        return streams

    def _streams_of(self, connections: NDArray[np.int32]) -> NDArray[np.int32]:
        streams = both_streams(connections)
        return streams[self.streams["packets"][streams] > 0]

    def _clear(self, streams: NDArray[np.int32]) -> None:
        # A zero record is a stream without packets, which `follow_streams` recognises.
        self.streams.view(np.uint8).reshape(-1, STREAM.itemsize)[streams] = 0
        self.streams["carry_row"][streams] = -1

    def _growth(self) -> int:
        """Return how many slots to add: double up to the limit, then an eighth.

        The limit is on connections that are held. Dropped ones keep their slots for the rest of the
        window, so a window in which many are dropped needs more slots than the limit.
        """
        count = len(self.connections)
        return count if count < self._limit else max(1, count // 8)

    def _grow(self, more: int) -> None:
        """Add free slots, and rebuild_index the index."""
        count = len(self.connections)
        total = count + more
        self.connections = _extended(self.connections, total)
        # Streams are indexed by 2 * slot, so both arrays grow together.
        self.streams = _extended(self.streams, 2 * total)
        self.streams["carry_row"][2 * count :] = -1
        free = np.empty(total, np.int32)
        # Free slots are a stack: `assign` takes from its end.
        kept = int(self._scalars[flows.N_FREE])
        free[:kept] = self._free[:kept]
        # Descending, because slots are taken from the end: neighbouring connections of a capture
        # get neighbouring slots.
        free[kept : kept + more] = np.arange(total - 1, count - 1, -1)
        self._free = free
        self._scalars[flows.N_FREE] += more
        self._dropped = np.concatenate([self._dropped, np.empty(more, np.int32)])
        # A power of two, for a mask instead of a division, and at most half full.
        self._index = np.zeros(2 * _next_power_of_two(total), np.int64)
        flows.rebuild_index(self.connections, self._index, self._scalars)


def both_streams(connections: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the streams of connections, by slot: c2s and s2c of each."""
    return (connections[:, None] * 2 + np.array([0, 1], np.int32)).ravel()


def _extended(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy, extended with zeros."""
    new = np.zeros(size, array.dtype)
    _copy(array, new)
    return new


def _copy(array: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy records to the beginning of others, as bytes: ten times as fast as by record."""
    target.view(np.uint8)[: array.nbytes] = array.view(np.uint8)


def _link(records: NDArray[Any], sequence: NDArray[np.intp], before: str, after: str) -> None:
    """Link records into a list, in this order."""
    records[before][sequence[1:]] = sequence[:-1]
    records[after][sequence[:-1]] = sequence[1:]
    records[before][sequence[:1]] = -1
    records[after][sequence[-1:]] = -1


def _ends(sequence: NDArray[np.intp]) -> tuple[int, int]:
    """Return the first and the last entry of a list; -1 when it is empty."""
    return (int(sequence[0]), int(sequence[-1])) if len(sequence) else (-1, -1)


def _next_power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least `size`."""
    return 1 << (size - 1).bit_length()

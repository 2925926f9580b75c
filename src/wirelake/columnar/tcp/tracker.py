"""Connections and streams over all windows: the arrays that the kernels work on, and their growth.

`Tracker.assign` gives packets their connection and stream (`flows.py`), `Tracker.follow` finds out
what is next in each stream (`order.py`). Connections that are dropped in a window keep their slots
until `Tracker.recycle`, so that whoever reads the window can still look at their streams.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from . import flows as slots
from .flows import assign
from .packets import Packets
from .stream_order import ACTIVE, ENDING, STRANGE, STREAM, follow

__all__ = ["Followed", "Tracker", "both_streams"]

_FIRST_SLOTS: Final = 1024

Followed = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""Active streams, streams that ended, packets that are out of order."""


class Tracker:
    """All connections of one reader."""

    def __init__(self, server_ports: Collection[int], *, limit: int, share: int, shares: int):
        self._limit = limit
        self._share, self._shares = share, shares
        self._server_ports = np.zeros(65_536, np.bool_)
        self._server_ports[list(server_ports)] = True
        self.connections = np.zeros(0, slots.CONNECTION)
        """One record for each slot."""
        self.streams = np.zeros(0, STREAM)
        """Two records for each slot."""
        self._index = np.zeros(2, np.int64)
        self._free = np.empty(0, np.int32)
        self._dropped = np.empty(0, np.int32)
        self._state = np.zeros(slots.STATE_SIZE, np.int64)
        self._state[[slots.OLDEST, slots.NEWEST, slots.OVER_FIRST, slots.OVER_LAST]] = -1
        self._grow(_FIRST_SLOTS)

    def assign(self, packets: Packets) -> None:
        """Assign connection, direction and stream to packets."""
        done = 0
        while True:
            done = assign(
                done,
                packets.count,
                packets.wide,
                packets.marks,
                packets.sizes,
                packets.numbers,
                packets.octets,
                packets.addresses,
                self.connections,
                self._index,
                self._free,
                self._dropped,
                self._state,
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
        active = np.empty(packets.count, np.int32)
        ending = np.empty(packets.count, np.int32)
        strange = np.empty(packets.count, np.int32)
        counts = np.zeros(3, np.int64)
        follow(
            packets.count,
            window,
            packets.file,
            packets.wide,
            packets.places,
            packets.sizes,
            packets.numbers,
            packets.octets,
            packets.connection,
            packets.stream,
            self.streams,
            packets.taken,
            packets.earlier,
            active,
            ending,
            strange,
            counts,
        )
        return active[: counts[ACTIVE]], ending[: counts[ENDING]], strange[: counts[STRANGE]]

    def dropped(self) -> NDArray[np.int32]:
        """The streams of connections that were dropped in this window."""
        return self._streams_of(self._dropped[: self._state[slots.DROPPED]])

    @property
    def now_ns(self) -> int:
        """The latest time that was seen."""
        return int(self._state[slots.NOW])

    def by_last_use(self) -> NDArray[np.int32]:
        """The slots of connections that are held, those of all shares, the longest silent first."""
        found = np.empty(int(self._state[slots.HELD]), np.int32)
        slots.by_last_use(self.connections, self._state, found)
        return found

    def held(self) -> NDArray[np.int32]:
        """The streams of connections that are still held, the longest silent first."""
        return self._streams_of(self.by_last_use())

    def restore(self, connections: NDArray[Any], streams: NDArray[Any], now_ns: int) -> None:
        """Hold these connections, the longest silent first, and nothing else."""
        count = len(connections)
        if count > len(self.connections):
            self._grow(count + count // 2 - len(self.connections))
        _copy(connections, self.connections)
        _copy(streams, self.streams)
        held = self.connections[:count]
        _link(held, np.arange(count), "older", "newer")
        over = np.flatnonzero(slots.are_over(held))
        over = over[np.argsort(held["over_ns"][over], kind="stable")]
        _link(held, over, "over_before", "over_after")
        free = len(self.connections) - count
        self._free[:free] = np.arange(len(self.connections) - 1, count - 1, -1)
        self._state[slots.NOW] = now_ns
        self._state[slots.HELD], self._state[slots.FREE] = count, free
        self._state[[slots.OLDEST, slots.NEWEST]] = _ends(np.arange(count))
        self._state[[slots.OVER_FIRST, slots.OVER_LAST]] = _ends(over)
        self._index[:] = 0
        slots.rebuild(self.connections, self._index, self._state)

    def recycle(self) -> NDArray[np.int32]:
        """Free the slots of dropped connections; return their streams."""
        count, free = int(self._state[slots.DROPPED]), int(self._state[slots.FREE])
        dropped = self._dropped[:count]
        self._free[free : free + count] = dropped
        self._state[slots.FREE] += count
        self._state[slots.DROPPED] = 0
        streams = np.concatenate([dropped * 2, dropped * 2 + 1])
        self._clear(streams)
        return streams

    def _streams_of(self, connections: NDArray[np.int32]) -> NDArray[np.int32]:
        streams = both_streams(connections)
        return streams[self.streams["packets"][streams] > 0]

    def _clear(self, streams: NDArray[np.int32]) -> None:
        self.streams[streams] = np.zeros(1, STREAM)
        self.streams["carry"][streams] = -1

    def _growth(self) -> int:
        """Return how many slots to add: double up to the limit, then an eighth."""
        count = len(self.connections)
        return count if count < self._limit else max(1, count // 8)

    def _grow(self, more: int) -> None:
        """Add free slots, and rebuild the index."""
        count = len(self.connections)
        total = count + more
        self.connections = _longer(self.connections, total)
        self.streams = _longer(self.streams, 2 * total)
        self.streams["carry"][2 * count :] = -1
        free = np.empty(total, np.int32)
        kept = int(self._state[slots.FREE])
        free[:kept] = self._free[:kept]
        free[kept : kept + more] = np.arange(total - 1, count - 1, -1)
        self._free = free
        self._state[slots.FREE] += more
        self._dropped = np.concatenate([self._dropped, np.empty(more, np.int32)])
        self._index = np.zeros(2 * _power(total), np.int64)
        slots.rebuild(self.connections, self._index, self._state)


def both_streams(connections: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the streams of connections."""
    return (connections[:, None] * 2 + np.array([0, 1], np.int32)).ravel()


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy, extended with zeros."""
    new = np.zeros(size, array.dtype)
    _copy(array, new)
    return new


def _copy(array: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy records to the beginning of others, as bytes: ten times as fast as by record."""
    target.view(np.uint8)[: array.nbytes] = array.view(np.uint8)


def _link(held: NDArray[Any], sequence: NDArray[np.intp], before: str, after: str) -> None:
    """Make a list of records, in this order."""
    held[before][sequence[1:]] = sequence[:-1]
    held[after][sequence[:-1]] = sequence[1:]
    held[before][sequence[:1]] = -1
    held[after][sequence[-1:]] = -1


def _ends(sequence: NDArray[np.intp]) -> tuple[int, int]:
    """The first and the last of a list; -1 when it is empty."""
    return (int(sequence[0]), int(sequence[-1])) if len(sequence) else (-1, -1)


def _power(size: int) -> int:
    """The smallest power of two that is not below a size."""
    return 1 << (size - 1).bit_length()

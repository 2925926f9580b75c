"""When connections begin and end, as events for the engines of `wirelake.records`.

Only packets that begin or end something are looked at one by one: the first of a connection, and
those with FIN or RST. Their columns are taken all at once.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.tcp.assembly import FIN, RST, SYN
from wirelake.records.rows import Closed, Opened

from ..tcp.window import DIRECTIONS, ENDINGS, Streams, Window

__all__ = ["Lifecycle"]

_REPLACED: Final = ENDINGS.index("replaced")
_ADDRESSES: Final = 16_384
"""Addresses that are kept as text: servers, and clients that come again."""
_BOTH: Final = 3
"""FIN was seen in both directions, 1 in c2s and 2 in s2c; or RST was."""


class Lifecycle:
    """Follows connections through the windows."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        """Connections that are open, and the directions in which FIN was seen."""

    def events(self, window: Window, streams: Streams) -> list[Opened | Closed]:
        """What begins and what ends in a window, in the order of its packets."""
        found: list[Opened | Closed] = []
        present, first = np.unique(window.connection, return_index=True)
        fresh = [
            at
            for connection, at in zip(present.tolist(), first.tolist(), strict=True)
            if connection and connection not in self._known
        ]
        opened = dict(zip(fresh, _opened(window, np.array(fresh, np.intp)), strict=True))
        ending = np.flatnonzero((window.flags & (FIN | RST)) * (window.note == 0))
        places = np.union1d(np.array(fresh, np.intp), ending)
        columns = (window.ts_ns, window.connection, window.direction, window.flags)
        for at, ts_ns, connection, way, flags in zip(
            places.tolist(), *(column[places].tolist() for column in columns), strict=True
        ):
            if at in opened:
                self._known[connection] = 0
                found.append(opened[at])
            if flags & (FIN | RST):
                found += self._closed(ts_ns, connection, way, flags)
        found += self._gone(window, streams)
        return found

    def save(self, connections: list[int]) -> NDArray[np.uint8]:
        """What is known of connections, as a number for each."""
        known = self._known.get
        return np.array([known(each, -1) + 1 for each in connections], np.uint8)

    def restore(self, connections: list[int], saved: list[int]) -> None:
        """Go on with what `save` gave."""
        found = zip(connections, saved, strict=True)
        self._known.update({connection: seen - 1 for connection, seen in found if seen})

    def _closed(self, ts_ns: int, connection: int, way: int, flags: int) -> list[Closed]:
        seen = self._known.get(connection)
        if seen is None or seen == _BOTH:
            return []
        if flags & RST:
            self._known[connection] = _BOTH
            return [Closed(ts_ns, connection, DIRECTIONS[way], "rst")]
        self._known[connection] = seen | 1 << way
        if seen | 1 << way != _BOTH:
            return []
        return [Closed(ts_ns, connection, DIRECTIONS[1 - way], "fin")]

    def _gone(self, window: Window, streams: Streams) -> list[Closed]:
        """Forget connections that were dropped; one that began anew is closed by its last packet.

        A connection has two streams. One of them may have ended by FIN before: only the other one
        says that the connection was replaced.
        """
        last_ns: dict[int, int] = {}
        replaced = set()
        columns = (streams.connection, streams.ending, streams.last_ns)
        for connection, ending, last in zip(
            *(column[window.retired].tolist() for column in columns), strict=True
        ):
            last_ns[connection] = max(last, last_ns.get(connection, last))
            if ending == _REPLACED:
                replaced.add(connection)
        return [
            Closed(last, connection, None, "anew")
            for connection, last in last_ns.items()
            if self._known.pop(connection, _BOTH) != _BOTH and connection in replaced
        ]


def _opened(window: Window, places: NDArray[np.intp]) -> Iterator[Opened]:
    """Connections, by their first packets."""
    columns = (window.ts_ns, window.connection, window.flags, window.direction, window.family)
    ends = (*window.addresses, window.src_port, window.dst_port)
    for ts_ns, connection, flags, way, family, *said in zip(
        *(column[places].tolist() for column in (*columns, *ends)), strict=True
    ):
        source, target = _address(family, *said[0:2]), _address(family, *said[2:4])
        source_port, target_port = said[4:]
        whole = bool(flags & SYN)
        if way == 0:
            ports = source, source_port, target, target_port
        else:
            ports = target, target_port, source, source_port
        yield Opened(ts_ns, connection, None, *ports, whole)


@functools.lru_cache(_ADDRESSES)
def _address(family: int, high: int, low: int) -> str:
    if family == 4:
        return socket.inet_ntop(socket.AF_INET, low.to_bytes(4, "big"))
    return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big"))

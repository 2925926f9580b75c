"""When connections begin and end, as events for the engines of `wirehouse.records`.

Only packets that begin or end something are looked at one by one: the first of a connection, and
those with FIN or RST.
"""

from __future__ import annotations

import socket
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirehouse.capture.assembly import FIN, RST, SYN
from wirehouse.records.rows import Closed, Opened

from .window import DIRECTIONS, ENDINGS, Streams, Window

__all__ = ["Lifecycle"]

_REPLACED: Final = ENDINGS.index("replaced")
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
        connections = window.connection
        present, first = np.unique(connections, return_index=True)
        fresh = [
            int(at)
            for connection, at in zip(present.tolist(), first.tolist(), strict=True)
            if connection and connection not in self._known
        ]
        ending = np.flatnonzero((window.flags & (FIN | RST)) * (window.note == 0)).tolist()
        begins = set(fresh)
        for at in sorted(begins.union(ending)):
            if at in begins:
                self._known[int(connections[at])] = 0
                found.append(_opened(window, at))
            if int(window.flags[at]) & (FIN | RST):
                found += self._closed(window, at)
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

    def _closed(self, window: Window, at: int) -> list[Closed]:
        connection, way = int(window.connection[at]), int(window.direction[at])
        seen = self._known.get(connection)
        if seen is None or seen == _BOTH:
            return []
        if int(window.flags[at]) & RST:
            self._known[connection] = _BOTH
            return [Closed(int(window.ts_ns[at]), connection, DIRECTIONS[way], "rst")]
        self._known[connection] = seen | 1 << way
        if seen | 1 << way != _BOTH:
            return []
        first = DIRECTIONS[1 - way]
        return [Closed(int(window.ts_ns[at]), connection, first, "fin")]

    def _gone(self, window: Window, streams: Streams) -> list[Closed]:
        """Connections that are dropped: those that began anew are closed by that."""
        found = []
        for stream, ending in zip(
            window.retired.tolist(), streams.ending[window.retired].tolist(), strict=True
        ):
            connection = int(streams.connection[stream])
            seen = self._known.pop(connection, None)
            if seen is not None and seen != _BOTH and ending == _REPLACED:
                last = int(streams.last_ns[stream])
                found.append(Closed(last, connection, None, "anew"))
        return found


def _opened(window: Window, at: int) -> Opened:
    from_client = window.direction[at] == 0
    source, target = _address(window, at, 0), _address(window, at, 2)
    source_port, target_port = int(window.src_port[at]), int(window.dst_port[at])
    client, server = (source, target) if from_client else (target, source)
    ports = (source_port, target_port) if from_client else (target_port, source_port)
    return Opened(
        int(window.ts_ns[at]),
        int(window.connection[at]),
        None,
        client,
        ports[0],
        server,
        ports[1],
        bool(window.flags[at] & SYN),
    )


def _address(window: Window, at: int, row: int) -> str:
    high, low = (int(number) for number in window.addresses[row : row + 2, at])
    if window.family[at] == 4:
        return socket.inet_ntop(socket.AF_INET, low.to_bytes(4, "big"))
    return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big"))

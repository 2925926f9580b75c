"""Events that are held back, so that engines see those of a connection in the order of their time.

Bytes behind a hole in a stream are known later than what was captured after them. While a stream
of a connection waits so, everything about that connection, and about the tunnels on it, waits, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wirehouse.records.rows import Event, MessageRow, in_order

__all__ = ["HeldBack"]


class HeldBack:
    """Events of connections that wait."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}
        """Connections of which more is known than was told, and the time from which on."""
        self._events: dict[int, list[Event]] = {}

    def passed(self, events: Iterable[Event]) -> list[Event]:
        """What can be told now, in order: new events, and held ones that need not wait any more."""
        found: list[Event] = []
        for event in in_order(events):
            connection = _connection(event)
            if connection is None or not self._holds(connection, event.ts_ns):
                found.append(event)
            else:
                self._events.setdefault(connection, []).append(event)
        for connection in self._events.keys() - self.waiting.keys():
            found += self._events.pop(connection)
        return in_order(found)

    def all(self) -> Iterator[Event]:
        """Everything that is still held."""
        for events in self._events.values():
            yield from events
        self._events.clear()

    def _holds(self, connection: int, ts_ns: int) -> bool:
        if connection in self._events:
            return True
        since = self.waiting.get(connection)
        return since is not None and ts_ns >= since


def _connection(event: Event) -> int | None:
    """The connection of an event; of a message in a tunnel, that of the link."""
    if isinstance(event, MessageRow) and event.tunnel_link is not None:
        return event.tunnel_link
    return event.connection

"""Holds events back until those of a connection can be passed on in the order of their time.

Bytes behind a hole in a stream are delivered later than packets captured after them. Meanwhile all
events of that connection, and of the tunnels on it, wait. Tunnels move from link to link, so all
links wait together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wirelake.records.protocol_rules import rules_of
from wirelake.records.rows import Closed, Event, MessageRow, in_order

__all__ = ["ReorderBuffer"]


class ReorderBuffer:
    """The events of connections that wait."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}
        """Connections that wait, and the time from which their events are held."""
        self._events: dict[int, list[Event]] = {}
        self._links: set[int] = set()

    def passed(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that can be passed on now, in order: new and released ones."""
        found: list[Event] = []
        every = in_order(events)
        self._wait_together(every)
        for event in every:
            connection = _connection(event)
            if connection is None or not self._holds(connection, event.ts_ns):
                found.append(event)
            else:
                self._events.setdefault(connection, []).append(event)
        for connection in self._events.keys() - self.waiting.keys():
            found += self._events.pop(connection)
        return in_order(found)

    def all(self) -> Iterator[Event]:
        """Yield all events that are still held."""
        for events in self._events.values():
            yield from events
        self._events.clear()

    def _wait_together(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, MessageRow) and rules_of(event.protocol).tunnels is not None:
                self._links.add(event.connection)
        since = [self.waiting[link] for link in self._links.intersection(self.waiting)]
        first = min(since, default=None)
        if first is not None:
            for link in self._links:
                self.waiting[link] = min(self.waiting.get(link, first), first)
        for event in events:
            if isinstance(event, Closed):
                self._links.discard(event.connection)

    def _holds(self, connection: int, ts_ns: int) -> bool:
        if connection in self._events:
            return True
        since = self.waiting.get(connection)
        return since is not None and ts_ns >= since


def _connection(event: Event) -> int | None:
    """Return the connection of an event; for a message in a tunnel, that of the link."""
    if isinstance(event, MessageRow) and event.tunnel_link is not None:
        return event.tunnel_link
    return event.connection

"""Writing one notification to many connections.

Live connections of a topic are grouped by the form they share. Publishes that are not stored are
collected during a turn of the loop; at its end they are encoded once per form, joined once, and
the same bytes are written to every connection of the group. So the cost per subscriber is one
`transport.write`, whatever was published in that turn.

Order: when another topic is published to in the same turn, the collected ones are written first.
Every connection therefore sees one order, that of the publishes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ..observe.counters import Counters
from .notifications import Notification
from .subscriptions import Receiver, Topic

__all__ = ["Fanout", "deliver"]

_log = logging.getLogger(__name__)


class Fanout:
    """The transient notifications of one topic that were published in this turn of the loop."""

    __slots__ = ("_at_turn_end", "_collected", "_counters", "_scheduled", "_topic")

    def __init__(
        self, counters: Counters, at_turn_end: Callable[[Callable[[], None]], None]
    ) -> None:
        self._counters = counters
        self._at_turn_end = at_turn_end
        self._topic: Topic | None = None
        self._collected: list[Notification] = []
        self._scheduled = False

    def add(self, topic: Topic, notification: Notification) -> None:
        """Write this to all live connections of a topic at the end of the turn."""
        if self._topic is not topic:
            if self._topic is not None:
                self.flush()
            self._topic = topic
        self._collected.append(notification)
        topic.published += 1
        if not self._scheduled:
            self._scheduled = True
            self._at_turn_end(self._end_of_turn)
        if topic.held:
            skipped = self._counters.skipped
            for client in topic.held:
                if client.receiver is not None:
                    skipped[client.receiver.protocol] += 1

    def _end_of_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write what was collected.

        Called before anything that must not overtake it: a newer stored notification, or a
        connection that becomes live (it must not get what was published before).
        """
        topic = self._topic
        if topic is None:
            return
        collected, self._collected, self._topic = self._collected, [], None
        delivered = self._counters.delivered
        topic.delivered += len(collected) * topic.online
        for form, group in tuple(topic.groups.items()):
            encode = form.encode
            frames = [encode(each) for each in collected]
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            connection, count = None, len(group)
            for connection in tuple(group):  # a slow one leaves the group while it is written to
                connection.write_at_once(data)
            if connection is not None:
                delivered[connection.protocol] += len(frames) * count
        for connection in tuple(topic.own):
            deliver(connection, collected, self._counters)


def deliver(
    connection: Receiver, notifications: Sequence[Notification], counters: Counters
) -> None:
    """Push in the connection's own encoding; one that raises is dropped and affects no other."""
    try:
        connection.deliver(notifications)
    except Exception:
        _log.exception("connection %d: could not deliver notifications", connection.id)
        connection.drop("internal")
    else:
        counters.delivered[connection.protocol] += len(notifications)

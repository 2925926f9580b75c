"""Who of a topic is online, and how one notification gets to many connections.

Connections that can take the same bytes are kept together, by form. What is published and not
stored is collected while the turn lasts; at its end it is encoded once for each form, joined once,
and the same bytes are written to every connection. When another topic is published to in the same
turn, what was collected goes out first, so the order is the same for everybody.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.connection import Connection
    from .clients import Client, Subscription
    from .notification import Form, Notification

__all__ = ["Fanout", "Topic", "deliver"]

_log = logging.getLogger(__name__)


class Topic:
    """A topic with subscribers, or with a log that is not empty."""

    __slots__ = (
        "delivered",
        "groups",
        "held",
        "name",
        "number",
        "numbers",
        "online",
        "own",
        "published",
        "stored",
        "subscribers",
    )

    def __init__(self, number: int, name: str, *, stored: bool = False):
        self.number = number
        self.name = name
        self.stored = stored
        """Whether the store knows the number."""
        self.published = 0
        """Notifications that somebody is to get, since the start."""
        self.delivered = 0
        """How often one of them was pushed."""
        self.numbers: array[int] = array("q")
        """Of what the log has for this topic, ascending."""
        self.subscribers: dict[Client, Subscription] = {}
        self.groups: dict[Form, dict[Connection, None]] = {}
        """Connections that are live, by their shared form."""
        self.own: dict[Connection, None] = {}
        """Connections that are live and need bytes of their own."""
        self.online = 0
        """Connections that are live, of both kinds."""
        self.held: dict[Client, None] = {}
        """Clients that are online, but have to get something older first or read too slowly."""

    @property
    def last(self) -> int:
        """The number of the last notification in its log; 0 without."""
        return self.numbers[-1] if self.numbers else 0

    def has(self, number: int) -> bool:
        """Whether this one is in its log."""
        at = bisect_left(self.numbers, number)
        return at < len(self.numbers) and self.numbers[at] == number

    def enter(self, connection: Connection) -> None:
        """The connection is live from now on."""
        form = connection.form
        if form is None:
            self.own[connection] = None
        else:
            self.groups.setdefault(form, {})[connection] = None
        self._count()

    def leave(self, connection: Connection) -> None:
        """The connection is live no more, whatever its form was."""
        self.own.pop(connection, None)
        for form, group in self.groups.items():
            if connection in group:
                del group[connection]
                if not group:
                    del self.groups[form]
                break
        self._count()

    def _count(self) -> None:
        self.online = len(self.own) + sum(map(len, self.groups.values()))

    def live(self) -> list[Connection]:
        """All connections that are live."""
        return [each for group in (self.own, *self.groups.values()) for each in group]


class Fanout:
    """What was published in this turn to one topic, and is not stored."""

    __slots__ = ("_hub", "_scheduled", "_topic", "_waiting")

    def __init__(self, hub: Hub):
        self._hub = hub
        self._topic: Topic | None = None
        self._waiting: list[Notification] = []
        self._scheduled = False

    def publish(self, topic: Topic, notification: Notification) -> None:
        """To everybody who is live, at the end of this turn."""
        if self._topic is not topic:
            if self._topic is not None:
                self.hand_over()
            self._topic = topic
        self._waiting.append(notification)
        topic.published += 1
        if not self._scheduled:
            self._scheduled = True
            self._hub.outbox.before(self._end_of_turn)
        if topic.held:
            skipped = self._hub.counts.skipped
            for client in topic.held:
                if client.receiver is not None:
                    skipped[client.receiver.protocol] += 1

    def _end_of_turn(self) -> None:
        self._scheduled = False
        self.hand_over()

    def hand_over(self) -> None:
        """Writes what was collected: before who is live changes, and before anything newer."""
        topic = self._topic
        if topic is None:
            return
        waiting, self._waiting, self._topic = self._waiting, [], None
        delivered = self._hub.counts.delivered
        topic.delivered += len(waiting) * topic.online
        for form, group in tuple(topic.groups.items()):
            encode = form.encode
            frames = [encode(each) for each in waiting]
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            connection, count = None, len(group)
            for connection in tuple(group):  # a slow one leaves it while it is written to
                connection.write_at_once(data)
            if connection is not None:
                delivered[connection.protocol] += len(frames) * count
        for connection in tuple(topic.own):
            deliver(self._hub, connection, waiting)


def deliver(hub: Hub, connection: Connection, notifications: Sequence[Notification]) -> None:
    """Lets a connection push in its own form; one that breaks is cut off, and hurts no other."""
    try:
        connection.deliver(notifications)
    except Exception:
        _log.exception("connection %d could not be given notifications", connection.id)
        connection.drop("internal")
    else:
        hub.counts.delivered[connection.protocol] += len(notifications)

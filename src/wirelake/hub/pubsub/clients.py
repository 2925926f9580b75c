"""Who a connection belongs to, and what topics it has."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .inboxes import Inbox

if TYPE_CHECKING:
    from ..net.connection import Connection
    from .fanout import Topic

__all__ = ["Client", "Subscription"]


class Subscription:
    """That a client has a topic."""

    __slots__ = ("ack", "start", "topic")

    def __init__(self, topic: Topic, start: int, ack: bool):
        self.topic = topic
        self.start = start
        """What was published up to this number is not part of it."""
        self.ack = ack
        """Whether the client acknowledges; else what is written counts as acknowledged."""


class Client:
    """Somebody who may have topics and get notifications, through one connection at a time."""

    __slots__ = (
        "behind",
        "changes",
        "durable",
        "id",
        "inbox",
        "live",
        "number",
        "owed",
        "position",
        "private",
        "receiver",
        "scheduled",
        "seen_ms",
        "subscriptions",
    )

    def __init__(self, id: str, number: int, inbox: Inbox):  # noqa: A002
        self.id = id
        self.number = number
        """The store's; 0 for one that is not stored."""
        self.durable = number > 0
        """False for a connection without an id: nothing of it is stored."""
        self.inbox = inbox
        self.subscriptions: dict[str, Subscription] = {}
        self.private: array[int] | None = None
        """Numbers of what the log has for this client alone, ascending."""
        self.receiver: Connection | None = None
        """The one connection that gets its notifications."""
        self.live = False
        """Whether the receiver gets what is published at once: nothing older waits to be pushed."""
        self.behind = False
        """Whether the receiver reads too slowly."""
        self.position = 0
        """While not live: up to where everything was pushed on this connection."""
        self.owed = 0
        """Pushed on this connection and not acknowledged."""
        self.scheduled = False
        """Whether the next page will be pushed in another turn of the loop."""
        self.seen_ms = 0
        """When a publisher last found it in the store."""
        self.changes: deque[Callable[[], None]] | None = None
        """Changes of subscriptions that wait for the one under way."""

    @property
    def acks(self) -> bool:
        """Whether it acknowledges what is sent to it alone: when it does so for a topic."""
        return any(each.ack for each in self.subscriptions.values())

    def keep(self, number: int) -> None:
        """The log has this for the client alone."""
        if self.private is None:
            self.private = array("q")
        self.private.append(number)

    def waiting(self) -> int:
        """How many notifications it has not acknowledged."""
        inbox = self.inbox
        count = len(inbox.holes)
        for each in self.subscriptions.values():
            if each.topic.last > inbox.cursor:
                count += inbox.not_handed(each.topic.numbers, each.start)
        if self.private:
            count += inbox.not_handed(self.private)
        return count

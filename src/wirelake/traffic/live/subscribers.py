"""Subscribers: which notifications are still to come, so that no client leaves too early."""

from __future__ import annotations

from typing import Protocol

from .journal import Journal, Publication

__all__ = ["Present", "Subscriber", "Topics"]


class Present(Protocol):
    """A subscriber that is connected."""

    @property
    def idle(self) -> bool:
        """Whether everything expected has arrived, and nothing is in flight."""

    def reset(self) -> None:
        """Forget notifications that arrived before their publisher knew."""


class Subscriber:
    """A client that subscribes to topics."""

    def __init__(self) -> None:
        self.acks = False
        """Whether it acknowledges every notification at once."""
        self.missing: set[str] = set()
        """Notifications that must arrive."""
        self._early: set[str] = set()

    def expect(self, notification: str) -> None:
        """Expect a notification that was published; it may have arrived already."""
        if notification in self._early:
            self._early.discard(notification)
        else:
            self.missing.add(notification)

    def delivered(self, notification: str) -> None:
        """Note a notification that arrived; its publisher may not know of it yet."""
        if notification in self.missing:
            self.missing.discard(notification)
        else:
            self._early.add(notification)

    def reset(self) -> None:
        """Forget notifications that arrived early: nothing is being published."""
        self._early.clear()


class Topics:
    """The subscribers of each topic."""

    def __init__(self, journal: Journal, names: list[str]):
        self.names = names
        self._journal = journal
        self._subscribers: dict[str, dict[Subscriber, None]] = {name: {} for name in names}

    def enter(self, name: str, subscriber: Subscriber) -> None:
        """Add a connected subscriber."""
        self._subscribers[name][subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a subscriber from all topics."""
        for each in self._subscribers.values():
            each.pop(subscriber, None)

    def published(self, topic: str, notification: str, asked_ns: int, audience: int) -> None:
        """Note a publication: every present subscriber must receive it."""
        self._journal.publications[notification] = Publication(topic, None, asked_ns, audience)
        for each in self._subscribers[topic]:
            each.expect(notification)

    def published_to(
        self,
        recipient: tuple[str, str],
        subscriber: Subscriber | None,
        notification: str,
        asked_ns: int,
        audience: int,
    ) -> None:
        """Note a publication for one client, who may be absent."""
        self._journal.publications[notification] = Publication(None, recipient, asked_ns, audience)
        if subscriber is not None:
            subscriber.expect(notification)

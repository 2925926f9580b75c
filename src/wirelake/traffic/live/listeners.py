"""Those who subscribe: what is still to come to them is known, so that nobody leaves too early."""

from __future__ import annotations

from .journal import Ledger, Publication

__all__ = ["Listener", "Topics"]


class Listener:
    """Somebody who subscribes to topics."""

    def __init__(self) -> None:
        self.acks = False
        """Whether it has agreed to acknowledge everything at once."""
        self.missing: set[str] = set()
        """Notifications that are sure to come."""
        self._early: set[str] = set()

    def expect(self, notification: str) -> None:
        """Its publisher knows that this one was published; it may have come already."""
        if notification in self._early:
            self._early.discard(notification)
        else:
            self.missing.add(notification)

    def saw(self, notification: str) -> None:
        """A notification was pushed; its publisher may not know yet."""
        if notification in self.missing:
            self.missing.discard(notification)
        else:
            self._early.add(notification)

    def settle(self) -> None:
        """Nothing is being published: what came early was expected by nobody, or long ago."""
        self._early.clear()


class Topics:
    """Who subscribes to what."""

    def __init__(self, ledger: Ledger, names: list[str]):
        self.names = names
        self._ledger = ledger
        self._listeners: dict[str, dict[Listener, None]] = {name: {} for name in names}

    def enter(self, name: str, listener: Listener) -> None:
        """Somebody who is there subscribes, or somebody who subscribes is there again."""
        self._listeners[name][listener] = None

    def leave(self, listener: Listener) -> None:
        """Somebody is not there for a while, or for ever."""
        for each in self._listeners.values():
            each.pop(listener, None)

    def published(self, topic: str, notification: str, asked_ns: int, audience: int) -> None:
        """Something was published: everybody who is there will get it."""
        self._ledger.publications[notification] = Publication(topic, None, asked_ns, audience)
        for each in self._listeners[topic]:
            each.expect(notification)

    def published_to(
        self,
        client: str,
        listener: Listener | None,
        notification: str,
        asked_ns: int,
        audience: int,
    ) -> None:
        """The same, to one client, who is there or is not."""
        self._ledger.publications[notification] = Publication(None, client, asked_ns, audience)
        if listener is not None:
            listener.expect(notification)

"""The clients of one protocol in a live run, and the registry of all protocols.

A `ClientPopulation` says how many clients of its protocol there are and what they do. A run opens
all populations, starts their background tasks, and then alternates between publishing and turns
(`run.py`). The populations of a built-in protocol are in the module of `protocols/` that has the
name of the protocol's own package, as `POPULATIONS`.
"""

from __future__ import annotations

import importlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from wirelake.protocols import registry

from .connection import ClientConnection, RunContext
from .journal import Journal, Publication

__all__ = [
    "ClientNames",
    "ClientPopulation",
    "ConnectedSubscriber",
    "MalformedFrame",
    "Publish",
    "Recipient",
    "Subscriber",
    "Topics",
    "populations",
    "scaled",
]


# -- subscribers -------------------------------------------------------------------------------
#
# They know which notifications are still to come. A client that left with one in flight could not
# tell whether the hub had sent it, and the truth would have to say "sent, or not".


class ConnectedSubscriber(Protocol):
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
        # The push may overtake the response to the publish call: other connections, other order.
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

    def published(self, topic: str, notification: str, started_ns: int, audience: int) -> None:
        """Note a publication: every present subscriber must receive it."""
        self._journal.publications[notification] = Publication(topic, None, started_ns, audience)
        for each in self._subscribers[topic]:
            each.expect(notification)

    def published_to(
        self,
        recipient: tuple[str, str],
        subscriber: Subscriber | None,
        notification: str,
        started_ns: int,
        audience: int,
    ) -> None:
        """Note a publication for one client, who may be absent."""
        self._journal.publications[notification] = Publication(
            None, recipient, started_ns, audience
        )
        if subscriber is not None:
            subscriber.expect(notification)


# -- populations -------------------------------------------------------------------------------

Publish: TypeAlias = Callable[[str, str], Awaitable[tuple[str, int]]]
"""Publishes content to a topic; returns the id of the notification and its audience."""


@dataclass(frozen=True, slots=True)
class MalformedFrame:
    """Bytes that do not decode, and the error code of the decoder.

    The hub reports the error as its protocol allows, and closes the connection. A reader of the
    recording finds one fault with this code.
    """

    code: str
    """As in `docs/reference/errors.md`."""
    data: bytes


class Recipient(NamedTuple):
    """A client that notifications may be published for directly."""

    protocol: str
    client: str
    subscriber: Subscriber | None
    """None while it is not connected."""


class ClientNames:
    """Client ids of a run; they are new in each run."""

    def __init__(self) -> None:
        # Random: the store of the hub may have the clients of earlier runs, with other tokens.
        self._tag = secrets.token_hex(2)
        self.all: list[str] = []

    def make(self, what: str, count: int) -> list[str]:
        """Return new client ids."""
        made = [f"{what}-{self._tag}-{number:03d}" for number in range(count)]
        self.all += made
        return made


def scaled(count: float, scale: float, least: int = 1) -> int:
    """Return a number of clients at a scale; there is always at least one of each kind."""
    return max(least, round(count * scale))


class ClientPopulation(ABC):
    """All clients of one protocol."""

    listener: ClassVar[str]
    """The hub's listener that they connect to."""
    malformed: ClassVar[tuple[MalformedFrame, ...]] = ()
    """Frames that misbehaving clients send, one client each."""

    run: RunContext
    topics: Topics

    @abstractmethod
    def __init__(self, scale: float, names: ClientNames):
        """Name the clients."""

    async def open(self, run: RunContext, topics: Topics) -> None:
        """Connect the clients that stay for the whole run."""
        self.run, self.topics = run, topics

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return what runs in the background until the end of the run."""
        return ()

    def publishers(self) -> Sequence[Publish]:
        """Return the ways to publish."""
        return ()

    def recipients(self) -> Sequence[Recipient]:
        """Return the clients that may be published for directly."""
        return ()

    def subscribers(self) -> Sequence[ConnectedSubscriber]:
        """Return the subscribers that are connected."""
        return ()

    @abstractmethod
    async def turn(self) -> None:
        """Let clients connect, disconnect and change subscriptions; nothing is being published."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect all clients."""

    @abstractmethod
    async def connect_malformed(self, client: str) -> ClientConnection:
        """Connect a client that behaves as others do, and is about to send a malformed frame."""


def populations() -> list[type[ClientPopulation]]:
    """Return the populations of all built-in protocols."""
    packages = [registry.find(name).frame.__module__.split(".")[-2] for name in registry.BUILT_IN]
    modules = [
        importlib.import_module(f"{__package__}.protocols.{name}")
        for name in dict.fromkeys(packages)
    ]
    return [each for module in modules for each in module.POPULATIONS]

"""The clients of one protocol in a live run, and the registry of all protocols.

A `ClientPopulation` says how many clients of its protocol there are and what they do. A run opens
all populations, starts their background tasks, and then alternates between publishing and turns
(`rounds.py`). The populations of a built-in protocol are in the module of `protocols/` that has the
name of the protocol's own package, as `POPULATIONS`.
"""

from __future__ import annotations

import importlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from wirelake.protocols import registry

from .connection import ClientConnection
from .context import RunContext
from .subscribers import Present, Subscriber, Topics

__all__ = [
    "ClientNames",
    "ClientPopulation",
    "MalformedFrame",
    "Publish",
    "Recipient",
    "populations",
    "scaled",
]

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

    def subscribers(self) -> Sequence[Present]:
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

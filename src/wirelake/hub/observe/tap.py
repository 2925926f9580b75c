"""The tap: reports what crosses the hub to observers (recorder, live tables, `/v1/tail`).

The hub reports connections, frames, sign-ons and publishes to its tap; the tap stamps each with a
time and passes it on. Without an observer the tap is not `active`, and a frame costs one attribute
test. Times are strictly ascending, whatever the clock does, so that a recording has one order.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from wirelake.protocols.sansio import Side

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

__all__ = ["ObservedConnection", "Observer", "Tap"]

_TICK_S: Final = 0.5
"""Interval of `Observer.tick`: how long recorded frames may stay in a buffer, and how late a call
without an answer appears in the live tables."""
_AnyObserver = TypeVar("_AnyObserver")


class ObservedConnection(Protocol):
    """What observers need of a connection."""

    protocol: ClassVar[str]
    direction_in: ClassVar[Direction]
    """Direction of received bytes; `s2c` on a link that the hub itself dialled."""
    id: int
    peer: tuple[str, int]
    transport: Any
    """None for a tunnel: its bytes cross the link that carries it."""
    listener: Any
    close_reason: str
    close_side: Side

    @property
    def dialect(self) -> str:
        """The configured dialect, perhaps `auto`; empty when the protocol has none."""

    def key_log(self) -> dict[str, Any] | None:
        """Return the keys; None when they are not known yet, empty when there are none."""


class Observer(Protocol):
    """Receives what crosses the hub. Its methods must not raise."""

    def opened(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Handle an accepted connection."""

    def crossed(
        self, connection: ObservedConnection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Handle complete frames that were received or are being sent."""

    def keys(self, connection: ObservedConnection, line: str) -> None:
        """Handle the keys of a connection, as a line of a key log
        (`wirelake.capture.decode.decryption`)."""

    def signed_on(self, connection: ObservedConnection, client: str, ts_ns: int) -> None:
        """Handle a sign-on."""

    def published(self, fact: dict[str, object], ts_ns: int) -> None:
        """Handle a publication, given the data of the fact `publish`."""

    def closed(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Handle the end of a connection."""

    def tick(self, ts_ns: int) -> None:
        """Handle the passing of time."""

    def stop(self) -> None:
        """Finish: nothing more will be reported."""


class Tap:
    """Reports what crosses the hub to observers."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connections: Mapping[int, ObservedConnection]
    ):
        self._loop = loop
        self._connections = connections
        self._observers: list[Any] = []
        self._last_ns = 0
        self._without_keys: dict[int, ObservedConnection] = {}
        """Connections whose keys are not known yet."""
        self._timer: asyncio.TimerHandle | None = None
        self.active = False
        """Whether there is an observer; callers test it before they report anything."""

    def find(self, kind: type[_AnyObserver]) -> _AnyObserver | None:
        """Return the observer of this class, if there is one."""
        return next((each for each in self._observers if isinstance(each, kind)), None)

    def add(self, observer: Observer) -> None:
        """Add an observer. Keys of connections that are already open are reported again."""
        # All open connections again: the new observer has seen none of their keys.
        self._observers.append(observer)
        self.active = True
        self._without_keys = dict(self._connections)
        if self._timer is None:
            self._timer = self._loop.call_later(_TICK_S, self._tick)

    def remove(self, observer: Observer) -> None:
        """Stop and remove an observer."""
        self._observers.remove(observer)
        observer.stop()
        if not self._observers:
            self.stop()

    def stop(self) -> None:
        """Stop and remove all observers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in self._observers:
            each.stop()
        self._observers = []
        self._without_keys = {}
        self.active = False

    # -- reports -----------------------------------------------------------------------------

    def opened(self, connection: ObservedConnection) -> None:
        """Report an accepted connection."""
        now = self._now()
        for each in self._observers:
            each.opened(connection, now)
        self._without_keys[connection.id] = connection

    def crossed(self, connection: ObservedConnection, direction: Direction, frames: bytes) -> None:
        """Report whole frames that were received or are being sent."""
        # Keys before the frames that they decrypt: a recording is read in order. They are asked for
        # with each frame until they are known, because sessions agree on them at different points.
        if connection.id in self._without_keys:
            self._look_for_keys(connection)
        now = self._now()
        for each in self._observers:
            each.crossed(connection, direction, frames, now)

    def signed_on(self, connection: ObservedConnection, client: str) -> None:
        """Report a sign-on."""
        now = self._now()
        for each in self._observers:
            each.signed_on(connection, client, now)

    def published(
        self,
        id: str,  # noqa: A002
        topic: str | None,
        audience: int,
        client: str | None = None,
        protocol: str | None = None,
    ) -> None:
        """Report a publish to a topic or to one client, and the protocol of that client."""
        fact: dict[str, object] = {"id": id, "audience": audience}
        if topic is not None:
            fact["topic"] = topic
        if client is not None:
            fact["client"] = client
        if protocol is not None:
            fact["protocol"] = protocol
        now = self._now()
        for each in self._observers:
            each.published(fact, now)

    def closed(self, connection: ObservedConnection) -> None:
        """Report a closed connection."""
        self._without_keys.pop(connection.id, None)
        now = self._now()
        for each in self._observers:
            each.closed(connection, now)

    # -- keys and time -----------------------------------------------------------------------

    def _look_for_keys(self, connection: ObservedConnection) -> None:
        line = keys_of(connection)
        if line is None:
            return
        del self._without_keys[connection.id]
        if line:
            for each in self._observers:
                each.keys(connection, line)

    def _now(self) -> int:
        # Strictly ascending: readers order the events of all connections by time alone, and the
        # clock has a resolution, and steps back when it is adjusted.
        now = time.time_ns()
        if now <= self._last_ns:
            now = self._last_ns + 1
        self._last_ns = now
        return now

    def _tick(self) -> None:
        self._timer = self._loop.call_later(_TICK_S, self._tick)
        now = self._now()
        for each in self._observers:
            each.tick(now)


def keys_of(connection: ObservedConnection) -> str | None:
    """Return the key log line of a connection; empty when it has no keys, None when they are not
    known yet."""
    keys = connection.key_log()
    if not keys:
        return None if keys is None else ""
    return json.dumps({**keys, "connection": connection.id})

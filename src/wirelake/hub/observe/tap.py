"""Who sees what crosses the hub: the recorder, the live tables, and readers of `/v1/tail`.

The hub tells its tap about connections, frames, signing on and publishing; the tap gives each of
these a time and tells its observers. While there is no observer there is no tap, and a frame costs
one comparison. Times never go back and no two are the same, whatever the clock does, so that what
is recorded has one order.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..hub import Hub
    from ..net.connection import Connection
    from ..pubsub.notification import Notification

__all__ = ["Observer", "Tap", "make_tap", "on_demand"]

_TICK_S: Final = 0.5
"""How often observers hear that time has passed."""


class Observer(Protocol):
    """Somebody who sees what crosses the hub. Nothing that it does may raise."""

    def opened(self, connection: Connection, ts_ns: int) -> None:
        """A connection was let in."""

    def crossed(
        self, connection: Connection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Whole frames came in or go out."""

    def keys(self, connection: Connection, line: str) -> None:
        """The connection has keys: a line of a key log (`wirelake.capture.decode.keys`)."""

    def signed_on(self, connection: Connection, client: str, ts_ns: int) -> None:
        """The connection belongs to a client now."""

    def published(
        self, notification: Notification, audience: int, client: str | None, ts_ns: int
    ) -> None:
        """Something was published: to a topic, or to one client."""

    def closed(self, connection: Connection, ts_ns: int) -> None:
        """A connection is over."""

    def tick(self, ts_ns: int) -> None:
        """Time has passed."""

    def stop(self) -> None:
        """Nothing more will come."""


class Tap:
    """Tells observers what crosses the hub."""

    def __init__(self, hub: Hub):
        self._hub = hub
        self._observers: list[Any] = []
        self._last_ns = 0
        self._keyless: dict[int, Connection] = {}
        """Connections whose keys are not known yet."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def observers(self) -> tuple[Any, ...]:
        """Everybody who is told."""
        return tuple(self._observers)

    def add(self, observer: Observer) -> None:
        """Tells somebody, too, from now on."""
        self._observers.append(observer)
        if self._timer is None:
            self._timer = self._hub.loop.call_later(_TICK_S, self._tick)

    def remove(self, observer: Observer) -> None:
        """Tells somebody no more. The hub has no tap when nobody is left."""
        self._observers.remove(observer)
        observer.stop()
        if not self._observers:
            self.stop()
            self._hub.tap = None

    # -- what the hub tells ------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A connection was let in."""
        now = self._now()
        for each in self._observers:
            each.opened(connection, now)
        self._keyless[connection.id] = connection

    def crossed(self, connection: Connection, direction: Direction, frames: bytes) -> None:
        """Whole frames came in or go out."""
        if connection.id in self._keyless:
            self._look_for_keys(connection)
        now = self._now()
        for each in self._observers:
            each.crossed(connection, direction, frames, now)

    def signed_on(self, connection: Connection) -> None:
        """A connection belongs to somebody now."""
        client = connection.client
        if client is None or not client.durable:
            return
        now = self._now()
        for each in self._observers:
            each.signed_on(connection, client.id, now)

    def published(self, notification: Notification, audience: int, client: str | None) -> None:
        """Something was published: to a topic, or to one client. Deliveries are followed in comet
        alone, so a client that is here by another protocol is not named."""
        known = None if client is None else self._hub.topics.registry.clients.get(client)
        receiver = None if known is None else known.receiver
        if receiver is not None and not receiver.acks_all:
            client = None
        now = self._now()
        for each in self._observers:
            each.published(notification, audience, client, now)

    def closed(self, connection: Connection) -> None:
        """A connection is over."""
        self._keyless.pop(connection.id, None)
        now = self._now()
        for each in self._observers:
            each.closed(connection, now)

    def stop(self) -> None:
        """Nothing more will come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in self._observers:
            each.stop()
        self._observers = []

    # -- keys and time -----------------------------------------------------------------------

    def look_again(self) -> None:
        """Somebody new listens: what is open is looked at for keys once more."""
        self._keyless = dict(self._hub.connections)

    def _look_for_keys(self, connection: Connection) -> None:
        line = keys_of(connection)
        if line is None:
            return
        del self._keyless[connection.id]
        if line:
            for each in self._observers:
                each.keys(connection, line)

    def _now(self) -> int:
        now = time.time_ns()
        if now <= self._last_ns:
            now = self._last_ns + 1
        self._last_ns = now
        return now

    def _tick(self) -> None:
        self._timer = self._hub.loop.call_later(_TICK_S, self._tick)
        now = self._now()
        for each in self._observers:
            each.tick(now)


def keys_of(connection: Connection) -> str | None:
    """The line of a key log for a connection; empty when it will have none, None when it has none
    yet."""
    keys = connection.key_log()
    if not keys:
        return None if keys is None else ""
    return json.dumps({**keys, "connection": connection.id})


def make_tap(hub: Hub) -> Tap | None:
    """The tap that the configuration asks for; None when nothing is recorded."""
    settings = hub.config.record
    if not settings.folder and not settings.tables:
        return None
    tap = Tap(hub)
    if settings.folder:
        from .recording import Recording

        tap.add(Recording(settings))
    if settings.tables:
        from .live_decoder import LiveTables, Watching

        tap.add(Watching(hub, LiveTables()))
    return tap


def on_demand(hub: Hub) -> Tap:
    """The hub's tap, made if there is none."""
    if hub.tap is None:
        hub.tap = Tap(hub)
    return hub.tap

"""Publications in the order of their numbers, from being asked for to being spread.

What is stored waits for its commit. What is not stored waits for nothing but those before it: were
it pushed first, a client would get a newer number before an older one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..errors import HubError
from .clients import Client
from .delivery import Delivery
from .fanout import (
    Fanout,
    Topic,
    deliver,
)
from .notification import Notification
from .publication import Published

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["Line", "Standing"]

_log = logging.getLogger(__name__)

_MOST: Final = 65_536
_MOST_BYTES: Final = 64 << 20
"""What may wait for the disk before publishers are asked to come later."""


class Standing:
    """A publication in the line."""

    __slots__ = ("audience", "client", "done", "error", "notification", "topic", "waits")

    def __init__(
        self,
        notification: Notification,
        topic: Topic | None,
        client: Client | None,
        audience: int,
        done: Callable[[Published | HubError], None] | None = None,
    ):
        self.notification = notification
        self.topic = topic
        self.client = client
        self.audience = audience
        self.done = done
        self.waits = False
        """Whether it is on its way to the disk."""
        self.error: HubError | None = None


class Line:
    """Who is next."""

    def __init__(self, hub: Hub, delivery: Delivery, fanout: Fanout):
        self._hub = hub
        self._delivery = delivery
        self._fanout = fanout
        self._line: deque[Standing] = deque()
        self._bytes = 0

    def check_room(self, size: int) -> None:
        """Raises HubError when too much waits for the disk."""
        if len(self._line) >= _MOST or self._bytes + size > _MOST_BYTES:
            raise HubError("too_busy", "too much waits to be stored; try again later")

    def add(self, standing: Standing) -> None:
        """One that is being stored; `written` tells when it is."""
        standing.waits = True
        self._bytes += len(standing.notification.content)
        self._line.append(standing)

    def now(self, standing: Standing) -> None:
        """One that is not stored: it goes out at once, or behind those that are on their way."""
        if self._line:
            self._line.append(standing)
        else:
            self._spread_now(standing)

    def to_topic(self, topic: Topic, notification: Notification, audience: int) -> None:
        """As `now`, for a topic."""
        if self._line:
            self._line.append(Standing(notification, topic, None, audience))
        else:
            self._fanout.publish(topic, notification)

    def written(self, standings: list[Standing], error: HubError | None) -> None:
        """These are on disk, or are not."""
        for each in standings:
            each.waits = False
            each.error = error
            self._bytes -= len(each.notification.content)
        line = self._line
        try:
            while line and not line[0].waits:
                self._next(line.popleft())
        finally:
            self._delivery.send_out()

    def finish(self, standing: Standing) -> None:
        """Tells the publisher."""
        done, error = standing.done, standing.error
        counts = self._hub.counts
        if error is not None:
            counts.refused_publishes += 1
        else:
            counts.published += 1
            counts.stored += bool(standing.audience)
            if self._hub.tap is not None:
                client = standing.client
                name = None if client is None else client.id
                self._hub.tap.published(standing.notification, standing.audience, name)
        if done is None:
            return
        try:
            done(error or Published(standing.notification.id, standing.audience))
        except Exception:
            _log.exception("a publisher could not be told")

    def _next(self, standing: Standing) -> None:
        notification, topic, client = standing.notification, standing.topic, standing.client
        if not notification.expires_ms:
            self._delivery.send_out()
            self._spread_now(standing)
            return
        self.finish(standing)
        if standing.error is None:
            if client is not None:
                client.keep(notification.number)
                self._delivery.spread_private(client, notification)
            elif topic is not None:
                topic.stored = True
                topic.numbers.append(notification.number)
                topic.published += 1
                self._delivery.spread(topic, notification)
        self._delivery.reached = max(self._delivery.reached, notification.number)

    def _spread_now(self, standing: Standing) -> None:
        notification, client = standing.notification, standing.client
        if standing.topic is not None:
            self._fanout.publish(standing.topic, notification)
        elif client is not None and client.receiver is not None and client.live:
            self._fanout.hand_over()
            connection = client.receiver
            if connection.form is None:
                deliver(self._hub, connection, [notification])
            else:
                connection.write(connection.form.encode(notification))
                self._hub.counts.delivered[connection.protocol] += 1

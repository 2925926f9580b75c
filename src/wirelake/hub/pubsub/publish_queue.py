"""The publish queue: publications in the order of their numbers, from request to delivery.

A stored publication waits here for its group commit. One that is not stored waits only for those
before it: pushed earlier, it would give a client a higher number before a lower one, and inboxes
(`inbox.py`) rely on one ascending order per client. With nothing waiting, it is pushed at once.

Commits finish in the order they were requested, so one deque is enough: `written` marks a batch
and releases everything from the front that is no longer waiting. A publisher is told before the
notification is pushed: an answer never waits for slow subscribers.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from ..errors import HubError
from ..observe.counters import Counters
from ..observe.tap import Tap
from .delivery import Delivery
from .fanout import Fanout, deliver
from .notifications import Notification, Published
from .subscriptions import Client, Topic

__all__ = ["PublishDone", "PublishQueue", "QueuedPublication"]

_log = logging.getLogger(__name__)

PublishDone: TypeAlias = Callable[[Published | HubError], None]
"""Called once, on the loop, with the result of a publish."""

_MAX_COUNT: Final = 65_536
_MAX_BYTES: Final = 64 << 20
"""What may wait for the disk before publishers get `too_busy`."""


class QueuedPublication:
    """A publication in the queue."""

    __slots__ = ("audience", "client", "done", "error", "notification", "topic", "waiting")

    def __init__(
        self,
        notification: Notification,
        topic: Topic | None,
        client: Client | None,
        audience: int,
        done: PublishDone | None = None,
    ):
        self.notification = notification
        self.topic = topic
        self.client = client
        self.audience = audience
        self.done = done
        self.waiting = False
        """Whether it waits for its commit."""
        self.error: HubError | None = None


class PublishQueue:
    """Publications that are not pushed yet, oldest first."""

    def __init__(self, delivery: Delivery, fanout: Fanout, counters: Counters, tap: Tap):
        self._delivery = delivery
        self._fanout = fanout
        self._counters = counters
        self._tap = tap
        self._queue: deque[QueuedPublication] = deque()
        self._bytes = 0

    def check_room(self, size: int) -> None:
        """Raise HubError when too much waits for the disk."""
        if len(self._queue) >= _MAX_COUNT or self._bytes + size > _MAX_BYTES:
            raise HubError("too_busy", "the publish queue is full; try again later")

    def add_stored(self, queued: QueuedPublication) -> None:
        """Add a publication that is being stored; `written` releases it."""
        queued.waiting = True
        self._bytes += len(queued.notification.content)
        self._queue.append(queued)

    def add_transient(
        self,
        notification: Notification,
        topic: Topic | None,
        client: Client | None,
        audience: int,
    ) -> None:
        """Push a publication that is not stored, at once or behind those that are queued."""
        if self._queue:
            self._queue.append(QueuedPublication(notification, topic, client, audience))
        elif topic is not None:
            self._fanout.add(topic, notification)
        elif client is not None:
            self._push_transient(client, notification)

    def written(self, batch: list[QueuedPublication], error: HubError | None) -> None:
        """Release a batch that is on disk, or could not be written."""
        for each in batch:
            each.waiting = False
            each.error = error
            self._bytes -= len(each.notification.content)
        queue = self._queue
        try:
            while queue and not queue[0].waiting:
                self._release(queue.popleft())
        finally:
            self._delivery.flush()

    def finish(self, queued: QueuedPublication) -> None:
        """Count the publication, show it to the tap and call its publisher back."""
        done, error = queued.done, queued.error
        counters = self._counters
        if error is not None:
            counters.refused_publishes += 1
        else:
            counters.published += 1
            counters.stored += bool(queued.audience)
            if self._tap.active:
                self._tap.published(
                    queued.notification.id,
                    queued.notification.topic,
                    queued.audience,
                    recorded_client(queued.client),
                )
        if done is None:
            return
        try:
            done(error or Published(queued.notification.id, queued.audience))
        except Exception:
            _log.exception("the callback of a publish raised")

    def _release(self, queued: QueuedPublication) -> None:
        notification, topic, client = queued.notification, queued.topic, queued.client
        if not notification.expires_ms:  # not stored
            self._delivery.flush()
            if topic is not None:
                self._fanout.add(topic, notification)
            elif client is not None:
                self._push_transient(client, notification)
            return
        self.finish(queued)
        if queued.error is None:
            if client is not None:
                client.add_private(notification.number)
                self._delivery.push_to_client(client, notification)
            elif topic is not None:
                topic.stored = True
                topic.numbers.append(notification.number)
                topic.published += 1
                self._delivery.push_to_topic(topic, notification)
        self._delivery.reached = max(self._delivery.reached, notification.number)

    def _push_transient(self, client: Client, notification: Notification) -> None:
        connection = client.receiver
        if connection is None or not client.live:
            return
        self._fanout.flush()
        if connection.form is None:
            deliver(connection, [notification], self._counters)
        else:
            connection.write(connection.form.encode(notification))
            self._counters.delivered[connection.protocol] += 1


def recorded_client(client: Client | None) -> str | None:
    """Return the client that a recorded publish names.

    Deliveries to one client are matched only where the protocol acknowledges every notification;
    a client that is online over another protocol is not named.
    """
    if client is None:
        return None
    receiver = client.receiver
    if client.durable and receiver is not None and not receiver.acks_all:
        return None
    return client.id

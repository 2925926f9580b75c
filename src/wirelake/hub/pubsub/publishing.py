"""Publishing: a request gets a number, a row of the log, and a place in the publish queue.

`Publisher` has two entry points:

    publish             any request; a stored one is confirmed after its group commit
    publish_transient   to a topic and not stored: the fast path of listeners, confirmed at once

Both end in the `PublishQueue`, which delivers in the order of numbers whatever the order of
commits, so that clients get notifications in order across all topics (`docs/concepts/hub.md`,
Guarantees of a publish).
"""

from __future__ import annotations

import bisect
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from time import perf_counter_ns
from typing import Final

from wirelake.protocols.hub_calls import ANONYMOUS, PUBLISH

from ..config import ActiveLimits
from ..errors import HubError
from ..observe.counters import Counters
from ..observe.tap import Tap
from ..store import DeadRow, KeyRow, LogRow, Store
from .delivery import Delivery, Fanout, deliver
from .keys import Keys, PublishDone
from .notifications import (
    Ids,
    Notification,
    Numbers,
    Publication,
    Published,
    check_publication,
    id_of,
    number_of,
)
from .quota import Quota
from .subscriptions import Client, Receiver, Registry, Topic

__all__ = [
    "PublishQueue",
    "Publisher",
    "QueuedPublication",
]

_log = logging.getLogger(__name__)

_MAX_QUEUED: Final = 65_536
_MAX_QUEUED_BYTES: Final = 64 << 20
"""What may wait for the disk before publishers get `too_busy`: about a second of publishes (48,000
to 69,000 per second are durable, benchmarks/results/hub.json), so a disk that stalls longer is
reported instead of filling the memory."""

_CLIENT_CHECK_MS: Final = 1_000
"""How long a client that was found in the store is not looked up again. Another process may remove
it (`wirelake client remove`); a query per publish would only find that out a second sooner."""


class Publisher:
    """Accepts publications."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        queue: PublishQueue,
        limits: ActiveLimits,
        counters: Counters,
        tap: Tap,
        connections: Mapping[int, Receiver],
        now_ms: Callable[[], int],
        server: int,
    ):
        self._store = store
        self._registry = registry
        self._queue = queue
        self._limits = limits
        self._counters = counters
        self._latency = counters.hub_calls[PUBLISH.name]
        self._tap = tap
        self._connections = connections
        self._now_ms = now_ms
        self._server = server
        self._ids = Ids(server)
        self.numbers = Numbers()
        self.closed = False
        """Whether the hub shuts down: nothing more is published or subscribed, by any protocol."""
        self.keys = Keys(store, limits, now_ms, server)
        """The idempotency keys."""

    def publish(self, publication: Publication, done: PublishDone) -> None:
        """Publish; `done` is called when it is on disk, or at once when it is not stored."""
        try:
            topic, client, ttl_s = self._resolve(publication)
            if publication.key and not self.keys.is_new(publication, done):
                return
            if ttl_s == 0 or (client is not None and not client.durable):
                name, content, kind = publication.topic, publication.content, publication.type
                published = self._queue_transient(name, topic, client, content, kind)
                if publication.key:
                    self._add_key(publication, published, done)
                else:
                    done(published)
            else:
                self._queue_stored(publication, topic, client, ttl_s, done)
        except HubError as error:
            self._counters.refused_publishes += 1
            done(error)

    def publish_transient(self, name: str, content: bytes, type: int = 0) -> Published:  # noqa: A002
        """Publish to a topic without storing it; raises HubError.

        For busy publishers: no Publication, no callback and, for a known topic, no check but the
        size. Fan-out at depth 64 depends on it (benchmarks/results/hub.json, fanout).
        """
        begun_ns = perf_counter_ns()
        try:
            topic = self._registry.topics.get(name)
            if self.closed or topic is None or len(content) > self._limits.max_content_bytes:
                topic, _, _ = self._resolve(Publication(name, None, content, type, ttl_s=0))
            published = self._queue_transient(name, topic, None, content, type)
        except HubError:
            self._counters.refused_publishes += 1
            self._latency.record_failure(begun_ns)
            raise
        self._latency.record(begun_ns)
        return published

    def _resolve(self, publication: Publication) -> tuple[Topic | None, Client | None, float]:
        """Check a request; return its topic, if known, its client, and its time to live."""
        if self.closed:
            raise HubError("closing")
        limits, name = self._limits.current, publication.topic
        topic = None if name is None else self._registry.topics.get(name)
        check_publication(publication, self._limits, known_topic=topic is not None)
        client = None if publication.client is None else self._find_client(publication.client)
        return topic, client, limits.ttl_s if publication.ttl_s is None else publication.ttl_s

    def _find_client(self, name: str) -> Client:
        now_ms = self._now_ms()
        client = self._registry.clients.get(name)
        if client is not None and 0 <= now_ms - client.checked_ms < _CLIENT_CHECK_MS:
            return client  # 0 <=: the clock may have been set back
        row = self._store.client(name)
        if row is None:
            return self._find_anonymous(name)
        client = self._registry.client_of(row)
        client.checked_ms = now_ms
        return client

    def _find_anonymous(self, name: str) -> Client:
        """Return the client of a connection without an id: `~` and the connection's id."""
        # Ids are limited before `int`: the name comes from a peer, and int() is quadratic.
        number = name.removeprefix(ANONYMOUS)
        if number != name and number.isascii() and number.isdecimal() and len(number) < 20:
            connection = self._connections.get(int(number))
            if connection is not None and connection.client is not None:
                client: Client = connection.client
                if client.id == name:
                    return client
        raise HubError("not_found", f"unknown client {name[:40]!r}")

    # -- not stored --------------------------------------------------------------------------

    def _queue_transient(
        self,
        name: str | None,
        topic: Topic | None,
        client: Client | None,
        content: bytes,
        kind: int,
    ) -> Published:
        now_ms = self._now_ms()
        number = self.numbers.next(now_ms)
        id_text = self._ids.text(number, private=name is None)
        audience = 0
        if topic is not None:
            audience = topic.online
        elif client is not None:
            audience = int(client.live)
        self._counters.published += 1
        if self._tap.active:
            report(self._tap, id_text, name, audience, client)
        # Held clients count as well: the queue counts what they miss.
        if audience or (topic is not None and topic.held):
            notification = Notification(number, id_text, name, content, kind, now_ms, 0)
            self._queue.add_transient(notification, topic, client, audience)
        return Published(id_text, audience)

    # -- stored ------------------------------------------------------------------------------

    def _queue_stored(
        self,
        publication: Publication,
        topic: Topic | None,
        client: Client | None,
        ttl_s: float,
        done: PublishDone,
    ) -> None:
        self._queue.check_room(len(publication.content))
        now_ms, name = self._now_ms(), publication.topic
        number = self.numbers.next(now_ms)
        notification = Notification(
            number,
            self._ids.text(number, private=name is None),
            name,
            publication.content,
            publication.type,
            now_ms,
            now_ms + max(1, int(ttl_s * 1000)),
        )
        # The audience of a stored publish is its subscribers, online or not.
        audience = 1 if client is not None else len(topic.subscribers) if topic is not None else 0
        key_row: KeyRow | None = None
        if publication.key:
            key_row, done = self.keys.add(publication, number, audience, done)
        # Nobody can ever ask for it: a subscription starts at the last number. Only the key has to
        # be on disk, so that the same publish again has no audience either.
        if not audience:
            self._finish_without_audience(
                QueuedPublication(notification, None, None, 0, done), key_row
            )
            return
        # The store has a topic from its first notification or durable subscription on.
        if topic is not None and not topic.stored:
            self._store.add_topic(topic.number, topic.name)
        target = -client.number if client is not None else topic.number if topic is not None else 0
        queued = QueuedPublication(notification, topic, client, audience, done)
        # Key and row are in one transaction: after a crash there are both or none.
        self._queue.add_stored(queued)
        self._store.append(_log_row(notification, target, None), queued, key_row)

    def _finish_without_audience(self, queued: QueuedPublication, key: KeyRow | None) -> None:
        """Store nothing but the key: the topic has no subscriber."""
        if key is None:
            self._queue.finish(queued)
            return

        def done(error: HubError | None) -> None:
            queued.error = error
            self._queue.finish(queued)

        self._store.add_key(key, done)

    def _add_key(self, publication: Publication, published: Published, done: PublishDone) -> None:
        """Store the key of a publish that is not stored itself; then call `done`."""
        number = number_of(published.id)
        assert number is not None
        row, done = self.keys.add(publication, number, published.audience, done)
        self._store.add_key(row, lambda error: done(published if error is None else error))

    # -- dead letters ------------------------------------------------------------------------

    def redrive(self, letters: list[tuple[DeadRow, Client]], done: PublishDone) -> int:
        """Put dead letters back, each for its client alone and with a new number.

        As many as have room in the publish queue, at least one; HubError otherwise. Returns their
        number. `done` is called with the result of the last one, when all are on disk.
        """
        self._queue.check_room(len(letters[0][0].content))
        letters = letters[: self._queue.room_for([len(each.content) for each, _ in letters])]
        expires_ms = self._now_ms() + self._limits.current.ttl_s * 1000
        rows: list[tuple[LogRow, object]] = []
        for letter, client in letters:
            number = self.numbers.next(self._now_ms())
            notification = Notification(
                number,
                id_of(number, server=self._server, private=letter.topic is None),
                letter.topic,
                letter.content,
                letter.type,
                letter.ts_ms,
                expires_ms,
            )
            # A private row that keeps its topic: other subscribers have acknowledged it.
            queued = QueuedPublication(notification, None, client, 1)
            self._queue.add_stored(queued)
            rows.append((_log_row(notification, -client.number, letter.topic), queued))
        queued.done = done
        self._store.redrive([letter.place for letter, _ in letters], rows)
        return len(letters)


def _log_row(notification: Notification, target: int, topic: str | None) -> LogRow:
    return (
        notification.number,
        target,
        notification.type,
        notification.ts_ms,
        notification.expires_ms,
        topic,
        notification.content,
    )


# -- the publish queue ---------------------------------------------------------------------------


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
    """Publications that are not pushed yet, oldest first.

    A stored publication waits here for its commit. A transient one needs no commit, but must not
    overtake a stored one with a lower number, so while the queue is not empty it waits behind it.
    """

    def __init__(
        self,
        registry: Registry,
        delivery: Delivery,
        quota: Quota,
        fanout: Fanout,
        counters: Counters,
        tap: Tap,
    ):
        self._registry = registry
        self._delivery = delivery
        self._quota = quota
        self._fanout = fanout
        self._counters = counters
        self._tap = tap
        self._queue: deque[QueuedPublication] = deque()
        self._bytes = 0

    def check_room(self, size: int) -> None:
        """Raise HubError when too much waits for the disk."""
        if len(self._queue) >= _MAX_QUEUED or self._bytes + size > _MAX_QUEUED_BYTES:
            raise HubError("too_busy", "the publish queue is full; try again later")

    def room_for(self, sizes: Sequence[int]) -> int:
        """Return how many notifications of these sizes, from the first on, may wait as well."""
        free_bytes = _MAX_QUEUED_BYTES - self._bytes
        fitting = bisect.bisect_right(list(accumulate(sizes)), free_bytes)
        return min(fitting, max(0, _MAX_QUEUED - len(self._queue)))

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
        # Batches finish in order (`store.writer`), so everything up to the end of this batch can be
        # released, and transient publications behind it too. Each client then gets one write for
        # all of them: `Delivery.flush`.
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
        """Count a publication, report it to the tap and call its publisher back."""
        done, error = queued.done, queued.error
        counters = self._counters
        if error is not None:
            counters.refused_publishes += 1
        else:
            counters.published += 1
            counters.stored += bool(queued.audience)
            if self._tap.active:
                notification = queued.notification
                report(
                    self._tap, notification.id, notification.topic, queued.audience, queued.client
                )
        if done is None:
            return
        try:
            done(error or Published(queued.notification.id, queued.audience))
        except Exception:
            _log.exception("the callback of a publish raised an exception")

    def _release(self, queued: QueuedPublication) -> None:
        notification, topic, client = queued.notification, queued.topic, queued.client
        if not notification.expires_ms:  # not stored
            self._delivery.flush()  # stored ones with lower numbers leave first
            if topic is not None:
                self._fanout.add(topic, notification)
            elif client is not None:
                self._push_transient(client, notification)
            return
        self.finish(queued)  # a publisher that subscribes gets its confirmation first
        if queued.error is None and self._registry.add_stored(topic, client, notification.number):
            # The quota last: what was just pushed and needs no acknowledgement does not count.
            if client is not None:
                self._delivery.push_to_client(client, notification)
                self._quota.appended_private(client)
            elif topic is not None:
                topic.published += 1
                self._delivery.push_to_topic(topic, notification)
                self._quota.appended(topic)
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


def report(tap: Tap, id: str, topic: str | None, audience: int, client: Client | None) -> None:  # noqa: A002
    """Report a publication to the tap.

    A fact that names a client makes a row of `deliveries` even if no send is captured
    (`docs/concepts/matching.md`). So a client is named only where the protocol acknowledges every
    notification: over another one, the notification may be in a tunnel or in a sealed body, and its
    row would be `unsent` for ever. The protocol is named when the client is online; readers assume
    the built-in one otherwise.
    """
    if client is None:
        tap.published(id, topic, audience)
        return
    receiver = client.receiver
    protocol = receiver.protocol if receiver is not None and receiver.acks_all else None
    named = protocol is not None or receiver is None or not client.durable
    tap.published(id, topic, audience, client.id if named else None, protocol)

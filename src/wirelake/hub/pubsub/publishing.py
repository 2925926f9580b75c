"""Publishing: a request gets a place in the publish queue, and a row of the log with a number.

`Publisher` has two entry points:

    publish             any request; a stored one is confirmed after its group commit
    publish_transient   to a topic and not stored: the fast path of listeners, confirmed at once

Both end in the `PublishQueue`, which delivers in the order of numbers whatever the order of
commits, so that clients get notifications in order across all topics (`docs/concepts/hub.md`,
Guarantees of a publish).
"""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from time import perf_counter_ns
from typing import Final, NamedTuple

from wirelake.protocols.hub_calls import ANONYMOUS, PUBLISH

from ..config import ActiveLimits
from ..errors import HubError
from ..numbers import TransientNumbers
from ..observe.counters import Counters
from ..observe.tap import Tap
from ..store import DeadRow, Entry, KeyRow, Store
from ..store.interface import Append, Appended, Notify, Redrive, Redriven
from .delivery import Delivery, Fanout, deliver
from .forwarding import Parts, parts_of
from .keys import Keys, PublishDone
from .notifications import (
    Ids,
    Notification,
    Publication,
    Published,
    check_publication,
    id_of,
    notification_of,
)
from .quota import Quota
from .subscriptions import Client, Receiver, Registry, Topic

__all__ = [
    "PublishQueue",
    "Publisher",
    "QueuedOperation",
    "QueuedTransient",
]

_log = logging.getLogger(__name__)

_MAX_QUEUED: Final = 65_536
_MAX_QUEUED_BYTES: Final = 64 << 20
"""What may wait for the disk before publishers get `too_busy`: about a second of publishes (48,000
to 69,000 per second are durable, benchmarks/results/hub.json), so a disk that stalls longer is
reported instead of filling the memory."""


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
        keys: Keys,
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
        self._ids = Ids(server)
        self.transient = TransientNumbers()
        """Numbers of what is not stored."""
        self.keys = keys
        self.closed = False
        """Whether the hub shuts down: nothing more is published or subscribed, by any protocol."""

    def renumber(self, server: int) -> None:
        """Set the number of this hub in ids of what is not stored."""
        self._ids = Ids(server)

    def publish(self, publication: Publication, done: PublishDone) -> None:
        """Publish; `done` is called when it is on disk, or at once when it is not stored."""
        try:
            ttl_s = self._check(publication)
            name, to, key = publication.topic, publication.client, publication.key
            client = None
            if to is not None:
                client = self._registry.clients.get(to)
                if client is None and to.startswith(ANONYMOUS):
                    client, ttl_s = self._find_anonymous(to), 0
            # Known without the store: the topic has no clients here, or this is one of them.
            if ttl_s == 0 and not key and (name is not None or client is not None):
                topic = None if name is None else self._registry.topics.get(name)
                content, kind = publication.content, publication.type
                done(self._queue_transient(name, topic, client, content, kind))
            else:
                self._queue_stored(publication, ttl_s, done, client)
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
                self._check(Publication(name, None, content, type, ttl_s=0))
            published = self._queue_transient(name, topic, None, content, type)
        except HubError:
            self._counters.refused_publishes += 1
            self._latency.record_failure(begun_ns)
            raise
        self._latency.record(begun_ns)
        return published

    def _check(self, publication: Publication) -> float:
        """Check a request; return its time to live."""
        if self.closed:
            raise HubError("closing")
        known = publication.topic is not None and publication.topic in self._registry.topics
        check_publication(publication, self._limits, known_topic=known)
        ttl_s = publication.ttl_s
        return self._limits.current.ttl_s if ttl_s is None else ttl_s

    def _find_anonymous(self, name: str) -> Client:
        """Return the client of a connection without an id: `~` and the connection's id."""
        # Ids are limited before `int`: the name comes from a peer, and int() is quadratic.
        number = name.removeprefix(ANONYMOUS)
        if number.isascii() and number.isdecimal() and len(number) < 20:
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
        number = self.transient.next(now_ms)
        id_text = self._ids.text(number, private=name is None)
        audience = self._online(name, client)
        self._counters.published += 1
        if self._tap.active:
            to = None if client is None else client.id
            report(self._tap, id_text, name, audience, to, client)
        # Held clients count as well: the queue counts what they miss.
        here = audience or (topic is not None and topic.held)
        if here or self._queue.forwards:
            notification = Notification(number, id_text, name, content, kind, now_ms, 0)
            self._queue.forward(notification, client)
            if here:
                self._queue.add_transient(notification, topic, client)
        return Published(id_text, audience)

    def _online(self, name: str | None, client: Client | None) -> int:
        """Return how many clients get a publication that is not stored."""
        if name is None:
            return int(client is not None and client.live)
        topic = self._registry.topics.get(name)
        return 0 if topic is None else topic.online

    # -- stored ------------------------------------------------------------------------------

    def _queue_stored(
        self, publication: Publication, ttl_s: float, done: PublishDone, client: Client | None
    ) -> None:
        """Store a publication, or what has to be looked up or remembered of it."""
        content = publication.content
        self._queue.check_room(len(content))
        now_ms = self._now_ms()
        operation = Append(
            publication.topic,
            publication.client,
            content,
            publication.type,
            now_ms,
            now_ms + max(1, int(ttl_s * 1000)) if ttl_s else 0,
            self.keys.new(publication, ttl_s, now_ms) if publication.key else None,
            0 if ttl_s else self._online(publication.topic, client),
        )
        anonymous = client if client is not None and not client.durable else None
        self._store.write(operation, self._queue.add(operation, done, anonymous).stored)

    # -- dead letters ------------------------------------------------------------------------

    async def redrive(self, letters: Sequence[DeadRow]) -> int:
        """Put dead letters back, oldest first, each for its client alone and with a new number.

        As many as have room in the publish queue, at least one; HubError otherwise. Returns their
        number when they are on disk.
        """
        self._queue.check_room(len(letters[0].content))
        room = self._queue.room_for([len(each.content) for each in letters])
        now_ms = self._now_ms()
        expires_ms = now_ms + self._limits.current.ttl_s * 1000
        places = tuple(each.place for each in letters[: max(1, room)])
        operation = Redrive(places, now_ms, int(expires_ms))
        queued = self._queue.add(operation, None)
        found: list[Redriven] = []

        def done(result: list[Redriven] | HubError) -> None:
            if not isinstance(result, HubError):
                found.extend(result)
            queued.stored(result)
            if written.cancelled():
                return
            if isinstance(result, HubError):
                written.set_exception(result)
            else:
                written.set_result(None)

        written = asyncio.get_running_loop().create_future()
        self._store.write(operation, done)
        await written
        return len(found)


# -- the publish queue ---------------------------------------------------------------------------


class QueuedOperation:
    """An operation that is being executed."""

    __slots__ = ("client", "done", "operation", "queue")

    def __init__(
        self,
        queue: PublishQueue,
        operation: Append | Redrive,
        done: PublishDone | None,
        client: Client | None,
    ):
        self.queue = queue
        self.operation = operation
        self.done = done
        self.client = client
        """The client of a connection without sign-on that it is for."""

    def stored(self, result: Appended | KeyRow | list[Redriven] | HubError) -> None:
        """Release it: it is on disk, or could not be written."""
        self.queue.written(self, result)


class QueuedTransient(NamedTuple):
    """A publication that is not stored."""

    notification: Notification
    topic: Topic | None
    client: Client | None


class PublishQueue:
    """Publications that are not pushed yet, oldest first.

    A stored publication waits here for its commit. A transient one needs no commit, but must not
    overtake a stored one that was requested before it, so while the queue is not empty it waits
    behind it.
    """

    def __init__(
        self,
        registry: Registry,
        delivery: Delivery,
        quota: Quota,
        fanout: Fanout,
        counters: Counters,
        tap: Tap,
        keys: Keys,
        server: int,
        store: Store,
    ):
        self._store = store
        self._cluster = store.cluster
        self._parts = Parts()
        self._forwarding = 0
        """Parts that are being sent to other hubs."""
        self._registry = registry
        self._delivery = delivery
        self._quota = quota
        self._fanout = fanout
        self._counters = counters
        self._tap = tap
        self._keys = keys
        self._server = server
        self._ids = Ids(server)
        self._queue: deque[QueuedOperation | QueuedTransient] = deque()
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

    def add(
        self, operation: Append | Redrive, done: PublishDone | None, client: Client | None = None
    ) -> QueuedOperation:
        """Add an operation that is being executed; `stored` releases it."""
        queued = QueuedOperation(self, operation, done, client)
        if type(operation) is Append:
            self._bytes += len(operation.content)
        self._queue.append(queued)
        return queued

    def add_transient(
        self, notification: Notification, topic: Topic | None, client: Client | None
    ) -> None:
        """Push a publication that is not stored, at once or behind those that are queued."""
        if self._queue:
            self._queue.append(QueuedTransient(notification, topic, client))
        elif topic is not None:
            self._fanout.add(topic, notification)
        elif client is not None:
            self._push_transient(client, notification)

    def written(
        self, queued: QueuedOperation, result: Appended | KeyRow | list[Redriven] | HubError
    ) -> None:
        """Release a publication that is on disk, and transient ones behind it."""
        # Operations finish in order (`store.writer`), so it is the first in the queue. What is
        # pushed is written at the end of the batch (`Delivery.flush`): each client then gets one
        # write for all of them.
        queue = self._queue
        first = queue.popleft()
        assert first is queued
        operation = queued.operation
        if type(operation) is Append:
            self._bytes -= len(operation.content)
            self._release(operation, queued, result)
        elif isinstance(result, list):
            for each in result:
                self._release_redriven(each)
        while queue and isinstance(behind := queue[0], QueuedTransient):
            queue.popleft()
            self._release_transient(*behind)

    def _release(
        self,
        operation: Append,
        queued: QueuedOperation,
        result: Appended | KeyRow | list[Redriven] | HubError,
    ) -> None:
        done = queued.done
        if type(result) is Appended:
            self._release_appended(operation, queued, result)
        elif operation.key is not None and isinstance(result, KeyRow):
            self._finish(done, self._keys.repeated(operation.key, result))
        elif isinstance(result, HubError):
            if operation.key is not None:
                result = self._keys.refusal(operation.key, result)
            self._finish(done, result)

    def _release_appended(
        self, operation: Append, queued: QueuedOperation, result: Appended
    ) -> None:
        number, target, name = result.number, result.target, operation.topic
        id_text = self._ids.text(number, private=name is None)
        self._counters.published += 1
        self._counters.stored += target != 0
        if self._tap.active:
            client = queued.client or self._registry.clients.get(operation.client or "")
            report(self._tap, id_text, name, result.audience, operation.client, client)
        # A publisher that subscribes gets its confirmation first.
        self._finish(queued.done, Published(id_text, result.audience))
        if not operation.expires_ms:
            notification = _notification(operation, number, id_text)
            to = operation.client or ""
            client = queued.client or (self._registry.clients.get(to) if to else None)
            topic = None if name is None else self._registry.topics.get(name)
            self._release_transient(notification, topic, client)
            with suppress(HubError):  # the publish has its number, and perhaps a key
                self.forward(notification, client, to)
        elif target > 0:
            topic = self._registry.topics_by_number.get(target)
            if topic is not None:
                self._push_to_topic(topic, _notification(operation, number, id_text))
        elif target:
            self._push_to_client(-target, _notification(operation, number, id_text))
        if result.due:
            self._quota.check_topic(target)
        self._delivery.reached = number

    @property
    def forwards(self) -> bool:
        """Whether other hubs have to be sent what is not stored."""
        return self._cluster is not None and not self._cluster.alone

    def forward(self, notification: Notification, client: Client | None, to: str = "") -> None:
        """Send a publication that is not stored to the clients of other hubs.

        `client` is the one that it is for, if this hub knows it; `to` its id.
        """
        # A client that is served here is online here, or nowhere.
        if not self.forwards or (client is not None and (client.loaded or not client.durable)):
            return
        if client is not None:
            to = client.id
        if self._forwarding >= _MAX_QUEUED:
            raise HubError("too_busy", "too much is being sent to other hubs; try again later")
        for part in parts_of(notification, to):
            self._forwarding += 1
            self._store.write(Notify(part), self._part_sent)

    def _part_sent(self, _: object) -> None:
        self._forwarding -= 1

    def forwarded(self, words: list[str]) -> None:
        """Push what another hub has forwarded."""
        found = self._parts.add(words)
        if found is None:
            return
        topic = None if found.topic is None else self._registry.topics.get(found.topic)
        client = self._registry.clients.get(found.client) if found.client else None
        if topic is not None or client is not None:
            self.add_transient(found.notification, topic, client)

    def followed(self, entries: list[Entry], number: int) -> None:
        """Push what other hubs have appended to the log."""
        for each in entries:
            if each.target > 0:
                topic = self._registry.topics_by_number.get(each.target)
                if topic is not None:
                    self._push_to_topic(topic, notification_of(each, self._server))
            else:
                client = self._registry.clients_by_number.get(-each.target)
                if client is not None:
                    self._delivery.push_to_client(client, notification_of(each, self._server))
            self._delivery.reached = each.number
        self._delivery.reached = max(self._delivery.reached, number)

    def _push_to_topic(self, topic: Topic, notification: Notification) -> None:
        topic.traffic.published += 1
        self._delivery.push_to_topic(topic, notification)

    def _push_to_client(self, number: int, notification: Notification) -> None:
        client = self._registry.clients_by_number.get(number)
        if client is not None:
            self._delivery.push_to_client(client, notification)
        self._quota.appended_private(number)

    def _release_redriven(self, redriven: Redriven) -> None:
        entry = redriven.entry
        self._push_to_client(-entry.target, notification_of(entry, self._server))
        self._delivery.reached = entry.number
        self._counters.published += 1
        self._counters.stored += 1
        if self._tap.active:
            client = self._registry.clients_by_number.get(-entry.target)
            id_text = id_of(entry.number, server=self._server, private=entry.topic is None)
            report(self._tap, id_text, entry.topic, 1, redriven.client, client)

    def _release_transient(
        self, notification: Notification, topic: Topic | None, client: Client | None
    ) -> None:
        self._delivery.flush()  # stored ones that were requested before leave first
        if topic is not None:
            self._fanout.add(topic, notification)
        elif client is not None:
            self._push_transient(client, notification)

    def _finish(self, done: PublishDone | None, result: Published | HubError) -> None:
        """Call the publisher back."""
        if type(result) is not Published:
            self._counters.refused_publishes += 1
        if done is None:
            return
        try:
            done(result)
        except Exception:
            _log.exception("the callback of a publish raised an exception")

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


def _notification(operation: Append, number: int, id_text: str) -> Notification:
    return Notification(
        number,
        id_text,
        operation.topic,
        operation.content,
        operation.type,
        operation.ts_ms,
        operation.expires_ms,
    )


def report(
    tap: Tap, id: str, topic: str | None, audience: int, to: str | None, client: Client | None  # noqa: A002
) -> None:  # fmt: skip
    """Report a publication to the tap; `client` is the one it is for, if that is in memory.

    A fact that names a client makes a row of `deliveries` even if no send is captured
    (`docs/concepts/matching.md`). So a client is named only where the protocol acknowledges every
    notification: over another one, the notification may be in a tunnel or in a sealed body, and its
    row would be `unsent` for ever. The protocol is named when the client is online; readers assume
    the built-in one otherwise.
    """
    if to is None:
        tap.published(id, topic, audience)
        return
    receiver = None if client is None else client.receiver
    protocol = receiver.protocol if receiver is not None and receiver.acks_all else None
    named = protocol is not None or receiver is None or to.startswith(ANONYMOUS)
    tap.published(id, topic, audience, to if named else None, protocol)

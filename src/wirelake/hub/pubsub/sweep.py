"""The sweep: periodic cleanup, in steps small enough not to delay the event loop.

- Expired notifications become dead letters of every client that has not acknowledged them.
- Backlogs beyond `Limits.inbox` are trimmed; the oldest notifications become dead letters.
- Notifications that every subscriber has acknowledged are deleted, and topics without subscribers.

Correctness does not depend on its pace: delivery checks the expiry itself, and a row that is
deleted late only takes space. Each step handles a bounded number of clients, topics and rows and
the next continues where it stopped, so a hub with a million topics sweeps as smoothly as a small
one.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ..config import ActiveLimits
from ..errors import HubError
from ..observe.counters import Counters
from ..store import Store
from .delivery import Delivery
from .publishing import Publisher
from .subscriptions import Client, Receiver, Registry, Subscription, Topic

__all__ = ["MAX_DEAD_LETTERS", "SWEEP_S", "Sweep"]

SWEEP_S: Final = 0.5
"""Seconds between two steps."""
MAX_DEAD_LETTERS: Final = 100_000
"""Dead letters kept. Beyond that the oldest are deleted; after `Limits.ttl_s` all are."""

# Bounds of one step. Two limits for expiry: one expired row of a topic with a million subscribers
# makes a million dead letters, so rows alone would not bound it. A step stops after the row that
# reaches the second limit.
_EXPIRED: Final = 200
_DEAD_LETTERS: Final = 5_000
_DELETED: Final = 2_000
_TOPICS: Final = 500
_CLIENTS: Final = 200
_TRIMMED: Final = 500
# Work that is not done in every step: the last number every 5 s (`topics._CLOCK_BACK` relies on
# it), old keys and dead letters every 30 s, because that scans their tables.
_STEPS_PER_SAVED_NUMBER: Final = 10
_STEPS_PER_PRUNE: Final = 60


class Sweep:
    """Periodic cleanup of the log, inboxes, dead letters and topics."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        connections: Mapping[int, Receiver],
        registry: Registry,
        delivery: Delivery,
        publisher: Publisher,
        now_ms: Callable[[], int],
    ):
        self._store = store
        self._loop = loop
        self._limits = limits
        self._counters = counters
        self._connections = connections
        self._registry = registry
        self._delivery = delivery
        self._publisher = publisher
        self._now_ms = now_ms
        self._topics: Iterator[Topic] = iter(())
        self._clients: Iterator[Client] = iter(())
        self._handle: asyncio.TimerHandle | None = None
        self._steps = 0
        self._saved_number = 0
        self._expiring = False
        self._has_dead = True

    def start(self) -> None:
        """Start sweeping periodically."""
        self._handle = self._loop.call_later(SWEEP_S, self._tick)

    def stop(self) -> None:
        """Stop."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        self._handle = self._loop.call_later(SWEEP_S, self._tick)
        self.step()

    def step(self) -> None:
        """Run one step."""
        self._steps += 1
        try:
            self._expire()
        except HubError:
            return  # the store cannot be read: the next step tries again
        for client in self._next_clients():
            self._trim(client)
            self._delete_private(client)
            self._delivery.push(client)
        for topic in self._next_topics():
            self._delete_acked(topic)
        self._remove_unused_topics()
        self._delete_rows()
        last = self._publisher.numbers.last
        if self._steps % _STEPS_PER_SAVED_NUMBER == 0 and last > self._saved_number:
            self._saved_number = last
            self._store.save_last_number(last)
        if self._steps % _STEPS_PER_PRUNE == 0 and (self._publisher.has_keys or self._has_dead):
            self._publisher.has_keys = self._has_dead = False
            now_ms = self._now_ms()
            dead_before_ms = now_ms - self._limits.current.ttl_s * 1000
            self._store.prune(now_ms, dead_before_ms, MAX_DEAD_LETTERS)

    # -- expiry ------------------------------------------------------------------------------

    def _expire(self) -> None:
        if (
            self._expiring
        ):  # the rows of the last step are still in the log: they would be found again
            return
        now_ms = self._now_ms()
        dead: list[tuple[int, int, str, int]] = []
        unacked: list[tuple[Client, int]] = []
        expired: list[tuple[int, int]] = []
        for number, target in self._store.expired(now_ms, _EXPIRED):
            if unacked and len(unacked) >= _DEAD_LETTERS:
                break
            expired.append((number, target))
            unacked.extend((client, number) for client in self._without_ack(number, target))
        if not expired:
            return
        dead = [
            (each.number, number, "expired", now_ms) for each, number in unacked if each.durable
        ]
        self._expiring = True

        def done(error: HubError | None) -> None:
            self._expiring = False
            if error is None:
                self._expired(unacked, expired)

        self._store.add_dead_letters(dead, [number for number, _ in expired], done)

    def _without_ack(self, number: int, target: int) -> list[Client]:
        if target < 0:
            client = self._registry.clients_by_number.get(-target)
            return [client] if client is not None and client.inbox.is_unacked(number) else []
        topic = self._registry.topics_by_number.get(target)
        if topic is None:
            return []
        return [
            client
            for client, subscription in topic.subscribers.items()
            if number > subscription.start and client.inbox.is_unacked(number)
        ]

    def _expired(self, unacked: list[tuple[Client, int]], expired: list[tuple[int, int]]) -> None:
        self._has_dead = self._has_dead or bool(unacked)
        self._counters.dead["expired"] += len(unacked)
        for number, target in expired:
            if target < 0:
                client = self._registry.clients_by_number.get(-target)
                if client is not None and client.private:
                    _remove_number(client.private, number)
            else:
                topic = self._registry.topics_by_number.get(target)
                if topic is not None:
                    _remove_number(topic.numbers, number)
        for client, number in unacked:
            self._delivery.drop(client, [number])

    # -- quota -------------------------------------------------------------------------------

    def _trim(self, client: Client) -> None:
        excess = client.waiting() - self._limits.current.inbox
        if excess > 0:
            self._has_dead = True
            oldest = client.next_numbers(0, min(excess, _TRIMMED), holes=True)
            self._delivery.dead_letter(client, oldest, "quota")

    # -- deletion ----------------------------------------------------------------------------

    def _delete_private(self, client: Client) -> None:
        if client.private:
            acked = [each for each in client.private if not client.inbox.is_unacked(each)]
            del acked[_DELETED:]
            for number in acked:
                _remove_number(client.private, number)
            self._registry.deletable.extend(acked)

    def _delete_acked(self, topic: Topic) -> None:
        # The log of a topic is needed from the lowest number that any subscriber has not
        # acknowledged. The loop ends with the first subscriber that needs the first row: with a
        # busy topic that is found early, and the step stays short.
        numbers = topic.numbers
        if not numbers or not topic.subscribers:
            return
        first = numbers[0]
        needed = topic.last + 1
        for client, subscription in topic.subscribers.items():
            needed = min(needed, self._lowest_needed(client, subscription))
            if needed <= first:
                return
        self._delete_first(topic, bisect_left(numbers, needed))

    def _lowest_needed(self, client: Client, subscription: Subscription) -> int:
        """Return the lowest number of a topic that this client may still need."""
        inbox = client.inbox
        if client.live and not inbox.spans:
            return min(inbox.holes, default=self._delivery.reached + 1)
        if inbox.holes:
            return inbox.lowest_needed()
        return max(inbox.cursor, subscription.start) + 1

    def _delete_first(self, topic: Topic, count: int) -> None:
        count = min(count, _DELETED)
        self._registry.deletable.extend(topic.numbers[:count])
        del topic.numbers[:count]

    def _remove_unused_topics(self) -> None:
        unused = self._registry.maybe_unused
        for topic in list(unused)[:_TOPICS]:
            if topic.subscribers:
                del unused[topic]
                continue
            self._delete_first(topic, len(topic.numbers))
            if not topic.numbers:
                del unused[topic]
                self._registry.drop_topic(topic)
                self._store.remove_topic(topic.number)

    def _delete_rows(self) -> None:
        numbers = self._registry.deletable
        if numbers:
            self._store.delete(numbers[:_DELETED])
            del numbers[:_DELETED]

    # -- the clients and topics of one step --------------------------------------------------

    def _next_clients(self) -> list[Client]:
        # The iterator is over a copy: clients come and go between two steps.
        some = [client for client, _ in zip(self._clients, range(_CLIENTS), strict=False)]
        if len(some) < _CLIENTS:
            self._clients = iter((*self._registry.clients.values(), *self._anonymous_clients()))
        return some

    def _anonymous_clients(self) -> list[Client]:
        clients = (connection.client for connection in self._connections.values())
        return [each for each in clients if each is not None and not each.durable]

    def _next_topics(self) -> list[Topic]:
        some = [topic for topic, _ in zip(self._topics, range(_TOPICS), strict=False)]
        if len(some) < _TOPICS:
            self._topics = iter(tuple(self._registry.topics.values()))
        return some


def _remove_number(numbers: array[int], number: int) -> None:
    at = bisect_left(numbers, number)
    if at < len(numbers) and numbers[at] == number:
        del numbers[at]

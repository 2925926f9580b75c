"""Clears away, in small portions: what is over, what is too much, what nobody needs.

- What has expired becomes a dead letter of every client that has not acknowledged it.
- When more waits for a client than may (`Limits.inbox`), the oldest becomes dead letters.
- What every subscriber has acknowledged is deleted, and topics that nobody has.

Nothing depends on how fast this is: what has expired is not delivered in any case.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ..errors import HubError
from .clients import Client, Subscription
from .delivery import Delivery
from .fanout import Topic
from .publishing import Publisher
from .registry import Registry

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["MOST_DEAD", "SWEEP_S", "Sweep"]

SWEEP_S: Final = 0.5
"""How often a portion is done."""
MOST_DEAD: Final = 100_000
"""Dead letters that are kept; beyond that the oldest go, and after `Limits.ttl_s` all do."""

_EXPIRED: Final = 200
_DEAD_AT_ONCE: Final = 5_000
_DELETED: Final = 2_000
_TOPICS: Final = 500
_CLIENTS: Final = 200
_BURIED: Final = 500
_STEPS_TO_MARK: Final = 10
_STEPS_TO_TIDY: Final = 60


class Sweep:
    """Clears away."""

    def __init__(
        self,
        hub: Hub,
        registry: Registry,
        delivery: Delivery,
        publisher: Publisher,
        now_ms: Callable[[], int],
    ):
        self._hub = hub
        self._store = hub.store
        self._registry = registry
        self._delivery = delivery
        self._publisher = publisher
        self._now_ms = now_ms
        self._topics: Iterator[Topic] = iter(())
        self._clients: Iterator[Client] = iter(())
        self._handle: asyncio.TimerHandle | None = None
        self._steps = 0
        self._marked = 0
        self._burying = False
        self._dead = True

    def start(self) -> None:
        """Begins."""
        self._handle = self._hub.loop.call_later(SWEEP_S, self._again)

    def stop(self) -> None:
        """Ends."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _again(self) -> None:
        self._handle = self._hub.loop.call_later(SWEEP_S, self._again)
        self.step()

    def step(self) -> None:
        """Does one portion."""
        self._steps += 1
        try:
            self._expire()
        except HubError:
            return  # the store cannot be read: the next step tries again
        for client in self._some_clients():
            self._trim(client)
            self._delete_private(client)
            self._delivery.push(client)
        for topic in self._some_topics():
            self._delete_acked(topic)
        self._drop_lonely()
        self._delete_useless()
        if self._steps % _STEPS_TO_MARK == 0 and self._publisher.numbers.last > self._marked:
            self._marked = self._publisher.numbers.last
            self._store.mark(self._marked)
        if self._steps % _STEPS_TO_TIDY == 0 and (self._publisher.keyed or self._dead):
            self._publisher.keyed = self._dead = False
            now_ms = self._now_ms()
            self._store.tidy(now_ms, now_ms - self._hub.limits.ttl_s * 1000, MOST_DEAD)

    # -- what is over ------------------------------------------------------------------------

    def _expire(self) -> None:
        if self._burying:
            return
        now_ms = self._now_ms()
        dead: list[tuple[int, int, str, int]] = []
        owing: list[tuple[Client, int]] = []
        gone: list[tuple[int, int]] = []
        for number, target in self._store.expired(now_ms, _EXPIRED):
            if owing and len(owing) >= _DEAD_AT_ONCE:
                break
            gone.append((number, target))
            owing.extend((client, number) for client in self._owing(number, target))
        if not gone:
            return
        dead = [(each.number, number, "expired", now_ms) for each, number in owing if each.durable]
        self._burying = True

        def done(error: HubError | None) -> None:
            self._burying = False
            if error is None:
                self._expired(owing, gone)

        self._store.bury(dead, [number for number, _ in gone], done)

    def _owing(self, number: int, target: int) -> list[Client]:
        if target < 0:
            client = self._registry.clients_by_number.get(-target)
            return [client] if client is not None and client.inbox.owes(number) else []
        topic = self._registry.topics_by_number.get(target)
        if topic is None:
            return []
        return [
            client
            for client, subscription in topic.subscribers.items()
            if number > subscription.start and client.inbox.owes(number)
        ]

    def _expired(self, owing: list[tuple[Client, int]], gone: list[tuple[int, int]]) -> None:
        self._dead = self._dead or bool(owing)
        self._hub.counts.dead["expired"] += len(owing)
        for number, target in gone:
            if target < 0:
                client = self._registry.clients_by_number.get(-target)
                if client is not None and client.private:
                    _take_out(client.private, number)
            else:
                topic = self._registry.topics_by_number.get(target)
                if topic is not None:
                    _take_out(topic.numbers, number)
        for client, number in owing:
            self._delivery.drop(client, [number])

    # -- what is too much --------------------------------------------------------------------

    def _trim(self, client: Client) -> None:
        excess = client.waiting() - self._hub.limits.inbox
        if excess > 0:
            self._dead = True
            oldest = self._delivery.oldest(client, min(excess, _BURIED))
            self._delivery.bury(client, oldest, "quota")

    # -- what nobody needs -------------------------------------------------------------------

    def _delete_private(self, client: Client) -> None:
        if client.private:
            over = [each for each in client.private if not client.inbox.owes(each)][:_DELETED]
            for number in over:
                _take_out(client.private, number)
            self._registry.useless.extend(over)

    def _delete_acked(self, topic: Topic) -> None:
        numbers = topic.numbers
        if not numbers or not topic.subscribers:
            return
        first = numbers[0]
        needed = topic.last + 1
        for client, subscription in topic.subscribers.items():
            needed = min(needed, self._lowest(client, subscription))
            if needed <= first:
                return
        self._delete_first(topic, bisect_left(numbers, needed))

    def _lowest(self, client: Client, subscription: Subscription) -> int:
        """The lowest number of a topic that this client may still need."""
        inbox = client.inbox
        if client.live and not inbox.spans:
            return min(inbox.holes, default=self._delivery.reached + 1)
        if inbox.holes:
            return inbox.lowest()
        return max(inbox.cursor, subscription.start) + 1

    def _delete_first(self, topic: Topic, count: int) -> None:
        count = min(count, _DELETED)
        self._registry.useless.extend(topic.numbers[:count])
        del topic.numbers[:count]

    def _drop_lonely(self) -> None:
        lonely = self._registry.lonely
        for topic in list(lonely)[:_TOPICS]:
            if topic.subscribers:
                del lonely[topic]
                continue
            self._delete_first(topic, len(topic.numbers))
            if not topic.numbers:
                del lonely[topic]
                self._registry.drop_topic(topic)
                self._store.forget_topic(topic.number)

    def _delete_useless(self) -> None:
        useless = self._registry.useless
        if useless:
            self._store.delete(useless[:_DELETED])
            del useless[:_DELETED]

    # -- portions ----------------------------------------------------------------------------

    def _some_clients(self) -> list[Client]:
        some = [client for client, _ in zip(self._clients, range(_CLIENTS), strict=False)]
        if len(some) < _CLIENTS:
            self._clients = iter((*self._registry.clients.values(), *self._not_stored()))
        return some

    def _not_stored(self) -> list[Client]:
        clients = (connection.client for connection in self._hub.connections.values())
        return [each for each in clients if each is not None and not each.durable]

    def _some_topics(self) -> list[Topic]:
        some = [topic for topic, _ in zip(self._topics, range(_TOPICS), strict=False)]
        if len(some) < _TOPICS:
            self._topics = iter(tuple(self._registry.topics.values()))
        return some


def _take_out(numbers: array[int], number: int) -> None:
    at = bisect_left(numbers, number)
    if at < len(numbers) and numbers[at] == number:
        del numbers[at]

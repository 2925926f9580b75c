"""The sweep: cleanup in the background, in steps small enough not to delay the event loop.

- Expired notifications become dead letters of every client that has not acknowledged them.
- Notifications that every subscriber has acknowledged are deleted.
- Old keys and dead letters are deleted, and the database gives free space back.

Each step is bounded. It visits the clients and topics in which something has changed
(`Delivery.changed_clients`, `changed_topics`); while a step leaves work, the next one follows after
`BUSY_S` instead of `SWEEP_S`. Rows are deleted in batches, the next when the last is on disk, each
with twice the rows that were stored meanwhile. So deletion keeps pace with publishing.

Correctness does not depend on that: delivery checks the expiry itself, the quota is enforced with
each publish (`quota.py`), and a row that is deleted late only takes space.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from ..config import ActiveLimits
from ..errors import HubError
from ..observe.counters import Counters
from ..store import Store
from .delivery import Delivery
from .publishing import Publisher
from .quota import Quota
from .subscriptions import Client, Receiver, Registry, Subscription, Topic

__all__ = ["BUSY_S", "MAX_DEAD_LETTERS", "SWEEP_S", "Sweep"]

SWEEP_S: Final = 0.5
"""Seconds between two steps."""
BUSY_S: Final = 0.02
"""Seconds between two steps while there is more to do: a step takes up to five milliseconds, so
others have three quarters of the time."""
MAX_DEAD_LETTERS: Final = 100_000
"""Dead letters kept. Beyond that the oldest are deleted; after `Limits.ttl_s` all are."""

# Bounds of one step. Two limits for expiry: one expired row of a topic with a million subscribers
# makes a million dead letters, so rows alone would not bound it. A step stops after the row that
# reaches the second limit.
_EXPIRED: Final = 2_000
_DEAD_LETTERS: Final = 5_000
_DELETED: Final = 2_000
_FREED: Final = 20_000
"""Numbers that a step looks at or removes from logs in memory; a topic or client is finished."""
_TOPICS: Final = 500
_CLIENTS: Final = 200
_SPARSE: Final = 1_024
"""Length of a log up to which acknowledged notifications in its middle may stay."""
# Work that is not done in every step: the last number every 5 s (`topics._CLOCK_BACK` relies on
# it), expired keys every 30 s; old dead letters, too, and every hour when there are no new ones,
# because that scans their tables.
_SAVE_NUMBER_S: Final = 5.0
_PRUNE_S: Final = 30.0
_PRUNE_IDLE_S: Final = 3_600.0
_TRIM_DEAD: Final = 5_000
"""New dead letters after which the oldest are deleted."""
_SHRINK_S: Final = 5.0


class Sweep:
    """Cleanup of the log, dead letters and keys."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        connections: Mapping[int, Receiver],
        registry: Registry,
        delivery: Delivery,
        quota: Quota,
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
        self._quota = quota
        self._publisher = publisher
        self._now_ms = now_ms
        self._topics: Iterator[Topic] = iter(())
        self._clients: Iterator[Client] = iter(())
        self._handle: asyncio.TimerHandle | None = None
        self._done_at: dict[str, float] = {}
        self._saved_number = 0
        self._stored = 0
        self._trimmed_dead = 0
        self._expiring = False
        self._deleting = False
        self._shrinking = False
        self._pruned_dead = 0
        self._has_free = True

    def start(self) -> None:
        """Start sweeping periodically."""
        self._handle = self._loop.call_later(SWEEP_S, self._tick, False)

    def stop(self) -> None:
        """Stop the cleanup."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self, busy: bool) -> None:
        busy = self.step(everything=not busy)
        self._handle = self._loop.call_later(BUSY_S if busy else SWEEP_S, self._tick, busy)

    def step(self, *, everything: bool = True) -> bool:
        """Run one step; return whether there is more to do.

        `everything` also visits the next clients and topics in which nothing has changed.
        """
        try:
            more = self._expire()
        except HubError:
            more = False  # the store cannot be read: the next step tries again
        if everything:
            self._visit_next()
        more |= self._free_private()
        more |= self._free_topics()
        self._delete_rows()
        self._save_number()
        self._prune()
        return more

    def _visit_next(self) -> None:
        """Visit clients and topics in turn: those that the limits or a restart have changed."""
        for client in self._next_clients():
            self._quota.trim(client)
            self._delivery.changed_clients[client] = None
            self._delivery.push(client)
        for topic in self._next_topics():
            self._delivery.changed_topics[topic] = None

    def _is_time(self, what: str, seconds: float) -> bool:
        now = self._loop.time()
        if now - self._done_at.setdefault(what, now) < seconds:
            return False
        self._done_at[what] = now
        return True

    def _save_number(self) -> None:
        last = self._publisher.numbers.last
        # While writing fails, a small write in each step finds out when it works again.
        if self._store.failures.writing or (
            last > self._saved_number and self._is_time("number", _SAVE_NUMBER_S)
        ):
            self._saved_number = last
            self._store.save_last_number(last)

    def _prune(self) -> None:
        dead = self._counters.dead.total()
        if dead - self._trimmed_dead >= _TRIM_DEAD:
            self._trimmed_dead = dead
            self._store.trim_dead_letters(MAX_DEAD_LETTERS)
            self._has_free = True
        if self._is_time("keys", _PRUNE_S):
            self._expire_keys()
        if self._is_time("prune", _PRUNE_S if dead > self._pruned_dead else _PRUNE_IDLE_S):
            self._pruned_dead = dead
            self._store.prune(self._now_ms() - self._limits.current.ttl_s * 1000)
            self._store.trim_dead_letters(MAX_DEAD_LETTERS)
            self._has_free = True
        if self._has_free and not self._shrinking and self._is_time("shrink", _SHRINK_S):
            self._has_free = False
            self._shrink()

    def _expire_keys(self) -> None:
        def done(more: bool) -> None:
            if more and self._handle is not None:
                self._expire_keys()

        self._publisher.keys.expire(done)

    def _shrink(self) -> None:
        def done(more: bool) -> None:
            self._shrinking = False
            if more and self._handle is not None:
                self._shrink()

        self._shrinking = True
        self._store.shrink(done)

    # -- expiry ------------------------------------------------------------------------------

    def _expire(self) -> bool:
        if self._expiring:  # the rows of the last step are still in the log
            return True
        now_ms = self._now_ms()
        dead: list[tuple[int, int, str, int]] = []
        unacked: list[tuple[Client, int]] = []
        expired: list[tuple[int, int]] = []
        rows = self._store.expired(now_ms, _EXPIRED)
        for number, target in rows:
            if unacked and len(unacked) >= _DEAD_LETTERS:
                break
            expired.append((number, target))
            unacked.extend((client, number) for client in self._without_ack(number, target))
        if not expired:
            return False
        dead = [
            (each.number, number, "expired", now_ms) for each, number in unacked if each.durable
        ]
        self._expiring = True

        def done(error: HubError | None) -> None:
            self._expiring = False
            if error is None:
                self._expired(unacked, expired)

        self._store.add_dead_letters(dead, [number for number, _ in expired], done)
        return len(expired) < len(rows) or len(rows) == _EXPIRED

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
        self._has_free = True
        self._counters.dead["expired"] += len(unacked)
        by_target: dict[int, list[int]] = {}
        for number, target in expired:
            by_target.setdefault(target, []).append(number)
        for target, numbers in by_target.items():
            if target < 0:
                client = self._registry.clients_by_number.get(-target)
                if client is not None and client.private:
                    _remove_numbers(client.private, numbers)
            else:
                topic = self._registry.topics_by_number.get(target)
                if topic is not None:
                    _remove_numbers(topic.numbers, numbers)
        for client, number in unacked:
            self._delivery.drop(client, [number])

    # -- deletion ----------------------------------------------------------------------------

    def _free_private(self) -> bool:
        """Free acknowledged private notifications; note the topics of the changed clients."""
        changed, topics = self._delivery.changed_clients, self._delivery.changed_topics
        visited = 0
        for client in list(islice(changed, _FREED)):
            if visited >= _FREED:
                break
            del changed[client]
            visited += 1 + len(client.subscriptions)
            for each in client.subscriptions.values():
                if each.topic.numbers:
                    topics[each.topic] = None
            if client.private:
                visited += len(client.private)
                acked = [each for each in client.private if not client.inbox.is_unacked(each)]
                _remove_numbers(client.private, acked)
                self._registry.deletable.extend(acked)
        return bool(changed)

    def _free_topics(self) -> bool:
        """Free what all subscribers of the changed topics have acknowledged."""
        changed = self._delivery.changed_topics
        freed = 0
        for topic in list(islice(changed, _TOPICS)):
            del changed[topic]
            freed += self._free_acked(topic)
            if freed >= _FREED:
                break
        return bool(changed)

    def _free_acked(self, topic: Topic) -> int:
        # The log of a topic is needed from the lowest number that any subscriber has not
        # acknowledged. The loop ends with the first subscriber that needs the first row: with a
        # busy topic that is found early, and the step stays short.
        numbers = topic.numbers
        if not numbers or not topic.subscribers:
            return 0
        first = numbers[0]
        needed = topic.last + 1
        for client, subscription in topic.subscribers.items():
            needed = min(needed, self._lowest_needed(client, subscription))
            if needed <= first:
                return self._free_middle(topic)
        count = bisect_left(numbers, needed)
        self._registry.deletable.extend(numbers[:count])
        del numbers[:count]
        return count

    def _lowest_needed(self, client: Client, subscription: Subscription) -> int:
        """Return the lowest number of a topic that this client may still need."""
        inbox = client.inbox
        if client.live and not inbox.spans:
            return min(inbox.holes, default=self._delivery.reached + 1)
        if inbox.holes:
            return inbox.lowest_needed()
        return max(inbox.cursor, subscription.start) + 1

    def _free_middle(self, topic: Topic) -> int:
        """Free what was acknowledged by all behind a notification that was not.

        One client that never acknowledges one notification would otherwise keep everything that is
        published after it. This looks at every subscriber and number, so it is done when the log
        has doubled.
        """
        numbers = topic.numbers
        if len(numbers) < max(topic.sparse_size, _SPARSE):
            return 0
        needed = bytearray(len(numbers))
        unsent: set[tuple[int, int]] = set()
        for client, subscription in topic.subscribers.items():
            for hole in client.inbox.holes:
                at = bisect_left(numbers, hole)
                if at < len(numbers) and numbers[at] == hole:
                    needed[at] = 1
            if client.live and not client.inbox.spans:
                continue  # everything was sent to it
            for after, up_to in client.inbox.gaps():
                begin = bisect_right(numbers, max(after, subscription.start))
                end = len(numbers) if up_to is None else bisect_right(numbers, up_to)
                if begin < end:
                    unsent.add((begin, end))
        for begin, end in unsent:
            needed[begin:end] = b"\x01" * (end - begin)
        free = [number for number, used in zip(numbers, needed, strict=True) if not used]
        _remove_numbers(numbers, free)
        self._registry.deletable.extend(free)
        topic.sparse_size = 2 * len(numbers)
        return len(needed)

    def _delete_rows(self) -> None:
        """Delete rows that nobody needs; go on when they are on disk."""
        deletable = self._registry.deletable
        if self._deleting or not deletable:
            return
        # Twice of what was stored since the last batch: however busy the hub is, the rows that
        # wait to be deleted become fewer.
        stored = self._counters.stored
        size = max(_DELETED, 2 * (stored - self._stored))
        self._stored = stored
        numbers = deletable[:size]
        del deletable[:size]

        def done(error: HubError | None) -> None:
            self._deleting = False
            if error is not None:
                deletable.extend(numbers)  # the next step tries again
            elif self._handle is not None:
                self._delete_rows()

        self._deleting = self._has_free = True
        self._store.delete(numbers, done)

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


def _remove_numbers(numbers: array[int], removed: Sequence[int]) -> None:
    """Remove some numbers from an ascending array: in one piece if they are one."""
    if not removed:
        return
    begin, end = bisect_left(numbers, min(removed)), bisect_right(numbers, max(removed))
    if end - begin == len(removed):
        del numbers[begin:end]
    else:
        gone = set(removed)
        kept = [number for number in numbers[begin:end] if number not in gone]
        numbers[begin:end] = array("q", kept)

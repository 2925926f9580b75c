"""The sweep: cleanup in the background, in steps small enough not to delay the event loop.

- Expired notifications become dead letters of every client that has not acknowledged them.
- Notifications that every subscriber has acknowledged are deleted.
- Old keys and dead letters are deleted, and the database gives free space back.

Each step is bounded. It visits the topics in which something has changed
(`Delivery.changed_topics`); while a step leaves work, the next one follows after `BUSY_S` instead
of `SWEEP_S`. Rows are deleted in batches, the next when the last is on disk, each with twice the
rows that were stored meanwhile. So deletion keeps pace with publishing.

Correctness does not depend on that: delivery checks the expiry itself, and a row that is deleted
late only takes space.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from ..config import ActiveLimits
from ..eager import Background
from ..errors import HubError
from ..observe.counters import Counters
from ..store import Store
from ..store.interface import (
    AddDeadLetters,
    Delete,
    DeleteAcked,
    Notify,
    PruneDeadLetters,
    RemoveAccount,
    RemoveTopics,
    SaveTransient,
    Source,
    SubscriberRow,
)
from .delivery import Delivery
from .publishing import Publisher
from .subscriptions import Client, Inbox, Registry

__all__ = ["BUSY_S", "MAX_DEAD_LETTERS", "SWEEP_S", "Sweep"]

SWEEP_S: Final = 0.5
"""Seconds between two steps."""
BUSY_S: Final = 0.02
"""Seconds between two steps while there is more to do: a step takes up to five milliseconds, so
others have three quarters of the time."""
MAX_DEAD_LETTERS: Final = 100_000
"""Dead letters kept. Beyond that the oldest are deleted; after `Limits.ttl_s` all are."""

# Bounds of one step. Two limits for expiry: one expired row of a topic with a million subscribers
# makes a million dead letters, so rows alone would not bound it.
_EXPIRED: Final = 2_000
_EXPIRED_TOGETHER: Final = 100
"""Expired rows of a topic for which its subscribers are read once."""
_DEAD_LETTERS: Final = 5_000
_DELETED: Final = 2_000
_TOPICS: Final = 50
_SUBSCRIBERS: Final = 2_000
"""Subscribers looked at in one read."""
_SPARSE: Final = 1_024
"""Length of a log up to which acknowledged notifications in its middle may stay."""
_MAX_LAGGING: Final = 1_000
"""Subscribers that lag behind up to which the middle of a log is looked at: with more, hardly
anything in it is acknowledged by all."""
_PATIENCE: Final = 20
"""Looking at all subscribers of a topic may take one twentieth of the time."""
# Work that is not done in every step: the last number every 5 s (`topics._CLOCK_BACK` relies on
# it), expired keys every 30 s; old dead letters, too, and every hour when there are no new ones,
# because that scans their tables.
_SAVE_NUMBER_S: Final = 5.0
_PRUNE_S: Final = 30.0
_PRUNE_IDLE_S: Final = 3_600.0
_TRIM_DEAD: Final = 5_000
"""New dead letters after which the oldest are deleted."""
_SHRINK_S: Final = 5.0
_TOLD: Final = 350
"""Numbers in one message to other hubs."""
_END: Final = 1 << 62
"""Higher than any number."""


class Sweep:
    """Cleanup of the log, dead letters and keys."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        limits: ActiveLimits,
        counters: Counters,
        registry: Registry,
        delivery: Delivery,
        publisher: Publisher,
        now_ms: Callable[[], int],
        background: Background,
        count_due: Callable[[Sequence[int]], None],
    ):
        self._store = store
        self._loop = loop
        self._limits = limits
        self._counters = counters
        self._registry = registry
        self._delivery = delivery
        self._publisher = publisher
        self._count_due = count_due
        self._now_ms = now_ms
        self._background = background
        self._stopped = True
        self._handle: asyncio.TimerHandle | None = None
        self._done_at: dict[str, float] = {}
        self._saved_number = 0
        self._stored = 0
        self._trimmed_dead = 0
        self._pruned_dead = 0
        self._visited_topic = 0
        self._not_before: dict[int, float] = {}
        """Topics whose subscribers were all looked at, and when that may be done again."""
        self._sparse_size: dict[int, int] = {}
        """Length of a topic's log at which its middle is looked at."""
        self._shrinking = False
        self._has_free = True

    def start(self) -> None:
        """Start sweeping periodically."""
        self._stopped = False
        self._handle = self._loop.call_later(SWEEP_S, self._tick, False)

    def stop(self) -> None:
        """Stop the cleanup."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self, busy: bool) -> None:
        self._handle = None
        self._background.start(self._run(busy))

    async def _run(self, busy: bool) -> None:
        try:
            busy = await self.step(everything=not busy)
        except HubError:
            busy = False  # the store cannot be read or written: the next step tries again
        if not self._stopped:
            self._handle = self._loop.call_later(BUSY_S if busy else SWEEP_S, self._tick, busy)

    async def step(self, *, everything: bool = True) -> bool:
        """Run one step; return whether there is more to do.

        `everything` also visits the next topics in which nothing has changed.
        """
        self._save_number()
        cluster = self._store.cluster
        leads = cluster is None or cluster.leads
        more = leads and await self._expire()
        if everything:
            await self._visit_next()
        more |= await self._free_topics()
        if leads:
            more |= await self._remove_topics()
            self._prune()
            await self._remove_temporary()
        return more

    async def _remove_temporary(self) -> None:
        """Remove clients of connections without sign-on whose hub has ended without doing so."""
        if self._store.cluster is not None and self._is_time("temporary", _PRUNE_S):
            for id_ in await self._store.temporary():
                self._store.write(RemoveAccount("client", id_))

    async def _visit_next(self) -> None:
        """Visit topics in turn: those that a restart, or a removed client, has changed."""
        topics = await self._store.topics(self._visited_topic, _TOPICS)
        self._visited_topic = topics[-1] if len(topics) == _TOPICS else 0
        self._delivery.changed_topics.update(dict.fromkeys(topics))
        # Subscribers that were due while a hub had them that was killed: nobody has counted them,
        # and perhaps no publish follows.
        if self._store.cluster is not None:
            self._count_due(topics)

    def _is_time(self, what: str, seconds: float) -> bool:
        now = self._loop.time()
        if now - self._done_at.setdefault(what, now) < seconds:
            return False
        self._done_at[what] = now
        return True

    def _save_number(self) -> None:
        last = self._publisher.transient.last
        # While writing fails, a small write in each step finds out when it works again.
        if self._store.failures.writing or (
            last > self._saved_number and self._is_time("number", _SAVE_NUMBER_S)
        ):
            self._saved_number = last
            self._store.write(SaveTransient(last))

    def _prune(self) -> None:
        dead = self._counters.dead.total()
        if self._is_time("keys", _PRUNE_S):
            self._expire_keys()
        trim = dead - self._trimmed_dead >= _TRIM_DEAD
        if trim or self._is_time("prune", _PRUNE_S if dead > self._pruned_dead else _PRUNE_IDLE_S):
            self._trimmed_dead = self._pruned_dead = dead
            before_ms = int(self._now_ms() - self._limits.current.ttl_s * 1000)
            self._store.write(PruneDeadLetters(before_ms, MAX_DEAD_LETTERS))
            self._has_free = True
        if self._has_free and not self._shrinking and self._is_time("shrink", _SHRINK_S):
            self._has_free = False
            self._shrink()

    def _expire_keys(self) -> None:
        def done(more: bool) -> None:
            if more and not self._stopped:
                self._expire_keys()

        self._publisher.keys.expire(done)

    def _shrink(self) -> None:
        def done(more: bool) -> None:
            self._shrinking = False
            if more and not self._stopped:
                self._shrink()

        self._shrinking = True
        self._store.shrink(done)

    # -- expiry ------------------------------------------------------------------------------

    async def _expire(self) -> bool:
        rows = await self._store.expired(self._now_ms(), _EXPIRED)
        by_target: dict[int, list[int]] = {}
        for number, target in rows:
            by_target.setdefault(target, []).append(number)
        for target, numbers in by_target.items():
            numbers.sort()
            if target > 0:
                for at in range(0, len(numbers), _EXPIRED_TOGETHER):
                    await self._expire_topic(target, numbers[at : at + _EXPIRED_TOGETHER])
            else:
                await self._expire_private(-target, numbers)
        self._has_free |= bool(rows)
        return len(rows) == _EXPIRED

    async def _expire_topic(self, topic: int, numbers: list[int]) -> None:
        # The rows are deleted after the last dead letter: a crash in between repeats the dead
        # letters, which the store has once for each client and number.
        page = max(1, _DEAD_LETTERS // len(numbers))
        after = 0
        while True:
            rows, after = await self._store.lagging(topic, numbers[-1], after, page)
            unacked: list[tuple[int, int]] = []
            for row in rows:
                inbox = self._inbox_of(row)
                unacked.extend(
                    (row.client, number)
                    for number in numbers
                    if number > row.start and inbox.is_unacked(number)
                )
            await self._add_dead_letters(unacked, () if after else numbers)
            if not after:
                return
            await asyncio.sleep(0)  # those that were read may have acknowledged all of them

    async def _expire_private(self, number: int, numbers: list[int]) -> None:
        client = self._served(number)
        if client is None:
            loaded = await self._store.load_client(number)
            saved = loaded.inbox
            inbox = Inbox() if saved is None else Inbox.unpack(saved.cursor, saved.state)
            exists = loaded.row is not None
        else:
            inbox, exists = client.inbox, True
        unacked = [(number, each) for each in numbers if exists and inbox.is_unacked(each)]
        await self._add_dead_letters(unacked, numbers)

    def _served(self, number: int) -> Client | None:
        """Return a client that is in memory, if no other hub can have it."""
        # Of several hubs, one that was paused may still have clients in memory that others serve,
        # with acknowledgements that were never stored.
        client = self._registry.clients_by_number.get(number)
        alone = self._store.cluster is None
        return client if client is not None and client.loaded and alone else None

    def _inbox_of(self, row: SubscriberRow) -> Inbox:
        client = self._served(row.client)
        if client is not None:  # what it has acknowledged may not be saved yet
            return client.inbox
        return Inbox.unpack(row.cursor, row.state) if row.state else Inbox(row.cursor)

    async def _add_dead_letters(
        self, unacked: Sequence[tuple[int, int]], deleted: Sequence[int]
    ) -> None:
        if not unacked and not deleted:
            return
        now_ms = self._now_ms()
        letters: list[tuple[int, int, str, int]] = []
        found: list[tuple[Client, int]] = []
        anonymous = 0
        for number, each in unacked:
            client = self._registry.clients_by_number.get(number)
            if client is not None and client.loaded:
                found.append((client, each))
            if client is None or client.durable:
                letters.append((number, each, "expired", now_ms))
            else:
                anonymous += 1
        added = await self._store.execute(AddDeadLetters(tuple(letters), tuple(deleted)))
        self._counters.dead["expired"] += added + anonymous
        if self._store.cluster is not None:
            for at in range(0, len(deleted), _TOLD):
                numbers = map(str, deleted[at : at + _TOLD])
                self._store.write(Notify(" ".join(("expired", *numbers))))
        for client, each in found:
            self._delivery.drop(client, [each])

    # -- deletion ----------------------------------------------------------------------------

    async def _free_topics(self) -> bool:
        """Delete what all subscribers of the changed topics have acknowledged."""
        changed = self._delivery.changed_topics
        now = self._loop.time()
        looked_at = 0
        for topic in list(changed):
            if self._not_before.get(topic, 0.0) > now:
                continue
            del changed[topic]
            await self._free(topic)
            looked_at += 1
            if looked_at >= _TOPICS:
                return True
        return False

    async def _free(self, topic: int) -> None:
        first = await self._store.numbers([Source(topic, 0)], _END, 1)
        if not first:
            self._sparse_size.pop(topic, None)
            return
        # The log of a topic is needed from the lowest number that any subscriber has not
        # acknowledged. What they need only grows, so the subscribers need not be read at once.
        began = self._loop.time()
        needed, after, pages = self._delivery.reached + 1, 0, 0
        while True:
            after, lowest = await self._store.needed(topic, after, _SUBSCRIBERS)
            if lowest is not None:
                needed = min(needed, lowest)
            if not after or needed <= first[0]:
                break
            pages += 1
            await asyncio.sleep(0)
        if pages:
            self._not_before[topic] = self._loop.time() + _PATIENCE * (self._loop.time() - began)
            self._delivery.changed_topics[topic] = None
        else:
            self._not_before.pop(topic, None)
        if needed > first[0]:
            if needed > self._delivery.reached:  # all of it, perhaps for ever
                self._sparse_size.pop(topic, None)
            await self._delete_acked(topic, needed)
        else:
            await self._free_middle(topic)

    async def _delete_acked(self, topic: int, below: int) -> None:
        while True:
            # Twice of what was stored since the last batch: however busy the hub is, the rows that
            # wait to be deleted become fewer.
            stored = self._counters.stored
            limit = max(_DELETED, 2 * (stored - self._stored))
            self._stored = stored
            self._has_free = True
            if await self._store.execute(DeleteAcked(topic, below, limit)) < limit:
                return

    async def _free_middle(self, topic: int) -> None:
        """Delete what was acknowledged by all behind a notification that was not.

        One client that never acknowledges one notification would otherwise keep everything that is
        published after it. This looks at every number, so it is done when the log has doubled.
        """
        size = max(self._sparse_size.get(topic, 0), _SPARSE)
        if await self._store.count([Source(topic, 0)], _END) < size:
            return
        numbers = await self._store.numbers([Source(topic, 0)], self._delivery.reached, 1 << 31)
        rows, _ = await self._store.lagging(topic, _END, 0, _MAX_LAGGING)
        if not numbers or len(rows) == _MAX_LAGGING:
            self._sparse_size[topic] = 2 * size
            return
        needed = bytearray(len(numbers))
        for row in rows:
            client = self._served(row.client)
            inbox = self._inbox_of(row)
            for hole in inbox.holes:
                at = bisect_left(numbers, hole)
                if at < len(numbers) and numbers[at] == hole:
                    needed[at] = 1
            if client is not None and client.live and not inbox.spans:
                continue  # everything was sent to it
            for after, up_to in inbox.gaps():
                begin = bisect_right(numbers, max(after, row.start))
                end = len(numbers) if up_to is None else bisect_right(numbers, up_to)
                needed[begin:end] = b"\x01" * max(0, end - begin)
        free = [number for number, used in zip(numbers, needed, strict=True) if not used]
        self._sparse_size[topic] = 2 * (len(numbers) - len(free))
        for at in range(0, len(free), _DELETED):
            await self._store.execute(Delete(tuple(free[at : at + _DELETED])))

    async def _remove_topics(self) -> bool:
        if not await self._store.has_removed_topics():
            return False
        deleted: int = await self._store.execute(RemoveTopics(_DELETED))
        self._has_free |= deleted > 0
        return deleted == _DELETED

"""The quota: no client keeps a backlog of more than `Limits.inbox`.

Counting every subscriber's backlog with every publish would cost as much as a row per subscriber.
Instead, each subscription has an allowance: the notifications that may be appended to the topic
before the client is counted again. The invariant:

    backlog + the sum of its allowances <= Limits.inbox

A notification raises the backlog by one and uses up one of an allowance. When an allowance is used
up, the client is *due*: it is counted, what is too much becomes dead letters, and half of what is
free is the next allowance. So a client is counted about fifteen times while its backlog grows to
10,000. The store has the subscriptions of a topic in the order in which they are due, and says with
a publish whether one is.

Due clients are counted in the background, right after the publish. A backlog is also counted before
it is read or shown, so nobody sees a longer one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from ..config import ActiveLimits, Limits
from ..eager import Background
from ..errors import HubError
from ..store import Store
from ..store.interface import Notify, SetChecks
from .delivery import Delivery
from .subscriptions import Client

__all__ = ["Quota", "allowance"]

_STEPS: Final = 64
"""A backlog that is full is cut by a 64th more than necessary. Otherwise every publish would count
it again, sort its unacknowledged notifications and write a dead letter: 10,000 clients that are
offline would delay each publish by a tenth of a second."""
_DUE: Final = 50
"""Clients counted in one step: a few milliseconds."""
_END: Final = 1 << 62
"""Higher than any number."""
_TOLD: Final = 350
"""Topics in one message; others are told with the next publish."""
_PRIVATE: Final = 100_000
"""Clients whose allowance for private notifications is remembered."""


def allowance(limits: Limits) -> int:
    """Return the allowance of a new subscription."""
    # Small: a client may have many, and its backlog is not counted for it.
    return limits.inbox // (4 * limits.subscriptions)


class Quota:
    """Trims backlogs to `Limits.inbox`."""

    def __init__(
        self,
        store: Store,
        limits: ActiveLimits,
        delivery: Delivery,
        loaded: Callable[[int], AbstractAsyncContextManager[Client | None]],
        background: Background,
    ):
        self._store = store
        self._limits = limits
        self._delivery = delivery
        self._loaded = loaded
        self._background = background
        self._topics: dict[int, None] = {}
        """Topics with subscribers that are due."""
        self._told: dict[int, None] = {}
        """Topics that other hubs are told about."""
        self._clients: dict[int, None] = {}
        """Clients whose private notifications are to be counted."""
        self._private: OrderedDict[int, int] = OrderedDict()
        """Private notifications that may be stored before a client is counted, by its number."""
        self._trimming: dict[Client, list[asyncio.Future[None]]] = {}
        """Clients that are being trimmed, and who waits for that."""
        self.running = False
        """Whether clients are being counted."""
        self._spread = 0

    @property
    def limit(self) -> int:
        """How many notifications a client may have waiting."""
        return self._limits.current.inbox

    # -- what changes a backlog --------------------------------------------------------------

    def check_topic(self, topic: int, *, tell: bool = True) -> None:
        """Count the subscribers of a topic that are due; `tell` other hubs to count theirs."""
        self._topics[topic] = None
        if tell and self._store.cluster is not None:
            self._told[topic] = None

    def appended_private(self, client: int) -> None:
        """Count a client if it is due, after a notification for it alone was stored."""
        left = self._private.get(client, 0)
        if left:
            self._private[client] = left - 1
        else:
            self._clients[client] = None

    async def trim(self, client: Client) -> int:
        """Turn the oldest notifications beyond the quota into dead letters; return what waits."""
        # One at a time for a client: two that have counted the same backlog would both trim it.
        while client in self._trimming:
            done = asyncio.get_running_loop().create_future()
            self._trimming[client].append(done)
            await done
        self._trimming[client] = []
        try:
            return await self._trim(client)
        finally:
            for each in self._trimming.pop(client):
                if not each.done():
                    each.set_result(None)

    async def _trim(self, client: Client) -> int:
        limit = self.limit
        waiting = await self._delivery.count(client)
        excess = waiting - limit
        if excess <= 0:
            return waiting
        oldest = await self._delivery.next_numbers(client, 0, excess + limit // _STEPS, holes=True)
        self._delivery.dead_letter(client, oldest, "quota")
        return waiting - len(oldest)

    # -- counting in the background ----------------------------------------------------------

    def start(self) -> None:
        """Count who is due, at the end of a batch: what was published in it is released."""
        if self._told:
            told, self._told = list(self._told)[:_TOLD], {}
            self._store.write(Notify(" ".join(map(str, ("due", *told)))))
        if not self.running and (self._topics or self._clients):
            self.running = True
            self._background.start(self._run())

    async def _run(self) -> None:
        try:
            while self._topics or self._clients:
                for topic in list(self._topics):
                    await self._count_due(topic)
                clients, self._clients = self._clients, {}
                for at, number in enumerate(clients):
                    await self._count_private(number)
                    if at % _DUE == _DUE - 1:
                        await asyncio.sleep(0)
        except HubError:
            pass  # the store cannot be read: the next publish tries again
        finally:
            self.running = False

    async def _count_due(self, topic: int) -> None:
        due = await self._store.due(topic, _DUE)
        if not due:
            self._topics.pop(topic, None)
            return
        checks: list[tuple[int, int, int]] = []
        for number in due:
            async with self._loaded(number) as client:
                if client is not None:
                    checks.append((number, topic, await self._next_check(client, topic)))
        if checks:
            await self._store.execute(SetChecks(tuple(checks)))
        else:
            self._topics.pop(topic, None)

    async def _count_private(self, number: int) -> None:
        async with self._loaded(number) as client:
            if client is None:
                return
            # What is stored for it meanwhile makes it due again.
            self._private.pop(number, None)
            checks = await self._store.checks(number)
            self._private[number] = await self._allowance(client, 0, checks)
        self._private.move_to_end(number)
        if len(self._private) > _PRIVATE:
            self._private.popitem(last=False)

    async def _next_check(self, client: Client, topic: int) -> int:
        """Trim a client; return when its subscription is due again."""
        checks = await self._store.checks(client.number)
        appended = next((each[1] for each in checks if each[0] == topic), 0)
        return appended + 1 + await self._allowance(client, topic, checks)

    async def _allowance(
        self, client: Client, topic: int, checks: list[tuple[int, int, int]]
    ) -> int:
        """Trim a client; return how many notifications may follow before it is counted again."""
        limit = self.limit
        # What is on disk and not released yet counts, too. What is released between the two counts
        # counts twice: the next check comes earlier.
        reached = self._delivery.reached
        waiting = await self.trim(client)
        waiting += await self._store.count(client.sources(reached), _END)
        left = {
            number: due_at - appended - 1
            for number, appended, due_at in checks
            if number != topic and due_at - appended > 1
        }
        granted = self._private.get(client.number, 0) + sum(left.values())
        if granted and limit - waiting - granted < 2:
            # Its other topics do not use them. A burst in one batch may have used more than was
            # granted: then all of them.
            share = 2 if waiting + granted <= limit else granted + 1
            granted = self._take_back(client, checks, left, share)
        free = max(0, limit - waiting - granted) // 2
        # Between half of it and all of it: clients that subscribe together are not due together.
        self._spread = (self._spread + 40_503) & 0xFFFF
        return free - (free * self._spread >> 17)

    def _take_back(
        self, client: Client, checks: list[tuple[int, int, int]], left: dict[int, int], share: int
    ) -> int:
        """Reduce each of a client's allowances to a share of it; return their sum."""
        reduced = [
            (client.number, topic, appended + 1 + left[topic] // share)
            for topic, appended, _ in checks
            if topic in left
        ]
        self._store.write(SetChecks(tuple(reduced)))
        if client.number in self._private:
            self._private[client.number] //= share
        return self._private.get(client.number, 0) + sum(each // share for each in left.values())

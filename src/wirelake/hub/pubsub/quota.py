"""The quota: no client has a backlog of more than `Limits.inbox`, at any time.

It is enforced when a notification is added to a log, in the same turn of the loop. Counting every
subscriber's backlog with every publish would cost as much as a row per subscriber. Instead, each
subscription has an allowance: the notifications that may be added to the topic before the client is
counted again. The invariant:

    backlog + the sum of its allowances <= Limits.inbox

A notification raises the backlog by one and uses up one of an allowance. When an allowance is used
up, the client is counted: what is too much becomes dead letters, and half of what is free is the
next allowance. So a client is counted about fifteen times while its backlog grows to 10,000. A
topic has its clients in a heap, by the notification at which they are due; a publish compares one
number if nobody is.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from ..config import ActiveLimits
from .delivery import Delivery
from .subscriptions import Client, Registry, Subscription, Topic

__all__ = ["Quota"]

_STEPS: Final = 64
"""A backlog that is full is cut by a 64th more than necessary. Otherwise every publish would count
it again, sort its unacknowledged notifications and write a dead letter: 10,000 clients that are
offline would delay each publish by a tenth of a second."""
_MANY: Final = 1_000
"""Subscribers from which on a topic has its heap before the first publish, which would otherwise
count them all."""


class Quota:
    """Trims backlogs to `Limits.inbox`."""

    def __init__(self, limits: ActiveLimits, registry: Registry, delivery: Delivery):
        self._limits = limits
        self._registry = registry
        self._delivery = delivery
        self._limit = limits.current.inbox
        self._entries = 0
        self._spread = 0

    # -- what changes a backlog --------------------------------------------------------------

    def load(self) -> None:
        """Trim what a crash, or a lower limit, has left too long."""
        for client in self._registry.clients.values():
            self.trim(client)
        for topic in self._registry.topics.values():
            if len(topic.subscribers) >= _MANY:
                self._schedule_all(topic)

    def appended(self, topic: Topic) -> None:
        """Count the clients that are due, after a notification was added to the topic's log."""
        topic.appended += 1
        if self._limit != self._limits.current.inbox:
            self._change_limit()
        if topic.due is None:
            self._schedule_all(topic)
            return
        while topic.due and topic.due[0][0] <= topic.appended:
            at, _, client = heappop(topic.due)
            subscription = topic.subscribers.get(client)
            if subscription is not None and subscription.check_at == at:
                self._schedule(client, subscription)

    def appended_private(self, client: Client) -> None:
        """Count a client if it is due, after a notification for it alone was stored."""
        if self._limit != self._limits.current.inbox:
            self._change_limit()
        if client.allowance:
            client.allowance -= 1
        else:
            client.allowance = self._allowance(client)

    def subscribed(self, client: Client, subscription: Subscription) -> None:
        """Give a new subscription its allowance."""
        topic = subscription.topic
        if topic.due is not None:
            self._schedule(client, subscription)
        elif len(topic.subscribers) >= _MANY:
            self._schedule_all(topic)

    def trim(self, client: Client) -> int:
        """Turn the oldest notifications beyond the quota into dead letters; return what waits."""
        waiting = client.waiting()
        excess = waiting - self._limit
        if excess <= 0:
            return waiting
        oldest = client.next_numbers(0, excess + self._limit // _STEPS, holes=True)
        self._delivery.dead_letter(client, oldest, "quota")
        return waiting - len(oldest)

    # -- allowances --------------------------------------------------------------------------

    def _schedule(self, client: Client, subscription: Subscription) -> None:
        topic = subscription.topic
        subscription.check_at = 0
        subscription.check_at = at = topic.appended + self._allowance(client) + 1
        self._add(topic, at, client)

    def _schedule_all(self, topic: Topic) -> None:
        topic.due = []
        for client, subscription in tuple(topic.subscribers.items()):
            self._schedule(client, subscription)

    def _allowance(self, client: Client) -> int:
        """Trim a client; return how many notifications may be added before it is counted again."""
        waiting = self.trim(client)
        granted = _granted(client)
        if granted and self._limit - waiting - granted < 2:
            granted = self._halve(client)
        free = max(0, self._limit - waiting - granted) // 2
        # Between half of it and all of it: clients that subscribe together are not due together.
        self._spread = (self._spread + 40_503) & 0xFFFF
        return free - (free * self._spread >> 17)

    def _halve(self, client: Client) -> int:
        """Take back half of a client's allowances: its other topics do not use them."""
        client.allowance //= 2
        for each in client.subscriptions.values():
            left = each.check_at - each.topic.appended - 1
            if left > 0 and each.topic.due is not None:
                each.check_at = at = each.topic.appended + left // 2 + 1
                self._add(each.topic, at, client)
        return _granted(client)

    def _add(self, topic: Topic, at: int, client: Client) -> None:
        """Add an entry; the one it replaces stays in the heap, and is ignored when it is due."""
        assert topic.due is not None
        self._entries += 1  # makes entries different, so that clients are not compared
        heappush(topic.due, (at, self._entries, client))
        if len(topic.due) > 2 * len(topic.subscribers) + _STEPS:
            topic.due = [
                (subscription.check_at, number, each)
                for number, (each, subscription) in enumerate(topic.subscribers.items())
                if subscription.check_at
            ]
            heapify(topic.due)

    def _change_limit(self) -> None:
        """Count everybody again: allowances were computed for another limit."""
        self._limit = self._limits.current.inbox
        for topic in self._registry.topics.values():
            topic.due = None
            for subscription in topic.subscribers.values():
                subscription.check_at = 0
        for client in self._registry.clients.values():
            client.allowance = 0


def _granted(client: Client) -> int:
    """Return the sum of a client's allowances."""
    return client.allowance + sum(
        max(0, each.check_at - each.topic.appended - 1) for each in client.subscriptions.values()
    )

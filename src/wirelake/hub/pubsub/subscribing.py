"""Changes of subscriptions, in memory and in the store: all requested topics or none.

Changes of one client's subscriptions run one after the other; a request that arrives while one is
being written waits for it. So memory and store agree after each, whether it succeeds or fails.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..config import ActiveLimits
from ..errors import HubError
from ..store import Store, SubscriptionRow
from .delivery import Delivery, Fanout
from .notifications import check_topics
from .publishing import Publisher
from .quota import Quota
from .subscriptions import Client, Receiver, Registry, Subscription, Topic

__all__ = ["Changed", "Subscriber"]

_log = logging.getLogger(__name__)

Changed: TypeAlias = Callable[[int | HubError], None]
"""Called once, on the loop, with the number of topics the client has."""


class Subscriber:
    """Changes the subscriptions of clients."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        delivery: Delivery,
        quota: Quota,
        fanout: Fanout,
        publisher: Publisher,
        limits: ActiveLimits,
    ):
        self._store = store
        self._limits = limits
        self._registry = registry
        self._delivery = delivery
        self._quota = quota
        self._fanout = fanout
        self._publisher = publisher

    def subscribe(
        self,
        connection: Receiver,
        names: Sequence[str],
        ack: bool,
        done: Changed,
    ) -> None:
        """Subscribe a connection's client to all of these topics, or to none.

        Where the protocol does not attach a connection at sign-on, it is attached here, after
        `done` was called: the backlog follows the answer.
        """
        client = connection.client
        if client is None:
            done(HubError("auth_required"))
            return

        def subscribed(result: int | HubError) -> None:
            done(result)
            if not isinstance(result, HubError) and not connection.acks_all and connection.open:
                self._delivery.attach(connection)

        self._change(client, lambda: self._subscribe(client, names, ack, subscribed), done)

    def revoke(self, client: Client) -> list[str]:
        """End the subscriptions that a client has no right to any more; return their topics."""
        rights = client.rights
        if rights is None:
            return []
        names = [name for name in client.subscriptions if not rights.subscribes(name)]

        def done(result: int | HubError) -> None:
            if isinstance(result, HubError):
                _log.error("client %s: subscriptions not ended: %s", client.id, result)

        if names:
            self._run_change(client, lambda: self._unsubscribe(client, names, done))
        return names

    def unsubscribe(self, connection: Receiver, names: Sequence[str], done: Changed) -> None:
        """End subscriptions; the client's backlog of those topics is dropped, including what was
        pushed and not acknowledged."""
        client = connection.client
        if client is None:
            done(HubError("auth_required"))
            return
        self._change(client, lambda: self._unsubscribe(client, names, done), done)

    def _change(self, client: Client, change: Callable[[], None], done: Changed) -> None:
        """Run changes of one client's subscriptions one after the other."""
        refusal = None if client.rights is None else client.rights.change()
        if client.changes is not None and len(client.changes) >= self._limits.current.calls:
            refusal = HubError("too_busy")
        if refusal is not None:
            done(refusal)
        else:
            self._run_change(client, change)

    def _run_change(self, client: Client, change: Callable[[], None]) -> None:
        # None: no change is being written, which is nearly always so; a deque per client would add
        # 760 bytes to each.
        if client.changes is not None:
            client.changes.append(change)
            return
        client.changes = deque([change])
        self._next_change(client)

    def _next_change(self, client: Client) -> None:
        if client.changes:
            client.changes.popleft()()
        else:
            client.changes = None

    def _changed(self, client: Client, done: Changed, result: int | HubError) -> None:
        try:
            done(result)
        finally:
            self._next_change(client)

    def _subscribe(self, client: Client, names: Sequence[str], ack: bool, done: Changed) -> None:
        try:
            self._check_subscribe(client, names)
        except HubError as error:
            self._changed(client, done, error)
            return
        # Memory first: what is published from now on counts, although the subscription is on disk
        # only after the next commit. If it cannot be written, `before` is restored.
        before = {name: client.subscriptions.get(name) for name in names}
        start = self._publisher.numbers.last
        # A repeated subscribe keeps its start, so that its backlog stays; only `ack` changes.
        for name, old in before.items():
            self._add(
                client, self._registry.topic(name), old.start if old is not None else start, ack
            )
        if not client.durable:
            self._changed(client, done, len(client.subscriptions))
            return
        rows = []
        for name in before:
            subscription = client.subscriptions[name]
            topic = subscription.topic
            if not topic.stored:
                self._store.add_topic(topic.number, name)
            rows.append(SubscriptionRow(client.number, topic.number, subscription.start, ack))

        def written(error: HubError | None) -> None:
            if error is None:
                for row in rows:
                    if row.topic in self._registry.topics_by_number:
                        self._registry.topics_by_number[row.topic].stored = True
                self._changed(client, done, len(client.subscriptions))
                return
            for name, old in before.items():
                if name not in client.subscriptions:  # the client was removed meanwhile
                    continue
                if old is None:
                    self._remove(client, name)
                else:
                    client.subscriptions[name].ack = old.ack
            self._changed(client, done, error)

        self._store.subscribe(rows, written)

    def _check_subscribe(self, client: Client, names: Sequence[str]) -> None:
        if self._publisher.closed:
            raise HubError("closing")
        check_topics(names)
        if client.rights is not None:
            client.rights.check_subscribe(names)
        limits = self._limits.current
        topics = list(dict.fromkeys([*client.subscriptions, *names]))
        if len(topics) > limits.subscriptions:
            raise HubError("bad_arguments", "too many topics for one client")
        if not self._limits.topics_fit(topics):
            raise HubError("bad_arguments", "topics do not fit the frames of every protocol")
        new = self._registry.new_topics(names)
        if new and len(self._registry.topics) + new > limits.topics:
            raise HubError("too_busy", "too many topics on this hub")

    def _unsubscribe(self, client: Client, names: Sequence[str], done: Changed) -> None:
        try:
            if self._publisher.closed:
                raise HubError("closing")
            subscribed = [name for name in dict.fromkeys(names) if name in client.subscriptions]
            # What is subscribed can be ended, although an earlier version allowed other names.
            if len(subscribed) < len(names) or not names:
                check_topics([name for name in names if name not in client.subscriptions])
        except HubError as error:
            self._changed(client, done, error)
            return

        # Store first: a subscription that could not be removed must go on receiving.

        def written(error: HubError | None) -> None:
            if error is None:
                for name in subscribed:
                    if name in client.subscriptions:
                        self._remove(client, name)
            self._changed(client, done, error or len(client.subscriptions))

        if not client.durable or not subscribed:
            written(None)
            return
        topics = [client.subscriptions[name].topic.number for name in subscribed]
        self._store.unsubscribe(client.number, topics, written)

    def _add(self, client: Client, topic: Topic, start: int, ack: bool) -> None:
        subscription = Subscription(topic, start, ack)
        topic.subscribers[client] = client.subscriptions[topic.name] = subscription
        self._quota.subscribed(client, subscription)
        if client.receiver is None:
            return
        if client.live:
            self._fanout.flush()  # published before the subscription
            topic.add_live(client.receiver)
        else:
            topic.held[client] = None

    def _remove(self, client: Client, name: str) -> None:
        """Remove a subscription, with its part of the backlog."""
        subscription = client.subscriptions.pop(name)
        topic = subscription.topic
        topic.subscribers.pop(client, None)
        topic.held.pop(client, None)
        if client.receiver is not None:
            self._fanout.flush()
            topic.remove_live(client.receiver)
        # Holes of this topic would be pushed again, and would keep its log from being deleted.
        self._delivery.drop(client, [each for each in client.inbox.holes if topic.has(each)])
        self._delivery.changed_topics[topic] = None
        self._registry.drop_unused(topic)

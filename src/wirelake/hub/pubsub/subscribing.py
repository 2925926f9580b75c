"""Subscribing: a client's topics, in memory and in the store, all or none of what was asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from wirelake.protocols.comet.limits import topics_fit

from ..errors import HubError
from ..store import SubscriptionRow
from .clients import Client, Subscription
from .delivery import Delivery
from .fanout import Fanout, Topic
from .publication import check_topics
from .publishing import Publisher
from .registry import Registry

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.connection import Connection

__all__ = ["Changed", "Subscriber"]

Changed: TypeAlias = Callable[[int | HubError], None]
"""Called once, on the loop, with how many topics the client has."""


class Subscriber:
    """Gives topics to clients, and takes them."""

    def __init__(
        self,
        hub: Hub,
        registry: Registry,
        delivery: Delivery,
        fanout: Fanout,
        publisher: Publisher,
    ):
        self._hub = hub
        self._store = hub.store
        self._registry = registry
        self._delivery = delivery
        self._fanout = fanout
        self._publisher = publisher

    def subscribe(
        self,
        connection: Connection,
        names: Sequence[str],
        ack: bool,
        done: Changed,
    ) -> None:
        """Gives the client these topics, all or none; `done` gets how many it has then.

        Where the protocol has no sign-on of its own for it, the connection is attached: it gets
        what waits after `done` was called.
        """
        client = connection.client
        if client is None:
            done(HubError("auth_required"))
            return

        def told(result: int | HubError) -> None:
            done(result)
            if not isinstance(result, HubError) and not connection.acks_all and connection.open:
                self._delivery.attach(connection)

        self._change(client, lambda: self._subscribe(client, names, ack, told), done)

    def unsubscribe(self, connection: Connection, names: Sequence[str], done: Changed) -> None:
        """Ends these subscriptions; nothing of those topics waits any more, also what was pushed
        and not acknowledged."""
        client = connection.client
        if client is None:
            done(HubError("auth_required"))
            return
        self._change(client, lambda: self._unsubscribe(client, names, done), done)

    def _change(self, client: Client, change: Callable[[], None], done: Changed) -> None:
        """Makes changes of one client's subscriptions one after the other."""
        if client.changes is not None:
            if len(client.changes) >= self._hub.limits.calls:
                done(HubError("too_busy"))
            else:
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
        before = {name: client.subscriptions.get(name) for name in names}
        start = self._publisher.numbers.last
        for name, old in before.items():
            self._enrol(
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
                self._store.name_topic(topic.number, name)
            rows.append(SubscriptionRow(client.number, topic.number, subscription.start, ack))

        def told(error: HubError | None) -> None:
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
                    self._strike(client, name)
                else:
                    client.subscriptions[name].ack = old.ack
            self._changed(client, done, error)

        self._store.subscribe(rows, told)

    def _check_subscribe(self, client: Client, names: Sequence[str]) -> None:
        if self._publisher.closed:
            raise HubError("closing")
        check_topics(names)
        limits = self._hub.limits
        wanted = list(dict.fromkeys([*client.subscriptions, *names]))
        if len(wanted) > limits.subscriptions or not topics_fit(wanted):
            raise HubError("bad_arguments", "these are more topics than a client may have")
        new = self._registry.new_topics(names)
        if new and len(self._registry.topics) + new > limits.topics:
            raise HubError("too_busy", "the hub has as many topics as it may")

    def _unsubscribe(self, client: Client, names: Sequence[str], done: Changed) -> None:
        try:
            if self._publisher.closed:
                raise HubError("closing")
            check_topics(names)
        except HubError as error:
            self._changed(client, done, error)
            return
        there = [name for name in dict.fromkeys(names) if name in client.subscriptions]

        def told(error: HubError | None) -> None:
            if error is None:
                for name in there:
                    if name in client.subscriptions:
                        self._strike(client, name)
            self._changed(client, done, error or len(client.subscriptions))

        if not client.durable or not there:
            told(None)
            return
        topics = [client.subscriptions[name].topic.number for name in there]
        self._store.unsubscribe(client.number, topics, told)

    def _enrol(self, client: Client, topic: Topic, start: int, ack: bool) -> None:
        """Gives a client a topic."""
        subscription = Subscription(topic, start, ack)
        topic.subscribers[client] = client.subscriptions[topic.name] = subscription
        if client.receiver is None:
            return
        if client.live:
            self._fanout.hand_over()
            topic.enter(client.receiver)
        else:
            topic.held[client] = None

    def _strike(self, client: Client, name: str) -> None:
        """Takes a topic from a client, with what waits of it."""
        subscription = client.subscriptions.pop(name)
        topic = subscription.topic
        topic.subscribers.pop(client, None)
        topic.held.pop(client, None)
        if client.receiver is not None:
            self._fanout.hand_over()
            topic.leave(client.receiver)
        self._delivery.drop(client, [each for each in client.inbox.holes if topic.has(each)])
        self._registry.lonely[topic] = None

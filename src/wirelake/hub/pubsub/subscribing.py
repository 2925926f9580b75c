"""Changes of subscriptions, in memory and in the store: all requested topics or none.

Changes of one client's subscriptions run one after the other; a request that arrives while one is
being written waits for it. So memory and store agree after each, whether it succeeds or fails.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

from ..config import ActiveLimits
from ..eager import Background
from ..errors import HubError
from ..store import Store, SubscriptionRow
from ..store.interface import Subscribe, Subscribed, Unsubscribe
from .delivery import Delivery, Fanout
from .notifications import check_topics
from .publishing import Publisher
from .quota import allowance
from .subscriptions import Client, Receiver, Registry

__all__ = ["Changed", "Subscriber"]

_log = logging.getLogger(__name__)

Changed: TypeAlias = Callable[[int | HubError], None]
"""Called once, on the loop, with the number of topics the client has."""
Change: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""A change of the subscriptions of a client; it calls `_changed` at its end."""


class Subscriber:
    """Changes the subscriptions of clients."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        delivery: Delivery,
        fanout: Fanout,
        publisher: Publisher,
        limits: ActiveLimits,
        background: Background,
    ):
        self._store = store
        self._limits = limits
        self._registry = registry
        self._delivery = delivery
        self._fanout = fanout
        self._publisher = publisher
        self._background = background
        self.claim: Callable[[Client, Receiver | None], Awaitable[None]] = _no_claim
        """Reads a client that is not in memory, or that another hub may have taken since."""
        self.subscribed: Callable[[Receiver], None] = _do_nothing
        """Called with a connection that gets the notifications of its client from now on."""
        self.ended: Callable[[Client], None] = _do_nothing
        """Called after the last change of a client that has no connection any more."""

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
                self.subscribed(connection)

        self._change(
            client, partial(self._subscribe, client, connection, names, ack, subscribed), done
        )

    def revoke(self, client: Client) -> list[str]:
        """End the subscriptions that a client has no right to any more; return their topics."""
        rights = client.rights
        if rights is None:
            return []
        ended = [each for name, each in client.subscriptions.items() if not rights.subscribes(name)]
        if not ended:
            return []
        # In memory at once: from now on it gets nothing of these topics. If the store cannot be
        # written, they end again when the client signs on.
        topics = [each.topic.number for each in ended]
        for each in ended:
            self._remove(client, each.topic.name)

        def done(result: int | HubError) -> None:
            if isinstance(result, HubError):
                _log.error("client %s: subscriptions not ended: %s", client.id, result)

        self._run_change(client, partial(self._unsubscribe_from, client, topics, done))
        return [each.topic.name for each in ended]

    def unsubscribe(self, connection: Receiver, names: Sequence[str], done: Changed) -> None:
        """End subscriptions; the client's backlog of those topics is dropped, including what was
        pushed and not acknowledged."""
        client = connection.client
        if client is None:
            done(HubError("auth_required"))
            return
        self._change(client, partial(self._unsubscribe, client, names, done), done)

    def _change(self, client: Client, change: Change, done: Changed) -> None:
        """Run changes of one client's subscriptions one after the other."""
        refusal = None if client.rights is None else client.rights.change()
        if client.changes is not None and len(client.changes) >= self._limits.current.calls:
            refusal = HubError("too_busy")
        if refusal is not None:
            done(refusal)
        else:
            self._run_change(client, change)

    def _run_change(self, client: Client, change: Change) -> None:
        # None: no change is being written, which is nearly always so; a deque per client would add
        # 760 bytes to each.
        if client.changes is not None:
            client.changes.append(change)
            return
        client.changes = deque([change])
        self._next_change(client)

    def _next_change(self, client: Client) -> None:
        if client.changes:
            self._background.start(client.changes.popleft()())
            return
        client.changes = None
        if not client.connections:
            self.ended(client)

    def _changed(self, client: Client, done: Changed, result: int | HubError) -> None:
        try:
            done(result)
        finally:
            self._next_change(client)

    async def _subscribe(
        self,
        client: Client,
        connection: Receiver,
        names: Sequence[str],
        ack: bool,
        done: Changed,
    ) -> None:
        try:
            await self.claim(client, connection)
            self._check_subscribe(client, names)
        except HubError as error:
            self._changed(client, done, error)
            return
        # The store first: it decides where the subscription starts, and what is published from then
        # on is in the log. In memory it is added in the same order.
        limits = self._limits.current
        operation = Subscribe(
            client.number, client.id, tuple(names), ack, limits.topics, allowance(limits)
        )

        def written(result: Subscribed | HubError) -> None:
            if isinstance(result, HubError):
                self._changed(client, done, result)
                return
            if not client.number:
                self._registry.add_anonymous(client, result.client)
            if client.loaded and self._registry.clients_by_number.get(client.number) is client:
                for row in result.rows:
                    self._add(client, row)
                self.revoke(client)  # its rights may have changed meanwhile
            self._changed(client, done, len(client.subscriptions))

        self._store.write(operation, written)

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

    async def _unsubscribe(self, client: Client, names: Sequence[str], done: Changed) -> None:
        try:
            await self.claim(client, None)
            if self._publisher.closed:
                raise HubError("closing")
            subscribed = [name for name in dict.fromkeys(names) if name in client.subscriptions]
            # What is subscribed can be ended, although an earlier version allowed other names.
            if len(subscribed) < len(names) or not names:
                check_topics([name for name in names if name not in client.subscriptions])
        except HubError as error:
            self._changed(client, done, error)
            return
        if subscribed:
            topics = [client.subscriptions[name].topic.number for name in subscribed]
            await self._unsubscribe_from(client, topics, done)
        else:
            self._changed(client, done, len(client.subscriptions))

    async def _unsubscribe_from(self, client: Client, topics: list[int], done: Changed) -> None:
        # Holes of these topics would be pushed again, and would keep their logs from being deleted.
        before = list(client.inbox.holes)
        try:
            targets = await self._store.targets(before) if before else {}
        except HubError as error:
            self._changed(client, done, error)
            return

        # The store first: a subscription that could not be removed must go on receiving.

        def written(result: HubError | None) -> None:
            if result is None:
                for name in self._names_of(client, topics):
                    self._remove(client, name)
                # What was pushed since then has holes as well.
                holes = client.inbox.holes
                self._delivery.drop(
                    client,
                    [each for each in before if each in holes and targets.get(each) in topics],
                )
                if later := list(holes.keys() - before):
                    self._background.start(self._drop_holes(client, topics, later))
            self._changed(client, done, result or len(client.subscriptions))

        self._store.write(Unsubscribe(client.number, tuple(topics)), written)

    def _names_of(self, client: Client, topics: Sequence[int]) -> list[str]:
        return [name for name, each in client.subscriptions.items() if each.topic.number in topics]

    async def _drop_holes(self, client: Client, topics: Sequence[int], numbers: list[int]) -> None:
        """Remove those of these unacknowledged numbers that are of some topics."""
        try:
            targets = await self._store.targets(numbers)
        except HubError:
            return  # they are pushed again, once
        holes = client.inbox.holes
        self._delivery.drop(
            client, [each for each in numbers if each in holes and targets.get(each) in topics]
        )

    def _add(self, client: Client, row: SubscriptionRow) -> None:
        known = client.subscriptions.get(row.name)
        if known is not None:  # only `ack` may differ
            known.ack = row.ack
            return
        topic = self._registry.subscribe(client, row).topic
        if client.receiver is None:
            return
        if client.live:
            self._fanout.flush()  # published before the subscription
            topic.add_live(client.receiver)
        else:
            topic.held[client] = None

    def _remove(self, client: Client, name: str) -> None:
        """Remove a subscription, with its part of the backlog."""
        topic = client.subscriptions[name].topic
        topic.held.pop(client, None)
        if client.receiver is not None:
            self._fanout.flush()
            topic.remove_live(client.receiver)
        self._delivery.changed_topics[topic.number] = None
        self._registry.unsubscribe(client, name)


def _do_nothing(client: Client | Receiver) -> None:
    """Do nothing: the callback is not set."""


async def _no_claim(client: Client, connection: Receiver | None) -> None:
    """Do nothing: the callback is not set."""

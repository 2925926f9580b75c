"""Which topics and clients there are: in memory, as the store has them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..store import ClientRow, SubscriptionRow
from .clients import Client, Subscription
from .fanout import Topic
from .inboxes import Inbox

if TYPE_CHECKING:
    from ..store import Store

__all__ = ["Registry"]


class Registry:
    """All topics with subscribers, and all clients that have topics or have come since the start.

    Of each stored notification its number is in memory, eight bytes, in the topic or client that
    it is for; so what waits for whom is known without asking the store.
    """

    def __init__(self, store: Store):
        self._store = store
        self._next_topic = 1
        self.topics: dict[str, Topic] = {}
        self.topics_by_number: dict[int, Topic] = {}
        self.clients: dict[str, Client] = {}
        self.clients_by_number: dict[int, Client] = {}
        self.lonely: dict[Topic, None] = {}
        """Topics that may have no subscriber any more."""
        self.useless: list[int] = []
        """Rows of the log that nobody needs."""

    def load(self) -> None:
        """Reads topics, subscriptions and the index of the log."""
        for number, name in self._store.topics():
            self._file(Topic(number, name, stored=True))
            self._next_topic = max(self._next_topic, number + 1)
        rows = self._store.subscriptions()
        wanted = {row.client for row in rows}
        for client in self._store.clients():
            if client.number in wanted:
                self._take_in(client)
        for row in rows:
            self._load_subscription(row)
        self._load_index()

    def _load_subscription(self, row: SubscriptionRow) -> None:
        topic = self.topics_by_number.get(row.topic)
        client = self.clients_by_number.get(row.client)
        if topic is not None and client is not None:
            subscription = Subscription(topic, row.start, row.ack)
            topic.subscribers[client] = client.subscriptions[topic.name] = subscription

    def _load_index(self) -> None:
        private: dict[int, array[int]] = {}
        for target, number in self._store.index():
            topic = self.topics_by_number.get(target)
            if topic is not None:
                topic.numbers.append(number)
            else:
                private.setdefault(target, array("q")).append(number)
        for topic in self.topics.values():
            topic.numbers = array("q", sorted(topic.numbers))
        rows = {-row.number: row for row in self._store.clients()} if private else {}
        for target, numbers in private.items():
            row = rows.get(target)
            if row is None:
                self.useless.extend(numbers)
            else:
                self._take_in(row).private = array("q", sorted(numbers))

    # -- clients -----------------------------------------------------------------------------

    def client_of(self, row: ClientRow, gone: Callable[[Client], None]) -> Client:
        """The client of this row; `gone` is told of a former one that had its id."""
        client = self.clients.get(row.id)
        if client is not None and client.number == row.number:
            return client
        if client is not None:
            gone(client)
        return self._take_in(row)

    def _take_in(self, row: ClientRow) -> Client:
        if row.number in self.clients_by_number:
            return self.clients_by_number[row.number]
        saved = self._store.inbox(row.number)
        inbox = Inbox() if saved is None else Inbox.unpack(saved.cursor, saved.state)
        client = Client(row.id, row.number, inbox)
        self.clients[row.id] = self.clients_by_number[row.number] = client
        return client

    def forget(self, client: Client) -> None:
        """The client is no more: it has no topics, and nothing waits for it."""
        for each in client.subscriptions.values():
            each.topic.subscribers.pop(client, None)
            self.lonely[each.topic] = None
        client.subscriptions.clear()
        if client.durable:
            self.clients.pop(client.id, None)
            self.clients_by_number.pop(client.number, None)
        if client.private:
            self.useless.extend(client.private)
            client.private = None

    # -- topics ------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """The topic of this name; a new one when there is none."""
        topic = self.topics.get(name)
        if topic is None:
            topic = Topic(self._next_topic, name)
            self._next_topic += 1
            self._file(topic)
        return topic

    def _file(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_number[topic.number] = topic
        self.lonely[topic] = None

    def drop_topic(self, topic: Topic) -> None:
        """Nobody has the topic, and its log is empty."""
        del self.topics[topic.name]
        del self.topics_by_number[topic.number]

    def new_topics(self, names: Sequence[str]) -> int:
        """How many of these there are not yet."""
        return sum(name not in self.topics for name in set(names))

"""All topics and clients in memory, as the store has them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from ..store import ClientRow, Store, SubscriptionRow
from .inbox import Inbox
from .subscriptions import Client, Subscription, Topic

__all__ = ["Registry"]


class Registry:
    """All topics with subscribers, and all clients with topics or connections since the start.

    The number of every stored notification is in memory, eight bytes in the topic or client it is
    for. So the backlog of a client is known without a query.
    """

    def __init__(self, store: Store, on_replaced: Callable[[Client], None]):
        self._store = store
        self._on_replaced = on_replaced
        """Called with a client whose id was removed and added again, as another client."""
        self._next_topic = 1
        self.topics: dict[str, Topic] = {}
        self.topics_by_number: dict[int, Topic] = {}
        self.clients: dict[str, Client] = {}
        self.clients_by_number: dict[int, Client] = {}
        self.maybe_unused: dict[Topic, None] = {}
        """Topics that may have no subscriber any more."""
        self.deletable: list[int] = []
        """Rows of the log that no client needs."""

    def load(self) -> None:
        """Read topics, subscriptions and the index of the log."""
        for number, name in self._store.topics():
            self._index_topic(Topic(number, name, stored=True))
            self._next_topic = max(self._next_topic, number + 1)
        rows = self._store.subscriptions()
        wanted = {row.client for row in rows}
        for client in self._store.clients():
            if client.number in wanted:
                self._load_client(client)
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
                self.deletable.extend(numbers)
            else:
                self._load_client(row).private = array("q", sorted(numbers))

    # -- clients -----------------------------------------------------------------------------

    def client_of(self, row: ClientRow) -> Client:
        """Return the client of this row."""
        client = self.clients.get(row.id)
        if client is not None and client.number == row.number:
            return client
        if client is not None:
            self._on_replaced(client)
        return self._load_client(row)

    def _load_client(self, row: ClientRow) -> Client:
        if row.number in self.clients_by_number:
            return self.clients_by_number[row.number]
        saved = self._store.inbox(row.number)
        inbox = Inbox() if saved is None else Inbox.unpack(saved.cursor, saved.state)
        client = Client(row.id, row.number, inbox)
        self.clients[row.id] = self.clients_by_number[row.number] = client
        return client

    def forget(self, client: Client) -> None:
        """Remove a client with its subscriptions and its private notifications."""
        for each in client.subscriptions.values():
            each.topic.subscribers.pop(client, None)
            self.maybe_unused[each.topic] = None
        client.subscriptions.clear()
        if client.durable:
            self.clients.pop(client.id, None)
            self.clients_by_number.pop(client.number, None)
        if client.private:
            self.deletable.extend(client.private)
            client.private = None

    # -- topics ------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """Return the topic of this name; create it if it does not exist."""
        topic = self.topics.get(name)
        if topic is None:
            topic = Topic(self._next_topic, name)
            self._next_topic += 1
            self._index_topic(topic)
        return topic

    def _index_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_number[topic.number] = topic
        self.maybe_unused[topic] = None

    def drop_topic(self, topic: Topic) -> None:
        """Remove a topic without subscribers and with an empty log."""
        del self.topics[topic.name]
        del self.topics_by_number[topic.number]

    def new_topics(self, names: Sequence[str]) -> int:
        """Return how many of these topics do not exist."""
        return sum(name not in self.topics for name in set(names))

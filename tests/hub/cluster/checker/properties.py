"""What a history must and must not contain: `violations` is a pure function of its events.

lost        Every publish that was confirmed reaches every client that it is for: the one that
            it names, or each client whose subscription to its topic was confirmed before the
            publish was sent. By the event `end`, when nothing has failed for a while.
invented    A client gets nothing that was not sent, to a topic that it never asked for, or to
            somebody else; and with the id that was confirmed, if it was.
twice       A publish has one id, however often and at however many hubs it was repeated with
            its key. Of one without a key there was one attempt, and so there is one id.
order       On each connection numbers ascend. Over all connections of a client, what it
            gets for the first time ascends as well; but for comet, whose pushes may come
            before the backlog is fetched.
acked       What a client has acknowledged is never delivered again on a connection that was
            dialled after the acknowledgement was found in the database. (One that was only
            answered may be lost within 50 ms: a hub saves it later.)
forgotten   What is acknowledged in the database stays acknowledged.
assumed     What is acknowledged in the database was acknowledged by its client.
lease       An inbox is written only by the process that has the claim of its client, with a
            lease that was valid when the transaction began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from tests.hub.cluster.checker.history import Event

from wirelake.hub.pubsub.notifications import number_of

__all__ = ["Violation", "violations"]


class Violation(NamedTuple):
    """A property that does not hold."""

    rule: str
    text: str


def violations(events: Iterable[Event]) -> list[Violation]:
    """Return what is wrong with a history."""
    checker = _Checker()
    for at, event in enumerate(events):
        method = getattr(checker, f"on_{event['e']}", None)
        if method is not None:
            method(at, event)
    return checker.found


class _Stored(NamedTuple):
    """An inbox in the database."""

    cursor: int
    spans: list[list[int]]
    holes: set[int]

    def acked(self, number: int) -> bool:
        if number in self.holes:
            return False
        at = bisect_left(self.spans, [number]) - 1
        return number <= self.cursor or (at >= 0 and number <= self.spans[at][1])


class _Client:
    """What is known of a client."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.got: dict[str, str] = {}
        self.numbers: set[int] = set()
        self.newest = 0
        self.last: dict[int, int] = {}
        self.dialled: dict[int, int] = {}
        self.acks: set[str] = set()
        self.stored_at: dict[int, int] = {}
        self.comet = False


class _Checker:
    def __init__(self) -> None:
        self.found: list[Violation] = []
        self._clients: dict[str, _Client] = {}
        self._sent: dict[str, tuple[int, Event]] = {}
        self._ids: dict[str, str] = {}
        self._confirmed: dict[str, str] = {}

    def _wrong(self, rule: str, event: Event, text: str) -> None:
        self.found.append(Violation(rule, f"{event['t']}: {text}"))

    def _client(self, event: Event) -> _Client:
        return self._clients.setdefault(event["client"], _Client())

    def _is_for(self, client: str, sent: Event) -> bool:
        return bool(
            sent["to"] == client if sent["to"] else sent["topic"] in self._clients[client].topics
        )

    # -- publishers --------------------------------------------------------------------------

    def on_send(self, at: int, event: Event) -> None:
        self._sent.setdefault(event["content"], (at, event))

    def on_confirm(self, _: int, event: Event) -> None:
        self._confirmed.setdefault(event["content"], event["id"])
        self._has_id(event)

    def _has_id(self, event: Event) -> None:
        content, id_ = event["content"], event["id"]
        known = self._ids.setdefault(content, id_)
        if known != id_:
            self._wrong("twice", event, f"{content} is {known}, and {id_}")

    # -- subscribers -------------------------------------------------------------------------

    def on_asks(self, _: int, event: Event) -> None:
        """A subscription that may exist from now on."""
        for topic in event["topics"]:
            self._client(event).topics.setdefault(topic, 1 << 62)

    def on_subscribed(self, at: int, event: Event) -> None:
        topics = self._client(event).topics
        for topic in event["topics"]:
            topics[topic] = min(at, topics.get(topic, at))

    def on_dial(self, at: int, event: Event) -> None:
        client = self._client(event)
        client.dialled[event["visit"]] = at
        client.comet = event["url"].startswith("comet")

    def on_deliver(self, _: int, event: Event) -> None:
        client, name, content = self._client(event), event["client"], event["content"]
        if content not in self._sent or not self._is_for(name, self._sent[content][1]):
            self._wrong("invented", event, f"{name} got {content}, which is not for it")
            return
        self._has_id(event)
        number = number_of(event["id"])
        if number is None:
            self._wrong("invented", event, f"{name} got an invalid id {event['id']}")
            return
        visit = event["visit"]
        if number <= client.last.get(visit, 0):
            self._wrong("order", event, f"{name} got {event['id']} late on connection {visit}")
        client.last[visit] = max(number, client.last.get(visit, 0))
        if number not in client.numbers and not client.comet:
            if number < client.newest:
                self._wrong("order", event, f"{name} got {event['id']} for the first time, late")
            client.newest = number
        client.numbers.add(number)
        client.got[content] = event["id"]
        stored = client.stored_at.get(number)
        if stored is not None and stored < client.dialled[visit]:
            self._wrong("acked", event, f"{name} got {event['id']} again")

    def on_ack(self, _: int, event: Event) -> None:
        self._client(event).acks.add(event["id"])

    # -- the database ------------------------------------------------------------------------

    def on_stored(self, at: int, event: Event) -> None:
        name = event["client"]
        if event["by"] != event["holder"]:
            self._wrong("lease", event, f"{event['by']} wrote {name}, {event['holder']} has it")
        elif not event["valid"]:
            self._wrong("lease", event, f"{event['by']} wrote {name} without a lease")
        inbox = _Stored(event["cursor"], event["spans"], set(event["holes"]))
        client = self._client(event)
        for number in client.stored_at:
            if not inbox.acked(number):
                self._wrong("forgotten", event, f"{name}: {number} by {event['by']}")
        for content, (_, sent) in self._sent.items():
            id_ = self._ids.get(content)
            number = None if id_ is None else number_of(id_)
            if number is None or number in client.stored_at or not inbox.acked(number):
                continue
            if id_ in client.acks:
                client.stored_at[number] = at
            elif self._promised(name, content, sent):
                self._wrong("assumed", event, f"{name} never acknowledged {id_} ({content})")
                client.stored_at[number] = at

    def _promised(self, name: str, content: str, sent: Event) -> bool:
        if content not in self._confirmed:
            return False
        if sent["to"]:
            return bool(sent["to"] == name)
        at = self._clients[name].topics.get(sent["topic"])
        return at is not None and at < self._sent[content][0]

    def on_end(self, _: int, event: Event) -> None:
        for content, id_ in self._confirmed.items():
            for name, client in self._clients.items():
                if content not in client.got and self._promised(
                    name, content, self._sent[content][1]
                ):
                    self._wrong("lost", event, f"{name} never got {content} ({id_})")

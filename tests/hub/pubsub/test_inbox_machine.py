"""Inboxes against a simple model, whatever comes: publishes, acks, reconnects, restarts, kills.

The model is, for each client, the list of what was confirmed for it and not acknowledged. A kill is
the database as it is on disk at some moment, opened again: what was confirmed is there; what was on
its way may be; an acknowledgement may be undone.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.hub import stores
from tests.hub.stores import database_of

from wirelake.hub.pubsub.notifications import Publication, Published, number_of
from wirelake.hub.store import add_client

from .local_topics import LocalTopics, Receiver, local_topics

_CLIENTS = ("ann", "bob")
_TOPICS = ("@a", "@b", "@c")
_LIMITS = {"in_flight": 4}
_clients = st.sampled_from(_CLIENTS)
_topics = st.sampled_from(_TOPICS)


def _number(id_: str) -> int:
    number = number_of(id_)
    assert number is not None
    return number


class InboxMachine(RuleBasedStateMachine):
    """A hub's topics, and what they have to be like."""

    store = ""

    def __init__(self) -> None:
        super().__init__()
        self.store_used = stores.used(self.store or stores.default())
        self.store_used.__enter__()
        self.loop = asyncio.new_event_loop()
        self.scratch = Path(tempfile.mkdtemp(prefix="wirelake-inboxes-"))
        self.folders = 0
        self.count = 0
        self.ears: dict[str, Receiver] = {}
        self.seen: dict[int, int] = {}
        self.topics: dict[str, set[str]] = {name: set() for name in _CLIENTS}
        self.owed: dict[str, set[str]] = {name: set() for name in _CLIENTS}
        """What was confirmed and not acknowledged."""
        self.undone: dict[str, set[str]] = {name: set() for name in _CLIENTS}
        """What was acknowledged, and perhaps not saved."""
        self.contents: dict[str, bytes] = {}
        self.transient: set[str] = set()
        folder = self.new_folder()
        for name in _CLIENTS:
            add_client(database_of(folder), name)
        self.open(folder)
        for name in _CLIENTS:  # who acknowledges a topic does so for what is sent to it alone
            ear = self.run(self.it.sign_on(name))
            self.run(self.it.subscribe(ear, "@base"))
            self.it.leave(ear)

    # -- the hub -----------------------------------------------------------------------------

    def run(self, work: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    def new_folder(self) -> Path:
        self.folders += 1
        folder = self.scratch / str(self.folders)
        folder.mkdir()
        return folder

    def open(self, folder: Path) -> None:
        self.context = local_topics(folder, **_LIMITS)
        self.it: LocalTopics = self.run(self.context.__aenter__())
        self.ears.clear()

    def close(self) -> None:
        self.run(self.context.__aexit__(None, None, None))

    def teardown(self) -> None:
        try:
            for name in _CLIENTS:
                self.drain(name)
        finally:
            self.close()
            self.loop.close()
            self.store_used.__exit__(None, None, None)
            shutil.rmtree(self.scratch)

    def drain(self, name: str) -> None:
        """In the end everything that was confirmed is delivered."""
        ear = self.run(self.it.sign_on(name))
        while page := self.run(self.it.waiting(ear)):
            numbers = [each.number for each in page]
            assert numbers == sorted(set(numbers))
            ids = {each.id for each in page}
            assert ids <= self.owed[name] | self.undone[name]
            self.owed[name] -= ids
            self.it.topics.ack(ear, list(ids))  # type: ignore[arg-type]
        assert self.owed[name] == set()

    # -- publishers --------------------------------------------------------------------------

    def publication(self, topic: str, ttl_s: float | None = None) -> Publication:
        self.count += 1
        return Publication(topic, None, b"%d" % self.count, ttl_s=ttl_s)

    def confirmed(self, publication: Publication, result: Any, topics: dict[str, set[str]]) -> None:
        assert isinstance(result, Published)
        audience = [name for name in _CLIENTS if publication.topic in topics[name]]
        assert result.audience == len(audience)
        self.contents[result.id] = publication.content
        for name in audience:
            self.owed[name].add(result.id)

    @rule(topic=_topics, count=st.integers(1, 9))
    def publish(self, topic: str, count: int) -> None:
        outcome: list[tuple[Publication, Any]] = []
        for _ in range(count):
            publication = self.publication(topic)
            self.it.topics.publish(publication, lambda got, p=publication: outcome.append((p, got)))
        self.run(self.it.written())
        assert len(outcome) == count
        for publication, got in outcome:
            self.confirmed(publication, got, self.topics)
        self.saved()

    @rule(topic=_topics)
    def publish_now(self, topic: str) -> None:
        got = self.run(self.it.publish(topic, b"now", ttl_s=0))
        self.contents[got.id] = b"now"
        self.transient.add(got.id)

    @rule(name=_clients)
    def publish_to_one(self, name: str) -> None:
        got = self.run(self.it.publish(None, b"private", client=name))
        self.contents[got.id] = b"private"
        self.owed[name].add(got.id)

    # -- clients -----------------------------------------------------------------------------

    @rule(name=_clients, protocol=st.sampled_from(["comet", "esnp"]), own=st.booleans())
    def connect(self, name: str, protocol: str, own: bool) -> None:
        ear = self.run(self.it.sign_on(name, protocol, own=own))
        self.it.topics.attach(ear)  # type: ignore[arg-type]
        if name in self.ears:
            self.it.leave(self.ears[name])
        self.ears[name] = ear
        self.seen[ear.id] = 0
        self.run(self.it.settled())

    @precondition(lambda self: self.ears)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        self.it.leave(self.ears.pop(data.draw(st.sampled_from(sorted(self.ears)))))

    @precondition(lambda self: self.ears)
    @rule(data=st.data(), names=st.sets(_topics, min_size=1))
    def subscribe(self, data: st.DataObject, names: set[str]) -> None:
        name = data.draw(st.sampled_from(sorted(self.ears)))
        self.run(self.it.subscribe(self.ears[name], *names))
        self.topics[name] |= names

    @precondition(lambda self: self.ears)
    @rule(data=st.data(), topic=_topics)
    def unsubscribe(self, data: st.DataObject, topic: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.ears)))
        there = {each.id for each in self.look(name) if each.topic == topic}
        self.run(self.it.unsubscribe(self.ears[name], topic))
        if topic in self.topics[name]:
            self.topics[name].discard(topic)
            self.owed[name] -= there
            # What is given up may come back with a kill, as what is acknowledged may.
            self.undone[name] |= there

    @precondition(lambda self: self.ears)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.ears)))
        ear = self.ears[name]
        ids = (
            data.draw(st.lists(st.sampled_from(sorted(set(ear.ids))), max_size=9))
            if ear.got
            else []
        )
        self.acknowledge(name, ids)

    def acknowledge(self, name: str, ids: list[str]) -> None:
        ear = self.ears[name]
        count = self.it.topics.ack(ear, ids)  # type: ignore[arg-type]
        assert count == len(set(ids) & self.owed[name])
        self.undone[name] |= set(ids) & self.owed[name]
        self.owed[name] -= set(ids)
        self.run(self.it.settled())

    @precondition(lambda self: self.ears)
    @rule(data=st.data(), acks=st.booleans())
    def fetch(self, data: st.DataObject, acks: bool) -> None:
        """comet's list: the oldest, whether they were pushed or not."""
        name = data.draw(st.sampled_from(sorted(self.ears)))
        if not self.ears[name].acks_all:
            return
        page = self.run(self.it.waiting(self.ears[name]))
        assert {each.id for each in page} == self.owed[name]
        if acks:
            self.acknowledge(name, [each.id for each in page])

    @precondition(lambda self: self.ears)
    @rule(data=st.data(), back=st.booleans())
    def slow_down(self, data: st.DataObject, back: bool) -> None:
        ear: Any = self.ears[data.draw(st.sampled_from(sorted(self.ears)))]
        self.it.topics.fell_behind(ear)
        if back:
            self.it.topics.caught_up(ear)
        self.run(self.it.settled())

    # -- time --------------------------------------------------------------------------------

    @rule()
    def sweep(self) -> None:
        self.run(self.it.sweep(2))
        self.saved()

    def saved(self) -> None:
        for name in _CLIENTS:
            self.undone[name].clear()

    @rule()
    def restart(self) -> None:
        self.close()
        self.saved()
        self.open(self.it.folder)

    @rule(topic=_topics, count=st.integers(0, 5), turns=st.integers(0, 30))
    def kill(self, topic: str, count: int, turns: int) -> None:
        outcome: list[tuple[Publication, Any]] = []
        for _ in range(count):
            publication = self.publication(topic)
            self.it.topics.publish(publication, lambda got, p=publication: outcome.append((p, got)))
        self.run(self.turns(turns))
        for publication, got in outcome:
            self.confirmed(publication, got, self.topics)
        copy = self.it.copy(self.scratch / f"copy {self.folders}")
        self.folders += 1
        self.close()
        late = outcome[:]
        self.open(copy)
        for name in _CLIENTS:
            there = {each.id for each in self.look(name)}
            on_their_way = {
                got.id for publication, got in late if publication.topic in self.topics[name]
            }
            back = there - self.owed[name]
            assert back <= self.undone[name] | on_their_way
            self.owed[name] |= back
            self.undone[name] -= back
            self.contents.update((got.id, publication.content) for publication, got in late)

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    # -- what always holds -------------------------------------------------------------------

    def look(self, name: str) -> list[Any]:
        found: list[Any] = self.run(self.it.topics.inbox(name, 10_000))
        return found

    @invariant()
    def inboxes_are_the_model(self) -> None:
        for name in _CLIENTS:
            waiting = self.look(name)
            assert [each.number for each in waiting] == sorted(
                _number(each) for each in self.owed[name]
            )
            assert all(each.content == self.contents[each.id] for each in waiting)

    @invariant()
    def pushes_are_in_order_and_not_invented(self) -> None:
        for ear in self.ears.values():
            numbers = [_number(each) for each in ear.ids if each not in self.transient]
            assert numbers == sorted(set(numbers))
            for id_, content in ear.got[self.seen[ear.id] :]:
                assert self.contents[id_] == content
            self.seen[ear.id] = len(ear.got)

    @invariant()
    def who_has_room_has_got_everything(self) -> None:
        for name, ear in self.ears.items():
            client = ear.client
            assert client is not None
            assert client.unacked == sum(each == ear.id for each in client.inbox.holes.values())
            assert client.unacked <= _LIMITS["in_flight"]
            if client.slow:
                continue
            assert client.live or client.unacked == _LIMITS["in_flight"]
            if client.live and not ear.acks_all:
                assert self.owed[name] <= set(ear.ids)


InboxMachine.TestCase.settings = settings(
    max_examples=max(10, settings().max_examples // 4), stateful_step_count=30
)
TestInboxes = InboxMachine.TestCase


class PostgresInboxMachine(InboxMachine):
    """The same in PostgreSQL."""

    store = "postgres"


PostgresInboxMachine.TestCase.settings = settings(max_examples=4, stateful_step_count=20)
TestInboxesInPostgres = PostgresInboxMachine.TestCase

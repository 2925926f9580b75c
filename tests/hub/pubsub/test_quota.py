"""The quota: no backlog is longer than `limits.inbox`, at any moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.stores import is_postgres

from wirelake.hub.pubsub.notifications import Publication

from .local_topics import LocalTopics, local_topics

pytestmark = pytest.mark.both_stores


class _Watched:
    """Counts every backlog after publishes, and looks at it as an administrator does."""

    def __init__(self, it: LocalTopics, *names: str):
        self._it = it
        self._names = names
        self.longest = 0
        self.confirmed = 0

    async def look(self) -> None:
        for name in self._names:
            # In the background first, whether somebody looks or not.
            backlog = await self._it.backlog(name)
            shown = await self._it.topics.inbox(name, 1 << 20)
            self.longest = max(self.longest, len(backlog), len(shown))

    def publish(self, topic: str | None, client: str | None = None) -> None:
        def done(_: object) -> None:
            self.confirmed += 1

        self._it.topics.publish(Publication(topic, client, b"x"), done)


def _run(tmp_path: Path, test: Callable[[LocalTopics], Any], *names: str, **limits: Any) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, names, **limits) as it:
            await test(it)

    asyncio.run(run())


@pytest.mark.parametrize("limit", [1, 7, 100, 1_000])
def test_a_burst_in_one_batch_does_not_exceed_it(tmp_path: Path, limit: int) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await it.sign_on("ann")
        await it.subscribe(ann, "@a", "@b", "@c")
        it.leave(ann)
        watched = _Watched(it, "ann")
        for number in range(3 * limit):
            watched.publish(("@a", "@a", "@b", None)[number % 4], None if number % 4 < 3 else "ann")
        await it.written()
        await it.written()
        # In the background, before anybody has looked.
        kept = await it.backlog("ann")
        assert watched.confirmed == 3 * limit
        # Nothing else is lost: what does not wait is a dead letter. A 64th more is cut at a time.
        assert limit - limit // 64 <= len(kept) <= limit
        dead = await it.topics.dead(1_000_000)
        assert {each.reason for each in dead} == {"quota"}
        assert len(dead) + len(kept) == 3 * limit
        assert max(each.notification.number for each in dead) < min(kept)

    _run(tmp_path, test, "ann", inbox=limit)


def test_a_topic_that_is_not_used_gives_its_allowance_back(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await it.sign_on("ann")
        names = [f"@t{number}" for number in range(50)]
        await it.subscribe(ann, *names)
        it.leave(ann)
        for name in names:
            await it.publish(name)
        watched = _Watched(it, "ann")
        for _ in range(200):
            watched.publish("@t0")
            await it.written()
            await watched.look()
        assert watched.longest == 128

    _run(tmp_path, test, "ann", inbox=128)


@pytest.mark.parametrize("seed", range(4))
def test_it_holds_whatever_clients_do(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    names, topics = ["ann", "bob", "eve"], ["@a", "@b", "@c", "@d"]

    async def test(it: LocalTopics) -> None:
        watched = _Watched(it, *names)
        ears: dict[str, Any] = {}
        for name in names:
            ears[name] = await it.sign_on(name, choose.choice(["comet", "esnp"]))
            await it.subscribe(ears[name], choose.choice(topics), ack=choose.random() < 0.8)
        ears["~"] = it.nobody()
        await it.subscribe(ears["~"], "@a", "@b")
        for _ in range(40 if is_postgres() else 150):
            name = choose.choice(list(ears))
            match choose.randrange(8):
                case 0 if name != "~":
                    if ears[name].id in it.connections:
                        it.leave(ears[name])
                    ears[name] = await it.sign_on(name, choose.choice(["comet", "esnp"]))
                case 1 if ears[name].id in it.connections:
                    await it.subscribe(ears[name], *choose.sample(topics, 2))
                case 2 if ears[name].id in it.connections:
                    await it.unsubscribe(ears[name], choose.choice(topics))
                case 3 if ears[name].id in it.connections:
                    it.topics.ack(ears[name], choose.sample(ears[name].ids, len(ears[name].ids)))
                case 4 if name != "~" and ears[name].id in it.connections:
                    it.leave(ears[name])
                case 5 if ears[name].acks_all and ears[name].id in it.connections:
                    await it.waiting(ears[name])
                case 6:
                    await it.sweep(1)
                case _:
                    for _ in range(choose.randrange(40)):
                        private = choose.choice([None, None, *names])
                        watched.publish(choose.choice(topics) if private is None else None, private)
            await it.written()
            await watched.look()
        await it.written()
        await watched.look()
        assert watched.longest <= 20
        assert it.counters.dead["quota"] > 0

    _run(tmp_path, test, *names, inbox=20, in_flight=choose.choice([4, 256]))


def test_a_limit_that_is_lowered_holds_from_the_next_publish_on(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await it.sign_on("ann")
        await it.subscribe(ann, "@a")
        it.leave(ann)
        for _ in range(80):
            await it.publish("@a")
        it.limits.current = msgspec.structs.replace(it.limits.current, inbox=10)
        await it.publish("@a")
        assert len(await it.topics.inbox("ann", 100)) == 10

    _run(tmp_path, test, "ann", inbox=100)


def test_a_crash_before_dead_letters_are_written_does_not_exceed_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=100) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            for _ in range(100):
                await it.publish("@a")
            await it.written()
            before = it.copy(tmp_path / "before")
        async with local_topics(before, inbox=10) as it:
            assert len(await it.topics.inbox("ann", 100)) == 10
            await it.written()
            assert len(await it.topics.dead(1_000)) == 90

    asyncio.run(run())

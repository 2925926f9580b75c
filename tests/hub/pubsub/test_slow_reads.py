"""What happens while the store is read, when reads take longer than a turn of the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from wirelake.hub.pubsub.delivery import PAGE
from wirelake.hub.pubsub.notifications import Publication
from wirelake.hub.store.interface import SaveTransient

from .local_topics import LocalTopics, Receiver, local_topics

pytestmark = pytest.mark.both_stores


@asynccontextmanager
async def slow_reads(it: LocalTopics, *reads: Awaitable[Any]) -> AsyncIterator[list[Any]]:
    """Begins these reads; their results arrive at the end of the block, and are in the list."""
    it.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(each) for each in reads]
    results: list[Any] = []
    await _begun(it)
    try:
        yield results
    finally:
        gate, it.gate = it.gate, None
        gate.set()
        results += await asyncio.gather(*tasks)


async def _begun(it: LocalTopics) -> None:
    async with asyncio.timeout(20):
        while not it.reads:
            await asyncio.sleep(0)
    await asyncio.sleep(0.05)  # it is read, and waits for the gate


def _run(folder: Path, test: Callable[[LocalTopics], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        async with local_topics(folder, ["ann"], **limits) as it:
            await test(it)

    asyncio.run(run())


async def _subscribed(it: LocalTopics, protocol: str = "comet") -> Receiver:
    ann = await it.sign_on("ann", protocol)
    await it.subscribe(ann, "@a")
    return ann


def test_what_is_acknowledged_while_a_list_is_read_stays_so(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await _subscribed(it)
        for content in (b"1", b"2"):
            await it.publish("@a", content)
        async with slow_reads(it, it.waiting(ann)) as lists:
            it.topics.ack(ann, ann.ids[:1])  # type: ignore[arg-type]
        assert [[each.content for each in page] for page in lists] == [[b"2"]]
        assert [each.content for each in await it.waiting(ann)] == [b"2"]

    _run(tmp_path, test)


def test_what_is_acknowledged_while_a_page_is_read_is_not_pushed(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await _subscribed(it, "esnp")
        for content in (b"1", b"2"):
            await it.publish("@a", content)
        ids = ann.ids
        it.leave(ann)
        ann = await it.sign_on("ann", "esnp")
        it.gate = asyncio.Event()
        it.topics.attach(ann)  # type: ignore[arg-type]
        await _begun(it)
        it.topics.ack(ann, ids[:1])  # type: ignore[arg-type]
        it.gate.set()
        await it.settled()
        assert ann.contents == [b"2"]
        assert len(await it.backlog("ann")) == 1

    _run(tmp_path, test)


def test_two_lists_at_a_time_have_nothing_twice(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await _subscribed(it)
        it.leave(ann)
        for number in range(5):
            await it.publish("@a", b"%d" % number)
        ann = await it.sign_on("ann")
        assert ann.client is not None
        waiting = it.topics.delivery.waiting
        async with slow_reads(it, waiting(ann.client)) as lists:
            gate, it.gate = it.gate, None
            lists.append(await waiting(ann.client))
            it.gate = gate
        for page in lists:
            assert [each.content for each in page] == [b"%d" % number for number in range(5)]

    _run(tmp_path, test)


def test_a_backlog_is_trimmed_once(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await _subscribed(it)
        it.leave(ann)
        for number in range(10):
            await it.publish("@a", b"%d" % number)
        ann = await it.sign_on("ann")
        await it.written()
        assert ann.client is not None
        dead = it.counters.dead["quota"]
        it.limits.current = it.limits.current.__class__(inbox=8, subscriptions=1)
        trim = it.topics.quota.trim
        async with slow_reads(it, trim(ann.client), trim(ann.client)):
            pass
        await it.written()
        assert it.counters.dead["quota"] == dead + 2
        assert len(await it.waiting(ann)) == 8

    _run(tmp_path, test)


def test_many_publishes_while_a_page_is_read_cost_no_memory(tmp_path: Path) -> None:
    async def test(it: LocalTopics) -> None:
        it.leave(await _subscribed(it))
        await it.publish("@a", b"first")
        ann = await it.sign_on("ann", "esnp")
        it.gate = asyncio.Event()
        it.topics.delivery.attach(ann)  # type: ignore[arg-type]
        await _begun(it)
        assert ann.client is not None
        for number in range(6 * PAGE):
            it.topics.publish(Publication("@a", None, b"%d" % number), lambda _: None)
        await it.store.execute(SaveTransient(1))  # after them
        assert ann.client.missed is not None
        assert len(ann.client.missed) <= 4 * PAGE + 1
        gate, it.gate = it.gate, None
        gate.set()
        await it.settled()
        assert ann.contents == [b"first", *(b"%d" % number for number in range(6 * PAGE))]

    _run(tmp_path, test, in_flight=10_000)


async def _subscribe_only(it: LocalTopics, ann: Receiver, topic: str) -> None:
    done = it.loop.create_future()
    it.topics.subscribe(ann, [topic], True, done.set_result)  # type: ignore[arg-type]
    assert isinstance(await done, int)


async def _gone(it: LocalTopics) -> None:
    async with asyncio.timeout(20):
        while it.topics.registry.clients:
            await asyncio.sleep(0.001)


def test_reads_after_the_end_are_refused_quietly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(it: LocalTopics) -> None:
        ann = await _subscribed(it, "esnp")
        it.leave(ann)
        for _ in range(3 * PAGE):
            await it.publish("@a")
        await it.sign_on("ann", "esnp", attached=False)
        it.gate = asyncio.Event()
        it.topics.sweep._tick(False)
        await _begun(it)
        close = asyncio.ensure_future(it.store.close())
        await asyncio.sleep(0.05)
        it.gate.set()
        await close

    with caplog.at_level(logging.WARNING):
        _run(tmp_path, test)
    assert caplog.records == []

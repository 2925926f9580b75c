"""Subscribing: all or none, limits, and what survives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.hub.stores import select

from wirelake.hub.errors import HubError
from wirelake.hub.store.interface import Subscribe, Unsubscribe

from .local_topics import local_topics

pytestmark = pytest.mark.both_stores


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], "bad_arguments"),
        (["@ok", "@not ok"], "bad_arguments"),
        (["@ok", "$sys"], "forbidden"),
        (["@ok", "news"], "bad_arguments"),
        (["@ok", ""], "bad_arguments"),
        ([f"@{each}" for each in range(5)], "bad_arguments"),
        (["@ok", "@1", "@2", "@3"], "too_busy"),
    ],
)
def test_one_that_cannot_be_refuses_all(tmp_path: Path, names: list[str], code: str) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], subscriptions=4, topics=3) as it:
            ann = await it.sign_on("ann")
            with pytest.raises(HubError) as refused:
                await it.subscribe(ann, *names)
            assert refused.value.code == code
            assert ann.client is not None
            assert ann.client.subscriptions == {}
            assert it.select("SELECT * FROM subscriptions") == []

    asyncio.run(run())


def test_topics_that_do_not_fit_a_list_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            long = [f"@{each:03}" + "é" * 250 for each in range(70)]
            with pytest.raises(HubError, match="do not fit the frames"):
                await it.subscribe(ann, *long)
            assert await it.subscribe(ann, *long[:60]) == 60

    asyncio.run(run())


def test_twice_is_fine_and_may_change_the_ack(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann", "esnp")
            assert await it.subscribe(ann, "@a", "@a", ack=True) == 1
            await it.publish("@a", b"owed")
            assert await it.subscribe(ann, "@a", ack=False) == 1
            await it.publish("@a", b"free")
            assert ann.contents == [b"owed", b"free"]
            assert [each.content for each in await it.topics.inbox("ann", 9)] == [b"owed"]
            assert await it.unsubscribe(ann, "@never") == 1

    asyncio.run(run())


def test_subscriptions_survive_and_nothing_of_an_ended_one_waits(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a", "@b", "@c")
            for topic in ("@a", "@b", "@a"):
                await it.publish(topic, topic.encode())
            assert await it.unsubscribe(ann, "@a", "@c") == 1
            assert [each.content for each in await it.waiting(ann)] == [b"@b"]
            await it.publish("@a", b"not for ann")
            assert ann.contents == [b"@a", b"@b", b"@a"]
        async with local_topics(tmp_path) as it:
            ann = await it.sign_on("ann")
            assert ann.client is not None
            assert list(ann.client.subscriptions) == ["@b"]
            assert [each.content for each in await it.waiting(ann)] == [b"@b"]
            await it.subscribe(ann, "@a")
            assert [each.content for each in await it.waiting(ann)] == [b"@b"]

    asyncio.run(run())


def test_a_subscription_of_an_earlier_version_can_be_ended(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            await it.subscribe(await it.sign_on("ann"), "@a")
        select(tmp_path, "UPDATE topics SET name = 'news'")
        async with local_topics(tmp_path) as it:
            ann = await it.sign_on("ann")
            assert ann.client is not None
            assert list(ann.client.subscriptions) == ["news"]
            with pytest.raises(HubError, match="invalid topic"):
                await it.unsubscribe(ann, "news", "more")
            assert await it.unsubscribe(ann, "news", "@never") == 0
            assert it.select("SELECT * FROM subscriptions") == []

    asyncio.run(run())


def test_changes_of_one_client_keep_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            result: list[object] = []
            for _ in range(5):
                it.topics.subscribe(ann, ["@a"], True, result.append)  # type: ignore[arg-type]
                it.topics.unsubscribe(ann, ["@a"], result.append)  # type: ignore[arg-type]
            await it.subscribe(ann, "@a")
            assert result == [1, 0] * 5
            await it.publish("@a", b"once")
            assert ann.contents == [b"once"]
            assert len(it.select("SELECT * FROM subscriptions")) == 1

    asyncio.run(run())


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            with it.full_disk(Subscribe), pytest.raises(HubError) as refused:
                await it.subscribe(ann, "@b")
            assert refused.value.code == "storage_full"
            with it.full_disk(Unsubscribe), pytest.raises(HubError):
                await it.unsubscribe(ann, "@a")
            assert ann.client is not None
            assert list(ann.client.subscriptions) == ["@a"]
            await it.publish("@a", b"still")
            await it.publish("@b", b"not")
            assert ann.contents == [b"still"]
            assert await it.subscribe(ann, "@b") == 2

    asyncio.run(run())

"""Idempotency keys: how many are kept, and when they are deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.hub.pubsub.local_topics import LocalTopics, local_topics
from tests.hub.stores import database_of, is_postgres

from wirelake.hub.errors import HubError
from wirelake.hub.pubsub.notifications import Publication
from wirelake.hub.store import add_client, remove_client

pytestmark = pytest.mark.both_stores


_DAY_S = 86_400


async def _refused(it: LocalTopics, **publication: Any) -> str:
    with pytest.raises(HubError) as caught:
        await it.publish("@news", **publication)
    assert caught.value.code == "too_busy"
    return caught.value.text


async def _rows(it: LocalTopics) -> dict[str, int]:
    return dict(await it.store.key_counts())


def test_beyond_the_limit_of_a_client_new_keys_are_refused_and_old_ones_still_found(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], keys_per_client=3) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            first = [await it.publish("@news", key=f"k{n}", publisher="bob") for n in range(3)]
            assert "limits.keys_per_client" in await _refused(it, key="k3", publisher="bob")
            assert await it.publish("@news", key="k0", publisher="bob") == first[0]
            await it.publish("@news", publisher="bob")  # without a key
            await it.publish("@news", key="k3", publisher="carl")
            for number in range(4):  # operators: only the limit of the hub
                await it.publish("@news", key=f"k{number}")
            assert len(ann.contents) == 3 + 1 + 1 + 4
            assert await _rows(it) == {"": 4, "bob": 3, "carl": 1}
        # Counted again after a restart.
        async with local_topics(tmp_path, keys_per_client=3) as it:
            assert it.topics.keys.total == 8
            await _refused(it, key="k3", publisher="bob")
            it.now += it.limits.current.ttl_s + 1
            await _expire(it)
            await it.publish("@news", key="k3", publisher="bob")
            assert await _rows(it) == {"bob": 1}

    asyncio.run(run())


async def _expire(it: LocalTopics) -> None:
    done = it.loop.create_future()
    it.topics.keys.expire(done.set_result)
    assert not await asyncio.wait_for(done, 20)


def test_the_limit_of_the_hub_is_for_all_publishers(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, keys=2) as it:
            await it.publish("@news", key="k", publisher="ann", ttl_s=0)
            await it.publish("@news", key="k", publisher="bob")
            for publisher in ("carl", ""):
                assert "(limits.keys)" in await _refused(it, key="k", publisher=publisher)
            await it.publish("@news", key="k", publisher="bob")  # the same again

    asyncio.run(run())


def test_a_limit_of_none_refuses_every_key(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, keys=0) as it:
            await _refused(it, key="k")
            await it.publish("@news")

    asyncio.run(run())


def test_publishes_that_were_not_written_do_not_count(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], keys_per_client=1) as it:
            await it.subscribe(await it.sign_on("ann"), "@news")
            with it.full_disk(), pytest.raises(HubError):
                await it.publish("@news", key="k", publisher="bob")
            assert it.topics.keys.total == 0
            await it.publish("@news", key="k", publisher="bob")
            assert await _rows(it) == {"bob": 1}

    asyncio.run(run())


def test_expired_keys_are_deleted_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.hub.pubsub.keys._EXPIRED", 4)

    async def run() -> None:
        async with local_topics(tmp_path) as it:
            for number in range(10):
                publisher = "ann" if number % 2 else "bob"
                await it.publish("@news", key=f"k{number}", publisher=publisher, ttl_s=1)
                it.now += 0.1
            it.now += _DAY_S - 2
            await _expire(it)
            assert await _rows(it) == {"ann": 5, "bob": 5}
            it.now += 3
            more, steps = True, 0
            while more:
                done = it.loop.create_future()
                it.topics.keys.expire(done.set_result)
                more = await asyncio.wait_for(done, 20)
                steps += 1
            assert steps == 3
            assert await _rows(it) == {}
            assert it.topics.keys.total == 0

    asyncio.run(run())


def test_keys_that_are_being_written_end_with_their_publisher(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            ear = it.nobody()
            done = it.loop.create_future()
            it.topics.publish(
                Publication("@news", None, b"hello", key="k", publisher=ear.client.id),
                done.set_result,
            )
            it.leave(ear)  # in the same turn, and so in the same batch
            await asyncio.wait_for(done, 20)
            await it.written()
            assert await _rows(it) == {}
            assert it.topics.keys.total == 0

    asyncio.run(run())


def test_keys_of_a_connection_without_sign_on_end_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            ears = [it.nobody(), it.nobody()]
            for ear in ears:
                await it.publish("@news", key="k", publisher=ear.client.id)
            it.leave(ears[0])
            await it.written()
            assert await _rows(it) == {ears[1].client.id: 1}
        # A kill leaves the other one; where hubs share the store, until it expires.
        async with local_topics(tmp_path) as it:
            await it.written()
            left = {ears[1].client.id: 1} if is_postgres() else {}
            assert await _rows(it) == left
            assert it.topics.keys.total == len(left)

    asyncio.run(run())


@pytest.mark.parametrize("online", [False, True])
def test_another_client_with_the_same_id_has_no_keys(tmp_path: Path, online: bool) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            if online:
                await it.sign_on("bob")
            await it.publish("@news", b"x", key="k", publisher="bob")
            remove_client(database_of(tmp_path), "bob")
            if online:  # its connection is still open, and publishes
                await it.publish("@news", b"x", key="late", publisher="bob")
            add_client(database_of(tmp_path), "bob")
            await it.sign_on("bob")
            for key in ("k", "late") if online else ("k",):
                await it.publish("@news", b"x", key=key, publisher="bob")
            assert ann.contents == [b"x"] * (4 if online else 2)

    asyncio.run(run())


def test_a_failed_sign_on_keeps_what_the_connection_had(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ear = it.nobody()
            await it.subscribe(ear, "@news", ack=False)
            with pytest.raises(HubError, match="wrong"):
                await it.authority.sign_on(ear, "ann", "wrong")  # type: ignore[arg-type]
            await it.publish("@news", b"x")
            assert ear.contents == [b"x"]

    asyncio.run(run())

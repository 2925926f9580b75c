"""Hubs that share a database: what one stores, all deliver, in order, and once acknowledged never
again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.hub.pubsub.local_topics import LocalTopics, Receiver

from wirelake.hub.config import Limits, StoreSettings
from wirelake.hub.store import add_client, postgres_membership

DEADLINE_S = 20.0


@asynccontextmanager
async def hubs(url: str, folder: Path, count: int, *names: str) -> AsyncIterator[list[LocalTopics]]:
    """Topics of several hubs in this process, on one database."""
    for name in names:
        add_client(url, name)
    async with AsyncExitStack() as stack:
        found: list[LocalTopics] = []
        for _ in range(count):
            it = LocalTopics(folder, Limits(), StoreSettings(path=url))
            it.now = time.time()
            stack.push_async_callback(it.store.close)
            await it.load()
            found.append(it)
        yield found


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def subscribed(it: LocalTopics, name: str, *topics: str, protocol: str = "esnp") -> Receiver:
    ear = await it.sign_on(name, protocol)
    await it.subscribe(ear, *topics)
    return ear


def test_a_publish_at_one_hub_reaches_subscribers_of_all(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 3, "ann", "bob", "eve") as (one, two, three):
            ears = [
                await subscribed(it, name, "@news")
                for it, name in ((one, "ann"), (two, "bob"), (three, "eve"))
            ]
            published = [
                await each.publish("@news", b"%d" % at)
                for at, each in enumerate((one, two, three, two))
            ]
            assert [each.audience for each in published] == [3] * 4
            for ear in ears:
                await until(lambda ear=ear: len(ear.got) == 4)
                assert ear.contents == [b"0", b"1", b"2", b"3"]
                assert ear.ids == [each.id for each in published]

    asyncio.run(run())


def test_order_holds_whichever_hub_publishes(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 3, "ann", "bob") as places:
            ears = [
                await subscribed(places[0], "ann", "@news"),
                await subscribed(places[1], "bob", "@news"),
            ]

            async def publish(at: int) -> list[str]:
                return [
                    (await places[at].publish("@news", b"%d %d" % (at, number))).id
                    for number in range(60)
                ]

            ids = [each for some in await asyncio.gather(*map(publish, range(3))) for each in some]
            for ear in ears:
                await until(lambda ear=ear: len(ear.got) >= 180)
                assert sorted(ear.ids) == sorted(ids)
                for at in range(3):
                    mine = [each for each in ear.contents if each.startswith(b"%d " % at)]
                    assert mine == [b"%d %d" % (at, number) for number in range(60)]
            assert ears[0].ids == ears[1].ids

    asyncio.run(run())


def test_a_client_goes_on_at_another_hub(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann = await subscribed(one, "ann", "@a")
            for number in range(4):
                await one.publish("@a", b"%d" % number)
            await until(lambda: len(ann.got) == 4)
            one.topics.ack(ann, ann.ids[:2])  # type: ignore[arg-type]
            one.leave(ann)
            await until(lambda: not one.topics.registry.clients)  # saved and released
            await two.publish("@a", b"4")
            again = await subscribed(two, "ann", "@a")
            await until(lambda: len(again.got) == 3)
            assert again.contents == [b"2", b"3", b"4"]
            two.topics.ack(again, again.ids)  # type: ignore[arg-type]
            two.leave(again)
            await until(lambda: not two.topics.registry.clients)
            last = await subscribed(one, "ann", "@a")
            await one.publish("@a", b"5")
            await until(lambda: last.got)
            assert last.contents == [b"5"]

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["esnp", "comet"])
def test_a_second_sign_on_replaces_the_first_wherever_it_is(
    postgres: str, tmp_path: Path, protocol: str
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            first = await subscribed(one, "ann", "@a", protocol=protocol)
            await one.publish("@a", b"0")
            await until(lambda: first.got)
            second = await subscribed(two, "ann", "@a", protocol=protocol)
            await until(lambda: not one.topics.registry.clients["ann"].loaded)
            assert first.ended == ("replaced" if protocol == "comet" else "")
            await one.publish("@a", b"1")
            await until(lambda: b"1" in second.contents)
            assert first.contents == [b"0"]
            # What the first hub still has of it is not taken.
            assert one.topics.ack(first, first.ids) == 0  # type: ignore[arg-type]
            if protocol == "comet":
                waiting = await two.waiting(second)
                assert [each.content for each in waiting] == [b"0", b"1"]
            else:
                assert second.contents == [b"0", b"1"]

    asyncio.run(run())


def test_an_acknowledgement_of_a_hub_that_lost_the_client_is_refused(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            first = await subscribed(one, "ann", "@a")
            await one.publish("@a", b"0")
            await until(lambda: first.got)
            # As if the message that it was taken had been lost.
            assert one.store.cluster is not None
            one.store.cluster.received = lambda _: None
            second = await subscribed(two, "ann", "@a")
            await until(lambda: second.got)
            assert one.topics.ack(first, first.ids) == 1  # type: ignore[arg-type]
            await one.written()
            await until(lambda: not one.topics.registry.clients["ann"].loaded)
            two.leave(second)
            await until(lambda: not two.topics.registry.clients)
            third = await subscribed(two, "ann", "@a")
            await until(lambda: third.got)
            assert third.contents == [b"0"]

    asyncio.run(run())


def test_a_hub_without_a_lease_delivers_nothing_until_it_knows_its_clients(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_membership, "LEASE_S", 1.0)
    monkeypatch.setattr(postgres_membership, "RENEW_S", 0.3)

    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann", "bob") as (one, two):
            ann, bob = await subscribed(one, "ann", "@a"), await subscribed(one, "bob", "@a")
            cluster = one.store.cluster
            assert cluster is not None
            membership = cluster._membership
            assert membership is not None
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(membership, "_renew", lambda *_: None)  # as if it were cut off
                await until(lambda: not cluster.valid)
                await two.publish("@a", b"0")
                again = await subscribed(two, "ann", "@a")
                await until(lambda: again.got)
                await asyncio.sleep(0.3)
                assert (ann.got, bob.got) == ([], [])
            await until(lambda: cluster.valid)
            await until(lambda: bob.got)
            assert bob.contents == [b"0"]
            assert ann.got == []
            await two.publish("@a", b"1")
            await until(lambda: len(bob.got) == 2)

    asyncio.run(run())


def test_clients_of_a_hub_that_was_killed_are_free(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_membership, "LEASE_S", 1.0)
    monkeypatch.setattr(postgres_membership, "RENEW_S", 0.3)

    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann, nobody = await subscribed(one, "ann", "@a"), one.nobody()
            await one.subscribe(nobody, "@b")
            await one.publish("@a", b"0")
            await until(lambda: ann.got)
            assert one.store.cluster is not None
            membership = one.store.cluster._membership
            assert membership is not None
            membership._ended.set()  # no renewal any more
            ear = await subscribed(two, "ann", "@a")
            await until(lambda: ear.got)
            assert ear.contents == [b"0"]
            await until(lambda: two.store.cluster and two.store.cluster.leads)
            async with asyncio.timeout(DEADLINE_S):
                while await two.store.temporary() == []:
                    await asyncio.sleep(0.05)

    asyncio.run(run())


def test_numbers_of_hubs_and_ids_are_different(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 3) as places:
            numbers = [each.store.cluster.number for each in places if each.store.cluster]
            assert sorted(numbers) == [1, 2, 3]
            ids = [(await each.publish("@a", ttl_s=0)).id for each in places for _ in range(5)]
            assert len(set(ids)) == 15
        async with hubs(postgres, tmp_path, 1) as (it,):
            assert it.store.cluster is not None
            assert it.store.cluster.number == 1
            assert it.store.cluster.epoch == 4

    asyncio.run(run())


def test_a_quota_is_for_all_hubs(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann", "bob") as (one, two):
            for it in (one, two):
                it.limits.current = Limits(inbox=20)
            ann, bob = await subscribed(one, "ann", "@a"), await subscribed(two, "bob", "@a")
            one.leave(ann)
            await until(lambda: not one.topics.registry.clients)
            for number in range(100):
                await (one, two)[number % 2].publish("@a", b"%d" % number)
            await one.written()
            await two.written()
            assert len(await two.topics.inbox("ann", 1_000)) <= 20
            await until(lambda: len(bob.client.inbox.holes) <= 20)  # type: ignore[union-attr]

    asyncio.run(run())


@pytest.mark.parametrize("size", [0, 10, 9_000, 16_384])
def test_what_is_not_stored_reaches_clients_of_all_hubs(
    postgres: str, tmp_path: Path, size: int
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 3, "ann", "bob", "eve") as (one, two, three):
            ann, bob = await subscribed(one, "ann", "@a"), await subscribed(two, "bob", "@a")
            eve = await subscribed(three, "eve", "@b")
            content = (b"0123456789abcdef" * 1_024)[:size]
            published = await one.publish("@a", content, ttl_s=0)
            assert published.audience == 1
            await until(lambda: bob.got)
            assert ann.got == bob.got == [(published.id, content)]
            private = await one.publish(None, b"for bob", client="bob", ttl_s=0)
            await until(lambda: len(bob.got) == 2)
            assert bob.got[1] == (private.id, b"for bob")
            await two.publish("@a", b"again", ttl_s=0, key="k")
            await until(lambda: ann.contents[-1] == b"again")
            await asyncio.sleep(0.1)
            assert (len(ann.got), len(bob.got), eve.got) == (2, 3, [])

    asyncio.run(run())


def test_a_hub_alone_forwards_nothing(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 1, "ann") as (it,):
            cluster = it.store.cluster
            assert cluster is not None
            await until(lambda: cluster.alone)
            assert not it.topics._queue.forwards
            async with hubs(postgres, tmp_path, 1) as (other,):
                await other.publish("@a", b"x", ttl_s=0)  # a new hub does not know yet
                await until(lambda: not cluster.alone)

    asyncio.run(run())

"""A hub that loses clients, or does not know whether it has: nothing is lost, acknowledged for
them, or delivered that another hub may have delivered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.hub.cluster.test_following import hubs, subscribed, until
from tests.hub.pubsub.local_topics import LocalTopics

from wirelake.hub.errors import HubError
from wirelake.hub.store import postgres_membership


@pytest.fixture
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_membership, "LEASE_S", 1.0)
    monkeypatch.setattr(postgres_membership, "RENEW_S", 0.1)


def _cluster(it: LocalTopics) -> Any:
    assert it.store.cluster is not None
    return it.store.cluster


async def _taken(it: LocalTopics, name: str) -> None:
    """Take a client for a connection that is closed at once, as a hub that was paused may do."""
    late = await subscribed(it, name, "@a")
    it.leave(late)
    await until(lambda: name not in it.topics.registry.clients)


@pytest.mark.usefixtures("_short_leases")
def test_a_connection_gets_its_client_back_when_nobody_has_it(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann = await subscribed(one, "ann", "@a")
            await _taken(two, "ann")
            await two.publish("@a", b"0")
            await until(lambda: ann.got)
            await two.publish("@a", b"1")
            await until(lambda: len(ann.got) == 2)
            assert ann.contents == [b"0", b"1"]
            assert one.topics.ack(ann, ann.ids) == 2  # type: ignore[arg-type]

    asyncio.run(run())


@pytest.mark.usefixtures("_short_leases")
def test_a_hub_that_gets_another_epoch_gets_its_clients_back(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 1, "ann") as (one,):
            ann, nobody = await subscribed(one, "ann", "@a"), one.nobody()
            await one.subscribe(nobody, "@a")
            cluster = _cluster(one)
            membership, epoch = cluster._membership, cluster.epoch
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(membership, "_renew", lambda *_: None)  # as if it were paused
                await until(lambda: not cluster.valid)
                async with hubs(postgres, tmp_path, 1) as (other,):  # gets its number
                    assert _cluster(other).number == cluster.number
                    patch.undo()
                    await until(lambda: cluster.epoch != epoch and cluster.valid)
                    await other.publish("@a", b"0")
                    await until(lambda: ann.got)
            assert ann.contents == [b"0"]
            assert nobody.ended  # it was removed, and has to subscribe again

    asyncio.run(run())


def test_what_a_lost_client_still_does_is_not_saved(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann = await subscribed(one, "ann", "@a")
            await one.publish("@a", b"0")
            await until(lambda: ann.got)
            assert one.topics.ack(ann, ann.ids) == 1  # type: ignore[arg-type]
            await one.written()
            await _taken(two, "ann")
            await until(lambda: not ann.client.loaded)  # type: ignore[union-attr]
            # An empty inbox is in memory now; the first hub claims the client, and its end is late.
            await one.store.claim(ann.client.number, take=True)  # type: ignore[union-attr]
            one.topics.delivery.cursors.save_later(ann.client)  # type: ignore[arg-type]
            one.leave(ann)
            await one.written()
            await asyncio.sleep(0.2)
            again = await subscribed(two, "ann", "@a")
            await two.publish("@a", b"1")
            await until(lambda: b"1" in again.contents)
            assert again.contents == [b"1"]

    asyncio.run(run())


def test_a_message_that_is_older_than_the_last_claim_takes_nothing(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            kept: list[list[str]] = []
            deliver, _cluster(one).received = _cluster(one).received, kept.append
            ann = await subscribed(one, "ann", "@a")
            await _taken(two, "ann")
            # Back at the first hub, which does not know yet that it was elsewhere.
            back = await subscribed(one, "ann", "@a")
            await until(lambda: ["claimed", str(back.client.number)] in kept)  # type: ignore[union-attr]
            for words in kept:
                deliver(words)
            await two.publish("@a", b"0")
            await until(lambda: back.got)
            assert (ann.got, back.contents) == ([], [b"0"])
            assert one.topics.ack(back, back.ids) == 1  # type: ignore[arg-type]
            await one.written()
            await asyncio.sleep(0.2)
            assert back.client is not None
            assert back.client.loaded
            assert not back.client.unsaved

    asyncio.run(run())


@pytest.mark.usefixtures("_short_leases")
def test_messages_may_be_lost_with_the_connection(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann = await subscribed(one, "ann", "@a")
            deliver, _cluster(one).received = _cluster(one).received, lambda _: None
            again = await subscribed(two, "ann", "@a")
            _cluster(one).received = deliver
            assert ann.client is not None
            assert ann.client.loaded
            _cluster(one)._membership._connection.close()
            await until(lambda: not ann.client.loaded)  # type: ignore[union-attr]
            await one.publish("@a", b"0")
            await until(lambda: again.got)
            assert ann.got == []

    asyncio.run(run())


def test_a_hub_that_is_behind_repeats_nothing_that_was_acknowledged(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann = await subscribed(one, "ann", "@a")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(two.store._writer, "follow", lambda: None)
                await one.publish("@a", b"0")
                await until(lambda: ann.got)
                assert one.topics.ack(ann, ann.ids) == 1  # type: ignore[arg-type]
                await one.written()
                await asyncio.sleep(0.2)
                one.leave(ann)
                await until(lambda: not one.topics.registry.clients)
                again = await two.sign_on("ann", "comet")
                await until(lambda: again.client.live)  # type: ignore[union-attr]
            two.store._writer.follow()
            await two.publish("@a", b"1")
            await until(lambda: b"1" in again.contents)
            assert again.contents == [b"1"]

    asyncio.run(run())


@pytest.mark.usefixtures("_short_leases")
def test_a_list_is_refused_while_another_hub_may_serve_the_client(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 1, "ann") as (one,):
            ann = await subscribed(one, "ann", "@a", protocol="comet")
            cluster = _cluster(one)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cluster._membership, "_renew", lambda *_: None)
                await until(lambda: not cluster.valid)
                with pytest.raises(HubError):
                    await one.waiting(ann)
            await until(lambda: cluster.valid)
            assert await one.waiting(ann) == []

    asyncio.run(run())


@pytest.mark.usefixtures("_short_leases")
def test_somebody_leads_after_all_leases_were_over(postgres: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 1) as (one,):
            cluster = _cluster(one)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cluster._membership, "_renew", lambda *_: None)
                await asyncio.sleep(1.5)
            await until(lambda: cluster.valid)
            assert cluster.leads is True
            await one.topics.sweep.step()

    asyncio.run(run())


def test_acknowledgements_that_were_not_stored_delete_nothing(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 2, "ann") as (one, two):
            ann = await subscribed(one, "ann", "@a")
            for number in range(3):
                await one.publish("@a", b"%d" % number)
            await until(lambda: len(ann.got) == 3)
            _cluster(one).received = lambda _: None
            again = await subscribed(two, "ann", "@a")
            await until(lambda: len(again.got) == 3)
            # In memory of the first hub only, which does not know that it lost the client.
            assert ann.client is not None
            ann.client.inbox.holes.clear()
            (topic,) = one.topics.registry.topics_by_number
            (row,), _ = await one.store.lagging(topic, 1 << 62, 0, 9)
            numbers = list(again.client.inbox.holes)  # type: ignore[union-attr]
            inbox = one.topics.sweep._inbox_of(row)
            assert [inbox.is_unacked(each) for each in numbers] == [True] * 3

    asyncio.run(run())


def test_the_start_of_a_hub_keeps_keys_of_connections_at_others(
    postgres: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with hubs(postgres, tmp_path, 1, "ann") as (one,):
            await subscribed(one, "ann", "@a")
            first = await one.publish("@a", b"0", key="k", publisher="~1")
            async with hubs(postgres, tmp_path, 1) as (other,):
                await other.written()
                again = await one.publish("@a", b"0", key="k", publisher="~1")
            assert again.id == first.id

    asyncio.run(run())

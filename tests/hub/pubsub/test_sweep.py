"""What is over, what is too much, and what nobody needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.hub.stores import database_of

from wirelake.hub.errors import HubError
from wirelake.hub.pubsub import publishing
from wirelake.hub.pubsub.notifications import Publication
from wirelake.hub.store import remove_client
from wirelake.hub.store.interface import DeleteAcked

from .local_topics import LocalTopics, local_topics

pytestmark = pytest.mark.both_stores


def test_an_expired_notification_is_a_dead_letter_of_clients_without_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob", "eve"]) as it:
            ann, bob, eve = [await it.sign_on(name) for name in ("ann", "bob", "eve")]
            for each in (ann, bob, eve):
                await it.subscribe(each, "@a")
            it.leave(bob)
            published = await it.publish("@a", b"short", ttl_s=5)
            await it.publish("@a", b"long", ttl_s=500)
            await it.publish(None, b"private", client="bob", ttl_s=5)
            it.topics.ack(eve, eve.ids)  # type: ignore[arg-type]
            it.now += 6
            await it.sweep()
            dead = await it.topics.dead(10)
            assert sorted(
                (each.client, each.notification.content, each.reason) for each in dead
            ) == [
                ("ann", b"short", "expired"),
                ("bob", b"private", "expired"),
                ("bob", b"short", "expired"),
            ]
            assert {each.notification.topic for each in dead} == {"@a", None}
            of_ann = await it.topics.dead(10, "ann")
            assert [each.notification.id for each in of_ann] == [published.id]
            assert it.counters.dead == {"expired": 3}
            assert [each.content for each in await it.waiting(ann)] == [b"long"]
            assert [each.content for each in await it.waiting(await it.sign_on("bob"))] == [b"long"]
            assert it.topics.ack(ann, [published.id]) == 0  # type: ignore[arg-type]

    asyncio.run(run())


def test_what_has_expired_is_not_delivered_before_it_is_swept(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            for name, protocol in (("ann", "comet"), ("bob", "esnp")):
                ear = await it.sign_on(name, protocol)
                await it.subscribe(ear, "@a")
                it.leave(ear)
            for number in range(6):
                await it.publish("@a", b"%d" % number, ttl_s=5 if number % 2 else 500)
            it.now += 6
            waiting = await it.waiting(await it.sign_on("ann"))
            assert [each.content for each in waiting] == [b"0", b"2", b"4"]
            bob = await it.sign_on("bob", "esnp")
            await it.subscribe(bob, "@a")
            assert bob.contents == [b"0", b"2", b"4"]
            await it.sweep()
            assert len(await it.topics.dead(10)) == 6

    asyncio.run(run())


def test_the_oldest_beyond_the_quota_are_dead_letters(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"], inbox=3) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a", "@b")
            await it.publish("@a", b"pushed")
            it.leave(ann)
            for number in range(4):
                it.topics.ack(bob, bob.ids)  # type: ignore[arg-type]
                await it.publish("@a", b"%d" % number)
            await it.written()
            dead = await it.topics.dead(10)
            assert [(each.client, each.notification.content) for each in dead] == [
                ("ann", b"0"),
                ("ann", b"pushed"),
            ]
            assert {each.reason for each in dead} == {"quota"}
            waiting = await it.waiting(await it.sign_on("ann"))
            assert [each.content for each in waiting] == [b"1", b"2", b"3"]

    asyncio.run(run())


def test_clients_without_an_id_have_a_quota(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, in_flight=1, inbox=3) as it:
            ear = it.nobody()
            await it.subscribe(ear, "@a")
            for number in range(9):
                await it.publish("@a", b"%d" % number)
            await it.sweep()
            assert it.counters.dead == {"quota": 6}
            assert await it.topics.dead(10) == []
            assert len(it.index()) <= 4
            while it.topics.ack(ear, ear.ids):  # type: ignore[arg-type]
                await it.settled()
            assert ear.contents[-1] == b"8"

    asyncio.run(run())


def test_a_redriven_notification_is_sent_again_and_is_durable(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a")
            it.leave(bob)
            ids = [(await it.publish("@a", b"%d" % each, ttl_s=5, type=7)).id for each in range(3)]
            it.now += 6
            await it.sweep()
            ann.got.clear()
            assert await it.topics.redrive(ids=ids[:1]) == 2
            assert await it.topics.redrive(client="bob") == 2
            assert await it.topics.redrive(client="bob") == 0
            assert await it.topics.redrive(ids=ids[:1]) == 0
            await it.settled()
            assert ann.contents == [b"0"]
            assert ann.ids[0] not in ids
            assert [each.client for each in await it.topics.dead(10)] == ["ann", "ann"]
            twice = await asyncio.gather(*(it.topics.redrive(client="ann") for _ in range(2)))
            assert sorted(twice) == [0, 2]
            await it.settled()
            assert ann.contents == [b"0", b"1", b"2"]
            with pytest.raises(HubError, match="unknown client"):
                await it.topics.redrive(client="ghost")
            with pytest.raises(HubError, match="expected ids"):
                await it.topics.redrive(ids=["nonsense"])
            it.topics.close()
            with pytest.raises(HubError, match="shutting down"):
                await it.topics.redrive(client="bob")
        async with local_topics(tmp_path) as it:
            waiting = await it.waiting(await it.sign_on("bob"))
            assert [(each.content, each.topic, each.type) for each in waiting] == [
                (b"0", "@a", 7),
                (b"1", "@a", 7),
                (b"2", "@a", 7),
            ]

    asyncio.run(run())


def test_redriving_leaves_what_has_no_room_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            for number in range(3):
                await it.publish("@a", b"%d" % number * 10, ttl_s=5)
            it.now += 6
            await it.sweep()
            monkeypatch.setattr(publishing, "_MAX_QUEUED_BYTES", 9)
            with pytest.raises(HubError, match="queue is full"):
                await it.topics.redrive(client="ann")
            monkeypatch.setattr(publishing, "_MAX_QUEUED_BYTES", 20)
            assert await it.topics.redrive(client="ann") == 2
            assert [each.notification.content for each in await it.topics.dead(10)] == [b"2" * 10]
            assert await it.topics.redrive(client="ann") == 1

    asyncio.run(run())


def test_notifications_acknowledged_by_all_are_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a")
            for number in range(5):
                await it.publish("@a", b"%d" % number)
            await it.publish(None, b"private", client="ann")
            it.topics.ack(ann, ann.ids)  # type: ignore[arg-type]
            it.topics.ack(bob, bob.ids[:3])  # type: ignore[arg-type]
            await it.sweep()
            assert len(it.index()) == 2
            assert [each.content for each in await it.waiting(bob)] == [b"3", b"4"]
            await it.unsubscribe(bob, "@a")
            await it.unsubscribe(ann, "@a")
            await it.sweep()
            assert it.index() == []
            assert it.stored_topics() == []
            published = await it.publish("@a", b"nobody")
        async with local_topics(tmp_path) as it:
            assert await it.store.last_number() > 0
            assert (await it.publish("@a", b"later")).id != published.id

    asyncio.run(run())


def test_a_topic_subscribed_again_at_once_is_complete(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            await it.publish("@a", b"old")
            await it.unsubscribe(ann, "@a")
            await it.topics.sweep.step()
            await it.subscribe(ann, "@a")
            await it.publish("@a", b"new")
            await it.sweep()
        async with local_topics(tmp_path) as it:
            waiting = await it.waiting(await it.sign_on("ann"))
            assert [(each.topic, each.content) for each in waiting] == [("@a", b"new")]

    asyncio.run(run())


def test_a_removed_client_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@a")
            await it.publish("@a", b"topic")
            await it.publish(None, b"private", client="ann")
            remove_client(database_of(tmp_path), "ann")
            ids = it.authority.known()
            it.authority.recheck(ids, await it.store.clients_with(ids))
            assert (ann.ended, bob.ended) == ("revoked", "")
            await it.sweep()
            assert it.index() == []
            assert (await it.publish("@a", b"again")).audience == 0
            with pytest.raises(HubError, match="unknown client"):
                await it.publish(None, b"private", client="ann")

    asyncio.run(run())


def test_the_same_id_again_is_another_client(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            await it.subscribe(await it.sign_on("ann"), "@a")
            await it.publish("@a", b"for the first")
            await it.publish(None, b"for the first, too", client="ann")
            remove_client(database_of(tmp_path), "ann")
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            assert await it.waiting(ann) == []
            assert ann.client is not None
            assert ann.client.subscriptions == {}
            await it.sweep()
            assert it.index() == []

    asyncio.run(run())


# -- keeping pace --------------------------------------------------------------------------------


async def _publish_many(it: LocalTopics, topic: str | None, count: int, **more: Any) -> None:
    results: list[object] = []
    for number in range(count):
        publication = Publication(
            topic, more.get("client"), b"%d" % number, ttl_s=more.get("ttl_s")
        )
        it.topics.publish(publication, results.append)
    while len(results) < count:
        await it.written()
    assert not any(isinstance(each, HubError) for each in results)


async def _sweep_as_it_runs(it: LocalTopics, steps: int) -> None:
    await it.written()  # with several hubs, the sweep goes by the inboxes on disk
    it.topics.sweep.start()  # then rows are deleted in batches, one after the other
    try:
        for _ in range(steps):
            await it.topics.sweep.step()
            for _ in range(10):
                await it.written()
    finally:
        it.topics.sweep.stop()


@pytest.mark.parametrize("private", [False, True])
def test_one_step_deletes_everything_that_was_acknowledged(tmp_path: Path, private: bool) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=100_000, in_flight=100_000) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@a")
            if private:
                await _publish_many(it, None, 12_000, client="ann")
            else:
                await _publish_many(it, "@a", 12_000)
            await it.settled()
            assert len(ann.ids) == 12_000
            it.topics.ack(ann, ann.ids)  # type: ignore[arg-type]
            await _sweep_as_it_runs(it, 1)
            assert len(it.index()) == 0

    asyncio.run(run())


def test_a_few_steps_expire_thousands(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=100_000) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            await _publish_many(it, "@a", 6_000, ttl_s=5)
            it.now += 6
            assert await it.topics.sweep.step()
            await it.written()
            await it.sweep(3)
            assert it.index() == []
            assert it.counters.dead == {"expired": 6_000}

    asyncio.run(run())


def test_while_there_is_more_to_do_the_next_step_comes_soon(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=100_000) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            assert not await it.topics.sweep.step()
            await _publish_many(it, "@a", 5_000, ttl_s=5)
            it.now += 6
            busy = [await it.topics.sweep.step() for _ in range(1)]
            while await it.topics.sweep.step():
                busy.append(True)
                await it.written()
            assert 2 <= len(busy) <= 20

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["comet", "esnp"])
def test_one_unacknowledged_notification_does_not_keep_those_after_it(
    tmp_path: Path, protocol: str
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"], in_flight=100_000) as it:
            ann, bob = await it.sign_on("ann", protocol), await it.sign_on("bob", protocol)
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a")
            if protocol == "comet":  # what is published while it is away is never fetched
                it.leave(ann)
                await it.publish("@a", b"kept")
                ann = await it.sign_on("ann", protocol)
            else:
                await it.publish("@a", b"kept")
            for _ in range(4):
                await _publish_many(it, "@a", 2_000)
                await it.settled()
                kept = 1 if protocol == "esnp" else 0
                it.topics.ack(ann, ann.ids[kept:])  # type: ignore[arg-type]
                it.topics.ack(bob, bob.ids)  # type: ignore[arg-type]
                await _sweep_as_it_runs(it, 2)
            assert len(it.index()) < 2_000
            await it.written()
            copy = it.copy(tmp_path / "copy")
            assert [each.content for each in await it.waiting(ann)] == [b"kept"]
        async with local_topics(copy) as it:
            assert [each.content for each in await it.waiting(await it.sign_on("ann"))] == [b"kept"]

    asyncio.run(run())


def test_rows_that_could_not_be_deleted_are_deleted_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            await it.publish("@a")
            it.topics.ack(ann, ann.ids)  # type: ignore[arg-type]
            with it.full_disk(DeleteAcked):
                await it.written()
                with pytest.raises(HubError):
                    await it.topics.sweep.step()
            assert len(it.index()) == 1
            await it.sweep(2)
            assert it.index() == []

    asyncio.run(run())


def test_old_dead_letters_are_deleted_while_new_ones_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirelake.hub.pubsub.sweep.MAX_DEAD_LETTERS", 100)

    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=10) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            await _publish_many(it, "@a", 6_000)
            await it.written()
            await _sweep_as_it_runs(it, 1)
            dead = await it.topics.dead(10_000)
            assert len(dead) == 100
            assert dead[0].notification.content == b"5989"
            assert len(it.index()) == 10

    asyncio.run(run())


def test_a_topic_without_subscribers_is_removed_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], topics=20) as it:
            ann, other = await it.sign_on("ann"), it.nobody()
            for number in range(100):
                names = [f"@{number}-{each}" for each in range(10)]
                await it.subscribe(ann, *names)
                await it.publish(names[0])
                await it.unsubscribe(ann, *names)
                await it.subscribe(other, *names)
                await it.publish(names[0])
                await it.unsubscribe(other, *names)
            assert it.topics.registry.topics == {}
            await it.sweep()
            assert it.stored_topics() == []
            assert it.index() == []
            await it.subscribe(ann, *(f"@{number}" for number in range(20)))
            with pytest.raises(HubError, match="too many topics on this hub"):
                await it.subscribe(other, "@another")

    asyncio.run(run())


def test_what_is_published_to_a_topic_that_is_removed_meanwhile_is_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            other = it.nobody()
            await it.subscribe(other, "@a")
            results: list[object] = []
            it.topics.publish(Publication("@a", None, b"late"), results.append)
            it.leave(other)
            await it.written()
            await it.sweep()
            assert len(results) == 1
            assert it.index() == []
            assert it.stored_topics() == []

    asyncio.run(run())

"""Clients that leave memory and come back, at moments that are easily overlooked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from wirelake.hub.errors import HubError
from wirelake.hub.pubsub.notifications import Publication
from wirelake.hub.store import remove_client, rotate_client
from wirelake.hub.store.interface import AddDeadLetters, Delete, RemoveTopics, SaveInboxes

from .local_topics import LocalTopics, local_topics


def _ack(it: LocalTopics, ear: Any) -> int:
    return it.topics.ack(ear, ear.ids)


def test_a_client_stays_while_any_save_of_its_inbox_is_under_way(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@a")
            await it.publish("@a", b"1")
            await it.publish("@a", b"2")
            ids, there = ann.ids, []

            def after_first(_: object) -> None:
                there.append(it.topics.registry.clients.get("ann"))

            it.topics.ack(ann, ids[:1])  # type: ignore[arg-type]
            it.topics.delivery.save()
            it.store.write(RemoveTopics(0), after_first)
            await asyncio.sleep(0)  # the first save goes to the thread
            it.topics.ack(ann, ids[1:])  # type: ignore[arg-type]
            it.leave(ann)
            it.topics.delivery.save()
            await it.written()
            # Not on disk: who signed on now would get the second notification again.
            assert there == [ann.client]
            assert it.topics.registry.clients == {}
            assert await it.backlog("ann") == []

    asyncio.run(run())


def test_a_removed_client_is_forgotten_while_it_is_saved(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@a")
            await it.publish("@a")
            _ack(it, ann)
            it.topics.delivery.save()
            remove_client(tmp_path / "hub.sqlite3", "ann")
            it.authority.recheck(["ann"], [])
            assert ann.ended == "revoked"
            it.leave(ann)
            await it.written()
            assert it.topics.registry.clients == it.topics.registry.clients_by_number == {}
            assert it.select("SELECT * FROM inboxes") == []

    asyncio.run(run())


def test_dead_letters_that_could_not_be_written_wait_again_after_a_reload(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=10) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            numbers = []
            for _ in range(10):
                await it.publish("@a")
            await it.written()
            numbers = await it.backlog("ann")
            row = await it.store.client("ann")
            assert row is not None
            write, held = it.store.write, []

            def late(operation: Any, done: Any = None) -> None:
                if isinstance(operation, AddDeadLetters):
                    held.append(done)
                else:
                    write(operation, done)

            it.store.write = late  # type: ignore[method-assign]
            async with it.topics._loaded(row.number) as client:
                assert client is not None
                it.topics.delivery.dead_letter(client, numbers[:3], "quota")
                # A batch that takes long: the inbox is saved without them before it fails.
                it.topics.delivery.save()
                held[0](HubError("storage_failed"))
            await it.written()
            assert it.topics.registry.clients == {}
            assert await it.backlog("ann") == numbers

    asyncio.run(run())


def test_a_connection_that_signs_on_as_the_same_client_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            token = rotate_client(tmp_path / "hub.sqlite3", "ann")
            ear = it.ear(None, "esnp")
            for _ in range(2):
                client = await it.authority.sign_on(ear, "ann", token)  # type: ignore[arg-type]
            assert it.topics.registry.clients["ann"] is ear.client is client
            assert client.connections == 1
            await it.subscribe(ear, "@a")
            await it.publish(None, b"you", client="ann")
            assert ear.contents == [b"you"]

    asyncio.run(run())


def test_a_key_of_a_publish_for_a_connection_without_sign_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            for subscribed in (False, True):
                ear = it.nobody()
                assert ear.client is not None
                if subscribed:
                    await it.subscribe(ear, "@a")
                else:
                    it.topics.delivery.attach(ear)  # type: ignore[arg-type]
                first = await it.publish(None, b"you", client=ear.client.id, key="k", publisher="p")
                again = await it.publish(None, b"you", client=ear.client.id, key="k", publisher="p")
                assert first == again
                assert first.audience == 1
                assert ear.contents == [b"you"]
                it.topics.keys.forget("p")
                it.leave(ear)
            await it.written()
            assert it.index() == []

    asyncio.run(run())


def test_what_the_quota_cuts_is_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], inbox=10) as it:
            for number in range(40):
                await it.publish(None, b"%d" % number, client="ann")
                await it.written()
            kept = await it.backlog("ann")
            assert len(kept) <= 10
            # The log has no row that is only a dead letter.
            assert sorted(number for _, number in it.index()) == kept
            assert len(await it.topics.dead(100)) == 40 - len(kept)

    asyncio.run(run())


def test_other_work_goes_on_while_many_clients_are_counted(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(300)]

    async def run() -> None:
        async with local_topics(tmp_path, names) as it:
            turns = [0]
            load = it.store.load_client

            async def counted(client: int) -> Any:
                turns[-1] += 1
                return await load(client)

            async def tick() -> None:
                while True:
                    await asyncio.sleep(0)
                    turns.append(0)

            it.store.load_client = counted  # type: ignore[method-assign]
            ticking = asyncio.create_task(tick())
            for name in names:
                it.topics.publish(Publication(None, name, b"x"), lambda _: None)
            await it.written()
            ticking.cancel()
            assert sum(turns) == len(names)
            assert max(turns) <= 100

    asyncio.run(run())


def test_a_connection_without_sign_on_is_removed_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            ear = it.nobody()
            await it.subscribe(ear, "@a")
            await it.publish("@a")
            _ack(it, ear)
            it.topics.delivery.save()
            written, write = [], it.store.write

            def noted(operation: Any, done: Any = None) -> None:
                written.append(type(operation).__name__)
                write(operation, done)

            it.store.write = noted  # type: ignore[method-assign]
            it.leave(ear)
            await it.written()
            assert written.count("RemoveAccount") == 1
            assert SaveInboxes.__name__ not in written
            assert it.stored_topics() == it.select("SELECT * FROM inboxes") == []

    asyncio.run(run())


def test_a_topic_that_is_gone_leaves_nothing_in_memory(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], in_flight=10) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@a")
            for _ in range(1_100):
                it.topics.publish(Publication("@a", None, b"x"), lambda _: None)
            await it.written()
            await it.sweep()
            assert it.topics.sweep._sparse_size
            await it.unsubscribe(ann, "@a")
            await it.sweep()
            sweep = it.topics.sweep
            assert it.index() == []
            assert (
                sweep._sparse_size == sweep._not_before == it.topics.delivery.changed_topics == {}
            )

    asyncio.run(run())


def test_keys_of_removed_clients_that_are_away_are_not_counted(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"], keys=3) as it:
            for name in ("ann", "bob"):
                await it.publish("@a", key="k", publisher=name)
            remove_client(tmp_path / "hub.sqlite3", "ann")
            ids = it.authority.known()
            it.authority.recheck(ids, await it.store.clients_with(ids))
            assert (it.topics.keys.total, it.topics.keys.publishers()) == (1, ["bob"])
            # The rows are gone with the client, and not once more with the count.
            assert it.select("SELECT publisher FROM publisher_keys") == [("bob",)]

    asyncio.run(run())


def test_who_signs_on_while_others_are_checked_stays(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann = await it.sign_on("ann", "esnp")
            ids = it.authority.known()
            rows = await it.store.clients_with(ids)
            bob = await it.sign_on("bob", "esnp")  # where reads take time
            it.authority.recheck(ids, rows)
            assert (ann.ended, bob.ended) == ("", "")
            assert set(it.topics.registry.clients) == {"ann", "bob"}

    asyncio.run(run())


def test_what_is_pushed_while_a_subscription_ends_is_not_pushed_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann", "esnp"), await it.sign_on("bob", "esnp")
            await it.subscribe(ann, "@a", "@b")
            await it.subscribe(bob, "@a")
            await it.publish("@a", b"1")
            # In one batch: the second is pushed before the subscription ends.
            for topic in ("@a", "@b"):
                it.topics.publish(Publication(topic, None, b"2"), lambda _: None)
            assert await it.unsubscribe(ann, "@a") == 1
            await it.written()
            assert ann.contents == [b"1", b"2", b"2"]
            assert ann.client is not None
            assert [f"m00{n & 0xFFFFF:05x}" for n in ann.client.inbox.holes] == [ann.ids[2][:8]]
            again = await it.sign_on("ann", "esnp")
            await it.subscribe(again, "@b")
            await it.settled()
            assert again.ids == ann.ids[2:]

    asyncio.run(run())


def test_acknowledged_private_notifications_are_deleted_when_that_works_again(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@a")
            await it.publish(None, client="ann")
            write = it.store.write

            def fails(operation: Any, done: Any = None) -> None:
                if isinstance(operation, Delete):
                    it.loop.call_soon(done or (lambda _: None), HubError("storage_failed"))
                else:
                    write(operation, done)

            it.store.write = fails  # type: ignore[method-assign]
            _ack(it, ann)
            await it.written()
            assert len(it.index()) == 1
            it.store.write = write  # type: ignore[method-assign]
            await it.publish("@a")
            _ack(it, ann)
            await it.written()
            assert [target for target, _ in it.index() if target < 0] == []

    asyncio.run(run())


def test_a_notification_is_counted_once_as_a_dead_letter(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            await it.publish("@a", ttl_s=5)
            it.now += 6
            # Who asks for the list and the sweep find it at the same time.
            step = asyncio.create_task(it.topics.sweep.step())
            await asyncio.sleep(0)
            assert ann.client is not None
            number = await it.backlog("ann")
            it.topics.delivery.dead_letter(ann.client, number, "expired")
            await step
            await it.written()
            assert it.counters.dead == {"expired": 1}
            assert len(await it.topics.dead(10)) == 1

    asyncio.run(run())

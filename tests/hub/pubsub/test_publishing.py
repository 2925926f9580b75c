"""Publishing: who gets it, when it is confirmed, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.pubsub.notifications import Publication

from .local_topics import local_topics

pytestmark = pytest.mark.both_stores


def test_a_publish_reaches_all_subscribers_of_the_topic(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob", "eve"]) as it:
            ann, bob, eve = [await it.sign_on(name) for name in ("ann", "bob", "eve")]
            await it.subscribe(ann, "@news")
            await it.subscribe(bob, "@news", "@other")
            await it.subscribe(eve, "@other")
            published = await it.publish("@news", b"one")
            assert published.audience == 2
            assert ann.got == bob.got == [(published.id, b"one")]
            assert eve.got == []
            assert published.id.startswith("m")
            assert it.lines.encoded == 1

    asyncio.run(run())


def test_a_publish_is_on_disk_before_it_is_confirmed(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path / "a", ["ann"]) as it:
            await it.subscribe(await it.sign_on("ann"), "@news")
            published = await it.publish("@news", b"kept")
            copy = it.copy(tmp_path / "b")
        async with local_topics(copy) as it:
            waiting = await it.waiting(await it.sign_on("ann"))
            assert [(each.id, each.content) for each in waiting] == [(published.id, b"kept")]

    (tmp_path / "a").mkdir()
    asyncio.run(run())


def test_unstored_notifications_go_to_online_clients_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@news")
            await it.subscribe(bob, "@news")
            it.leave(bob)
            result: list[object] = []
            for content in (b"1", b"2", b"3"):
                it.topics.publish(Publication("@news", None, content, ttl_s=0), result.append)
            assert len(result) == 3
            assert {each.audience for each in result} == {1}  # type: ignore[attr-defined]
            await it.settled()
            assert ann.contents == [b"1", b"2", b"3"]
            assert ann.writes == 1
            assert it.lines.encoded == 3
            assert await it.waiting(ann) == []
            assert await it.waiting(await it.sign_on("bob")) == []

    asyncio.run(run())


def test_order_over_topics_holds_within_a_turn(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a", "@b")
            expected = []
            for number in range(9):
                topic, ttl_s = ("@a", "@b", "@a")[number % 3], (0, 0, None)[number // 3]
                expected.append(b"%d" % number)
                publication = Publication(topic, None, expected[-1], ttl_s=ttl_s)
                it.topics.publish(publication, lambda _: None)
            it.topics.publish(Publication("@b", None, b"last", ttl_s=0), lambda _: None)
            await it.written()
            assert ann.contents == [*expected, b"last"]
            stored = ann.ids[6:9]  # the others have numbers of their own
            assert stored == sorted(stored, key=lambda each: each[8:] + each[3:8])
            assert len(set(ann.ids)) == 10

    asyncio.run(run())


def test_a_new_subscriber_gets_nothing_published_before(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann = await it.sign_on("ann", "esnp")
            await it.subscribe(ann, "@news", ack=False)
            it.topics.publish(Publication("@news", None, b"now", ttl_s=0), lambda _: None)
            it.topics.publish(Publication("@news", None, b"kept"), lambda _: None)
            bob = it.nobody()
            await it.subscribe(bob, "@news", ack=False)
            await it.written()
            assert ann.contents == [b"now", b"kept"]
            assert bob.contents == []
            await it.publish("@news", b"later")
            assert bob.contents == [b"later"]

    asyncio.run(run())


def test_one_client_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann = await it.sign_on("ann")
            online = await it.publish(None, b"to ann", client="ann")
            offline = await it.publish(None, b"to bob", client="bob")
            now = await it.publish(None, b"now", client="ann", ttl_s=0)
            missed = await it.publish(None, b"missed", client="bob", ttl_s=0)
            assert (online.audience, offline.audience) == (1, 1)
            assert (now.audience, missed.audience) == (1, 0)
            assert ann.got == [(online.id, b"to ann"), (now.id, b"now")]
            waiting = await it.waiting(await it.sign_on("bob"))
            assert [(each.id, each.topic) for each in waiting] == [(offline.id, None)]
            assert offline.id.startswith("p")

    asyncio.run(run())


def test_a_key_publishes_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            result: list[object] = []
            for _ in range(2):  # the second comes while the first is on its way
                it.topics.publish(Publication("@news", None, b"x", key="k"), result.append)
            await it.written()
            again = await it.publish("@news", b"x", key="k", ttl_s=5)
            assert result == [again, again]
            assert ann.contents == [b"x"]
            nobody = await it.publish("@nobody", b"x", key="n")
            assert await it.publish("@nobody", b"x", key="n") == nobody
        async with local_topics(tmp_path) as it:
            assert await it.publish("@news", b"x", key="k") == again
            it.now += it.limits.current.ttl_s + 1
            assert await it.publish("@news", b"x", key="k") != again

    asyncio.run(run())


def test_a_key_belongs_to_its_publisher(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            results = [
                await it.publish("@news", b"x", key="order-1", publisher=publisher)
                for publisher in ("a", "b", "", "a")
            ]
            assert len({each.id for each in results}) == 3
            assert results[0] == results[3]
            assert ann.contents == [b"x"] * 3

    asyncio.run(run())


@pytest.mark.parametrize(
    "other",
    [
        Publication("@news", None, b"y", key="k"),
        Publication("@olds", None, b"x", key="k"),
        Publication("@news", None, b"x", type=1, key="k"),
        Publication(None, "ann", b"x", key="k"),
    ],
)
@pytest.mark.parametrize("written", [False, True])
def test_another_publication_under_a_key_is_refused(
    tmp_path: Path, other: Publication, written: bool
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            result: list[object] = []
            it.topics.publish(Publication("@news", None, b"x", key="k"), result.append)
            if written:
                await it.written()
            it.topics.publish(other, result.append)
            await it.written()
            refused = result[-1]
            assert isinstance(refused, HubError)
            assert refused.code == "conflict"
            assert ann.contents == [b"x"]

    asyncio.run(run())


@pytest.mark.parametrize("ttl_s", [0, 1])
def test_a_key_outlives_its_notification(tmp_path: Path, ttl_s: float) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            first = await it.publish("@news", b"x", key="k", ttl_s=ttl_s)
            it.now += 60
            await it.sweep()
            assert await it.publish("@news", b"x", key="k", ttl_s=ttl_s) == first
            assert ann.contents == [b"x"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("publication", "code"),
    [
        (Publication(None, None, b""), "bad_arguments"),
        (Publication("@a", "ann", b""), "bad_arguments"),
        (Publication("", None, b""), "bad_arguments"),
        (Publication("@a b", None, b""), "bad_arguments"),
        (Publication("news", None, b""), "bad_arguments"),
        (Publication("@" + "a" * 256, None, b""), "bad_arguments"),
        (Publication("@é\u200b", None, b""), "bad_arguments"),
        (Publication(None, "ghost", b""), "not_found"),
        (Publication(None, "~12", b""), "not_found"),
        (Publication("@a", None, bytes(16_385)), "too_large"),
        (Publication("@a", None, b"", type=256), "bad_arguments"),
        (Publication("@a", None, b"", ttl_s=-1), "bad_arguments"),
        (Publication("@a", None, b"", ttl_s=float("nan")), "bad_arguments"),
        (Publication("@a", None, b"", key="k" * 257), "bad_arguments"),
        (Publication("@a", None, b"", key="\ud800"), "bad_arguments"),
    ],
)
def test_what_is_refused(tmp_path: Path, publication: Publication, code: str) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            result: list[object] = []
            it.topics.publish(publication, result.append)
            await it.written()
            assert len(result) == 1
            assert isinstance(result[0], HubError)
            assert result[0].code == code
            assert it.counters.refused_publishes == 1

    asyncio.run(run())


@pytest.mark.parametrize("topic", ["$sys", "@", "@ünï/ködé-1", "@" + "a" * 255])
def test_what_may_be_published_to(tmp_path: Path, topic: str) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            assert (await it.publish(topic, b"")).audience == 0
            assert (await it.publish(topic, b"", ttl_s=0)).audience == 0

    asyncio.run(run())


def test_numbers_increase_when_the_clock_goes_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            first = await it.publish("@a", ttl_s=0)
        async with local_topics(tmp_path) as it:
            it.now -= 1000
            await it.load()
            second = await it.publish("@a", ttl_s=0)
            assert first.id[8:] + first.id[3:8] < second.id[8:] + second.id[3:8]

    asyncio.run(run())


def test_a_subscription_precedes_publishes_after_a_kill_in_the_same_second(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            for _ in range(9):
                await it.publish("@a", ttl_s=0)  # numbers that leave no trace
            await it.subscribe(await it.sign_on("ann"), "@a")
            copy = it.copy(tmp_path / "copy")
        async with local_topics(copy) as it:  # its clock says what the other's said
            published = await it.publish("@a", b"for ann")
            assert published.audience == 1
            waiting = await it.waiting(await it.sign_on("ann"))
            assert [each.content for each in waiting] == [b"for ann"]

    asyncio.run(run())


@pytest.mark.sqlite_only("the limit of the size is one of SQLite's")
def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@news")
            kept = await it.publish("@news", b"before")
            pages = "PRAGMA max_page_count = %d"
            await _on_the_writer(it, pages % 1)  # SQLite takes the present size
            for _ in range(100):  # until what is free in the file is used up
                if not await _fits(it):
                    break
            with pytest.raises(HubError, match="disk is full") as refused:
                await it.publish("@news", bytes(16_000))
            assert refused.value.code == "storage_full"
            before = list(ann.contents)
            await _on_the_writer(it, pages % 1_000_000)
            await it.publish("@news", b"after")
            assert ann.contents == [*before, b"after"]
            assert (await it.waiting(ann))[0].id == kept.id

    async def _fits(it: object) -> bool:
        try:
            await it.publish("@news", bytes(16_000))  # type: ignore[attr-defined]
        except HubError:
            return False
        return True

    async def _on_the_writer(it: object, statement: str) -> None:
        store = it.store  # type: ignore[attr-defined]
        store._writer._database._db.execute(statement)

    asyncio.run(run())

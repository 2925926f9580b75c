"""Who gets what, in which order, and what an acknowledgement does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .local_topics import LocalTopics, Receiver, local_topics

pytestmark = pytest.mark.both_stores


def _ack(it: LocalTopics, ear: Receiver, *ids: str) -> int:
    return it.topics.ack(ear, ids)  # type: ignore[arg-type]


def test_stored_notifications_are_pushed_first_oldest_first(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            first = await it.sign_on("ann", "esnp")
            await it.subscribe(first, "@a", "@b")
            it.leave(first)
            for number in range(200):
                await it.publish("@ab"[:: 1 if number % 2 else 2][:2], b"%d" % number)
            ann = await it.sign_on("ann", "esnp")
            assert ann.got == []
            await it.subscribe(ann, "@a")
            published = it.publish("@a", b"new")
            await published
            await it.settled()
            assert ann.contents == [*(b"%d" % each for each in range(200)), b"new"]
            assert first.got == []

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["esnp", "comet"])
def test_in_flight_is_bounded_and_continues_with_acks(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], in_flight=3) as it:
            ann = await it.sign_on("ann", protocol)
            await it.subscribe(ann, "@a")
            for number in range(8):
                await it.publish("@a", b"%d" % number)
            assert ann.contents == [b"0", b"1", b"2"]
            assert _ack(it, ann, ann.ids[1], "nonsense", ann.ids[1]) == 1
            await it.settled()
            assert ann.contents == [b"0", b"1", b"2", b"3"]
            await it.publish("@a", b"skipped", ttl_s=0)
            assert it.counters.skipped == {protocol: 1}
            while len(ann.got) < 8:
                assert _ack(it, ann, *ann.ids)
                await it.settled()
            assert ann.contents == [b"%d" % each for each in range(8)]
            _ack(it, ann, *ann.ids)
            await it.settled()
            await it.publish("@a", b"now", ttl_s=0)
            assert ann.contents[-1] == b"now"
            assert it.counters.acked == 8

    asyncio.run(run())


def test_not_acknowledged_is_pushed_again_on_the_next_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            first = await it.sign_on("ann", "tny", own=True)
            await it.subscribe(first, "@a")
            for number in range(4):
                await it.publish("@a", b"%d" % number)
            _ack(it, first, first.ids[1])
            second = await it.sign_on("ann", "tny", own=True)
            await it.subscribe(second, "@a")
            await it.settled()
            assert second.contents == [b"0", b"2", b"3"]
            await it.publish("@a", b"4")
            assert first.contents == [b"0", b"1", b"2", b"3"]
            assert second.contents[-1] == b"4"
            it.leave(first)
            await it.publish("@a", b"5")
            assert second.contents[-1] == b"5"

    asyncio.run(run())


def test_without_ack_what_is_written_is_over(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"], in_flight=2) as it:
            ann = await it.sign_on("ann", "magline", own=True)
            await it.subscribe(ann, "@a", ack=False)
            for number in range(5):
                await it.publish("@a", b"%d" % number)
            assert ann.contents == [b"%d" % each for each in range(5)]
            it.leave(ann)
            await it.publish("@a", b"offline")
            again = await it.sign_on("ann", "magline", own=True)
            await it.subscribe(again, "@a", ack=False)
            assert again.contents == [b"offline"]
        async with local_topics(tmp_path) as it:
            assert await it.topics.inbox("ann", 10) == []

    asyncio.run(run())


def test_comet_gets_new_notifications_pushed_and_fetches_stored_ones(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            for number in range(300):
                await it.publish("@a", b"%d" % number)
            ann = await it.sign_on("ann")
            await it.publish("@a", b"new")
            assert ann.contents == [b"new"]
            _ack(it, ann, *ann.ids)
            fetched: list[bytes] = []
            while page := await it.waiting(ann):
                assert [each.id for each in await it.waiting(ann)] == [each.id for each in page]
                assert len(page) <= 127
                fetched.extend(each.content for each in page)
                _ack(it, ann, *(each.id for each in page))
            assert fetched == [b"%d" % each for each in range(300)]
            await it.written()
            inbox = ann.client.inbox  # type: ignore[union-attr]
            assert (inbox.spans, inbox.holes) == ([], {})

    asyncio.run(run())


def test_comet_without_fetching_keeps_stored_notifications_over_reconnects(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            await it.subscribe(await it.sign_on("ann"), "@a")
            waiting = []
            for number in range(5):
                ann = await it.sign_on("ann")
                await it.publish("@a", b"pushed %d" % number)
                _ack(it, ann, *ann.ids)
                it.leave(ann)
                waiting.append(b"waits %d" % number)
                await it.publish("@a", waiting[-1])
            await it.written()
        async with local_topics(tmp_path) as it:
            assert [each.content for each in await it.waiting(await it.sign_on("ann"))] == waiting

    asyncio.run(run())


def test_a_list_has_no_more_than_a_frame_carries(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            it.leave(ann)
            for number in range(5):
                await it.publish("@a", b"%d" % number * 16_000)
            ann = await it.sign_on("ann")
            seen = []
            while page := await it.waiting(ann):
                assert len(page) <= 2
                seen.extend(each.content[:1] for each in page)
                _ack(it, ann, *(each.id for each in page))
            assert seen == [b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(run())


def test_a_slow_reader_is_spared_and_gets_what_is_stored_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a")
            it.topics.fell_behind(ann)  # type: ignore[arg-type]
            await it.publish("@a", b"stored 1")
            published = await it.publish("@a", b"not stored", ttl_s=0)
            await it.publish("@a", b"stored 2")
            assert published.audience == 1
            assert ann.got == []
            assert bob.contents == [b"stored 1", b"not stored", b"stored 2"]
            assert it.counters.skipped == {"comet": 1}
            it.topics.caught_up(ann)  # type: ignore[arg-type]
            await it.settled()
            assert ann.contents == [b"stored 1", b"stored 2"]
            await it.publish("@a", b"again", ttl_s=0)
            assert ann.contents[-1] == b"again"

    asyncio.run(run())


def test_a_connection_gets_notifications_once_it_may_receive(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann", "comet", attached=False)
            ann.may_receive = False
            it.topics.attach(ann)  # type: ignore[arg-type]
            await it.subscribe(ann, "@a")
            await it.publish("@a", b"early")
            assert ann.got == []
            ann.may_receive = True
            it.topics.regroup(ann)  # type: ignore[arg-type]
            await it.settled()
            assert ann.contents == [b"early"]

    asyncio.run(run())


def test_a_new_form_applies_to_later_notifications(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            await it.publish("@a", b"1", ttl_s=0)
            assert it.lines.encoded == 1
            ann.form = None
            it.topics.regroup(ann)  # type: ignore[arg-type]
            await it.publish("@a", b"2", ttl_s=0)
            await it.publish("@a", b"3")
            assert it.lines.encoded == 1
            assert ann.contents == [b"1", b"2", b"3"]

    asyncio.run(run())


def test_a_failing_connection_does_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann", own=True), await it.sign_on("bob", own=True)
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a")
            ann.deliver = None  # type: ignore[assignment, method-assign]
            await it.publish("@a", b"1", ttl_s=0)
            await it.publish("@a", b"2")
            assert ann.ended == "internal"
            assert bob.contents == [b"1", b"2"]
            it.leave(ann)
            assert [each.content for each in await it.waiting(await it.sign_on("ann"))] == [b"2"]

    asyncio.run(run())
    assert "cannot deliver" in caplog.text


def test_what_was_acknowledged_stays_so_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann"]) as it:
            ann = await it.sign_on("ann")
            await it.subscribe(ann, "@a")
            for number in range(6):
                await it.publish("@a", b"%d" % number)
            _ack(it, ann, *ann.ids[::2])
        async with local_topics(tmp_path) as it:
            waiting = await it.waiting(await it.sign_on("ann"))
            assert [each.content for each in waiting] == [b"1", b"3", b"5"]
            assert [each.topic for each in waiting] == ["@a"] * 3

    asyncio.run(run())


def test_a_client_without_an_id_gets_pushes_and_stores_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, in_flight=2) as it:
            ear = it.nobody()
            await it.subscribe(ear, "@a")
            for number in range(4):
                await it.publish("@a", b"%d" % number)
            assert ear.contents == [b"0", b"1"]
            _ack(it, ear, *ear.ids)
            await it.settled()
            assert ear.contents == [b"0", b"1", b"2", b"3"]
            assert ear.client is not None
            private = await it.publish(None, b"you", client=ear.client.id)
            assert private.audience == 1
            assert ear.contents[-1] == b"you"
            it.leave(ear)
            await it.sweep()
            assert await it.topics.topic_page(0, 10) == (0, [])
            assert await it.topics.client_page(0, 10) == (0, [])
        async with local_topics(tmp_path) as it:
            assert it.stored_topics() == []
            assert it.index() == []

    asyncio.run(run())


def test_people_can_look(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["ann", "bob"]) as it:
            ann, bob = await it.sign_on("ann"), await it.sign_on("bob")
            await it.subscribe(ann, "@a")
            await it.subscribe(bob, "@a", "@b")
            it.leave(bob)
            await it.publish("@a", b"1")
            _, (a, b) = await it.topics.topic_page(0, 10)
            assert (a.name, a.subscribers, a.online, a.stored) == ("@a", 2, 1, 1)
            assert (b.name, b.subscribers, b.online, b.stored) == ("@b", 1, 0, 0)
            _, states = await it.topics.client_page(0, 10)
            rows = {each.id: each for each in states}
            assert (rows["ann"].online, rows["ann"].owed, rows["ann"].waiting) == (True, 1, 1)
            assert (rows["bob"].online, rows["bob"].waiting) == (False, 1)
            assert rows["bob"].topics == ("@a", "@b")
            assert [each.content for each in await it.topics.inbox("bob", 5)] == [b"1"]

    asyncio.run(run())

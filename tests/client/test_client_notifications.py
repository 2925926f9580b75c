"""Notifications: order, acknowledgements, repeats, reconnects, and what nobody takes."""

from __future__ import annotations

import asyncio

import pytest

from wirelake.client import BadCall, CallFailed, Notification
from wirelake.client.inbox import Inbox

from .session_servers import Sent, standing, take, until
from .test_client_calls import CALLING, EVERY, client_of


@pytest.mark.parametrize("protocol", EVERY)
def test_subscribe_take_and_acknowledge(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            await c.subscribe("@news", "@more")
            number = stand.notify(b"rain")
            (found,) = await take(c, 1)
            topic = None if protocol == "comet" else "@news"
            assert found == Notification(number, b"rain", 7, topic, 0)
            assert found.text == "rain"
            await c.ack(found)
            assert not stand.waiting
            await c.unsubscribe("@more")
            wanted = [given for name, given in stand.heard if name == "subscribe"]
            assert wanted[0]["topics"] == ["@news", "@more"]
            assert wanted[0].get("ack", True) is True

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_subscriptions_are_made_again(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            await c.subscribe("@a", "@b")
            await c.unsubscribe("@b")
            stand.heard.clear()
            stand.cut()
            await until(lambda: not c.connected)
            await until(lambda: c.connected)
            wanted = [given["topics"] for name, given in stand.heard if name == "subscribe"]
            assert wanted == [["@a"]]
            stand.notify(b"after")
            assert [each.content for each in await take(c, 1)] == [b"after"]

    asyncio.run(story())


def test_a_subscription_that_is_refused_is_not_made_again() -> None:
    async def story() -> None:
        async with standing("tny") as stand, client_of(stand) as c:
            with pytest.raises(CallFailed, match="not this one"):
                await c.subscribe("@forbidden")
            stand.heard.clear()
            stand.cut()
            await until(lambda: not c.connected)
            await until(lambda: c.connected)
            assert "subscribe" not in stand.names()

    asyncio.run(story())


def test_a_subscription_waits_for_the_next_connection() -> None:
    async def story() -> None:
        async with standing("esnp") as stand, client_of(stand) as c:
            await stand.stop()
            await until(lambda: not c.connected)
            wanted = asyncio.create_task(c.subscribe("@late", ack=False))
            await asyncio.sleep(0)
            await stand.start()
            await wanted
            assert ("subscribe", {"topics": ["@late"], "ack": False}) in stand.heard

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_redelivered_notification_is_returned_once(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            await c.subscribe("@news")
            first = stand.notify(b"one")
            (one,) = await take(c, 1)
            stand.cut()
            await until(lambda: not c.connected)
            await until(lambda: c.connected)
            for sent in stand.waiting.values():  # not acknowledged: the server sends it again
                stand.peers[0].push(sent)
            stand.notify(b"two")
            assert [each.content for each in await take(c, 1)] == [b"two"]
            await c.ack(one)
            assert first not in stand.waiting

    asyncio.run(story())


def test_an_acknowledgement_that_was_lost_is_made_again() -> None:
    async def story() -> None:
        async with standing("comet") as stand, client_of(stand) as c:
            stand.notify(b"one", push=False)
            (one,) = await take(c, 1)
            stand.drop_acks = True
            acking = asyncio.create_task(c.ack(one))
            await until(lambda: not c.connected)
            stand.drop_acks = False
            await acking
            assert not stand.waiting

            two = stand.notify(b"two")
            assert [each.id for each in await take(c, 1)] == [two]
            await c.ack(two)
            stand.waiting[two] = Sent(two, "@news", b"two")  # as if the server had not heard it
            stand.peers[0].push(stand.waiting[two])
            await until(lambda: not stand.waiting, "it is acknowledged by itself")

    asyncio.run(story())


def test_comet_gives_what_waited_page_by_page_and_in_order() -> None:
    async def story() -> None:
        async with standing("comet") as stand:
            for number in range(5):
                stand.notify(b"%d" % number, push=False)
            async with client_of(stand) as c:
                found = []
                stand.notify(b"5")  # pushed, while five older ones wait
                async for each in c.notifications():
                    found.append(each.content)
                    if len(found) == 3:
                        stand.notify(b"6")
                    await c.ack(each)
                    if len(found) == 7:
                        break
                assert found == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
                assert not stand.waiting

    asyncio.run(story())


def test_comet_without_acknowledgements_still_gives_what_is_pushed() -> None:
    async def story() -> None:
        async with standing("comet") as stand:
            for number in range(3):
                stand.notify(b"%d" % number, push=False)
            async with client_of(stand) as c:
                stand.notify(b"pushed")
                found = await take(c, 3)
                assert [each.content for each in found] == [b"0", b"1", b"pushed"]
                assert [each.content for each in await c.fetch()] == [b"0", b"1"]
                await c.ack(*found)
                assert [each.content for each in await take(c, 1)] == [b"2"]

    asyncio.run(story())


def test_comet_needs_an_id_for_topics_but_not_for_a_ping() -> None:
    async def story() -> None:
        async with standing("comet") as stand, client_of(stand, id=None) as c:
            assert await c.ping() >= 0
            with pytest.raises(BadCall, match="sign on first"):
                await c.subscribe("@news")

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_notifications_that_are_not_consumed_are_not_read(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand, max_waiting=10) as c:
            await c.subscribe("@news")
            sent = 0
            transport = stand.peers[0].transport
            while not transport.get_write_buffer_size() > 1 << 16:
                stand.notify(b"x" * 4096)
                sent += 1
                await asyncio.sleep(0)
                assert sent < 20_000, "everything was read"
            assert c.full
            await c.ping()  # an answer is read for all that
            if protocol == "comet":
                stand.waiting.clear()  # nothing waited: it was all pushed
            found = await take(c, sent)
            assert len({each.id for each in found}) == sent

    asyncio.run(story())


def test_the_end_of_the_client_ends_the_loop() -> None:
    async def story() -> None:
        async with standing("esnp") as stand:
            async with client_of(stand) as c:
                await c.subscribe("@news")
                stand.notify(b"last")
                await until(lambda: c._inbox._queue)
                taking = asyncio.create_task(_all(c))
                await asyncio.sleep(0)
            assert await asyncio.wait_for(taking, 10) == [b"last"]

    async def _all(c: object) -> list[bytes]:
        return [each.content async for each in c.notifications()]  # type: ignore[attr-defined]

    asyncio.run(story())


def test_an_inbox_keeps_a_bounded_number_of_ids() -> None:
    async def story() -> None:
        inbox = Inbox(10, lambda: None, lambda _: None)
        for number in range(10_001):
            inbox.pushed(Notification(str(number), b""))
        assert len(inbox._known) == 10_000

    asyncio.run(story())

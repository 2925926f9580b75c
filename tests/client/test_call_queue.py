"""Requests that wait for a place: order, deadlines, cancellation, limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from wirelake.client import BadCall, Busy, Client, ConnectionLost, NotConnected, Timeout
from wirelake.client.call_queue import CallQueue

from .session_servers import Stand, standing, until
from .test_client_calls import CALLING, EVERY, TARGETS, client_of

SOON_S = 0.05
LATER_S = 20.0


class Places:
    """So many places; requests note their names when they run."""

    def __init__(self, free: int, most: int = 100):
        self.free = free
        self.ran: list[str] = []
        self.queue = CallQueue(lambda: self.free, most)

    async def request(self, name: str, wait_s: float = LATER_S) -> None:
        if not self.queue.admits:
            await self.queue.wait(asyncio.get_running_loop().time() + wait_s)
        self.free -= 1
        self.ran.append(name)

    def start(self, *names: str) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.request(name)) for name in names]

    def release(self, count: int = 1) -> None:
        self.free += count
        self.queue.wake()


async def turns() -> None:
    """Lets everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_first_come_first_served() -> None:
    async def story() -> None:
        places = Places(2)
        tasks = places.start("a", "b", "c", "d")
        await turns()
        assert places.ran == ["a", "b"]
        places.free += 1
        assert not places.queue.admits, "others wait, although there is a place"
        places.queue.wake()
        late = places.start("e")
        await turns()
        assert places.ran == ["a", "b", "c"]
        places.release(2)
        await asyncio.gather(*tasks, *late)
        assert places.ran == ["a", "b", "c", "d", "e"]
        assert places.free == 0
        last = places.start("f")
        await turns()
        places.release()
        assert not places.queue
        assert not places.queue.admits, "the place is for `f`, which has not run yet"
        await asyncio.gather(*last)
        assert places.ran[-1] == "f"

    asyncio.run(story())


def test_a_cancelled_request_leaves_its_place_to_the_next() -> None:
    async def story() -> None:
        places = Places(0)
        first, second, third = places.start("a", "b", "c")
        await turns()
        first.cancel()
        await turns()
        places.release()  # the place is granted to `b`,
        second.cancel()  # which is cancelled before it runs
        await turns()
        assert places.ran == ["c"]
        assert third.done()
        assert not places.queue
        places.free = 1
        assert places.queue.admits, "no place is lost"

    asyncio.run(story())


def test_a_deadline_and_a_full_queue() -> None:
    async def story() -> None:
        places = Places(0, most=2)
        late = asyncio.create_task(places.request("late", SOON_S))
        (waits,) = places.start("waits")
        await turns()
        with pytest.raises(Busy, match="2 requests wait already"):
            await places.request("too many")
        with pytest.raises(TimeoutError):
            await late
        places.release()
        await waits
        assert places.ran == ["waits"]

    asyncio.run(story())


def test_at_the_end_everything_fails() -> None:
    async def story() -> None:
        places = Places(0)
        tasks = places.start("a", "b")
        await turns()
        places.queue.fail(ConnectionLost("the client is closed"))
        for task in tasks:
            with pytest.raises(ConnectionLost, match="closed"):
                await task
        places.free = 1
        assert places.queue.admits

    asyncio.run(story())


# -- clients -------------------------------------------------------------------------------------


def silent(c: Client, protocol: str, count: int, **options: Any) -> list[asyncio.Task[Any]]:
    """Calls that are never answered."""
    target = TARGETS[protocol]["silence"]
    return [asyncio.create_task(c.call(target, **options)) for _ in range(count)]


def silences(stand: Stand) -> int:
    """How many of them have arrived."""
    return stand.names().count("silence")


@pytest.mark.parametrize("protocol", CALLING)
def test_calls_wait_at_the_limit(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand, max_calls=3) as c:
            slow = silent(c, protocol, 3)
            await until(lambda: silences(stand) == 3)
            add = TARGETS[protocol]["add"]
            waits = [asyncio.create_task(c.call(add, {"a": n, "b": 0})) for n in range(5)]
            await turns()
            assert c.busy == 8
            with pytest.raises(Busy, match="3 requests are without a reply; nothing was sent"):
                await c.call(add, {"a": 1, "b": 1}, timeout_s=SOON_S)
            assert "add" not in stand.names()
            slow[0].cancel()  # its place is free only when the server has replied
            await turns()
            assert "add" not in stand.names()
            stand.cut()  # what waits is sent on the next connection, in order
            assert [each.data["c"] for each in await asyncio.gather(*waits)] == list(range(5))
            added = [given["a"] for name, given in stand.heard if name == "add"]
            assert added == list(range(5))
            assert silences(stand) == 3
            assert {type(task.exception()) for task in slow[1:]} == {ConnectionLost}

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_place_is_free_after_each_reply(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand, max_calls=4) as c:
            add = TARGETS[protocol]["add"]
            many = [c.call(add, {"a": n, "b": 0}) for n in range(300)]
            found = await asyncio.gather(*many)
            assert [each.data["c"] for each in found] == list(range(300))
            assert not c.busy

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_more_requests_than_the_session_accepts(protocol: str) -> None:
    async def story() -> None:
        # Servers accept 256 requests, and the client's comet session 64.
        async with standing(protocol) as stand, client_of(stand) as c:
            await asyncio.gather(*(c.ack(f"{number:016d}") for number in range(1_500)))
            assert stand.names().count("ack") == 1_500

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_queue_has_a_limit_and_an_end(protocol: str) -> None:
    async def story() -> None:
        given = {"max_calls": 1, "max_queued_calls": 2}
        async with standing(protocol) as stand, client_of(stand, **given) as c:
            stand.mute = True
            pings = [asyncio.create_task(c.ping()) for _ in range(3)]
            await turns()
            with pytest.raises(Busy, match="2 requests wait already; nothing was sent"):
                await c.ping()
            await c.close()
            for ping in pings:
                with pytest.raises(ConnectionLost):
                    await ping

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_request_that_is_not_sent_leaves_its_place(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand, max_calls=1) as c:
            (slow,) = silent(c, protocol, 1, timeout_s=0.2)
            await until(lambda: silences(stand) == 1)
            bad = asyncio.create_task(c.call(TARGETS[protocol]["add"], object()))
            good = asyncio.create_task(c.call(TARGETS[protocol]["add"], {"a": 1, "b": 1}))
            with pytest.raises(Timeout):
                await slow
            with pytest.raises(BadCall):
                await bad
            assert (await good).data == {"c": 2}

    asyncio.run(story())


def test_what_waits_without_a_connection() -> None:
    async def story() -> None:
        async with standing("tny") as stand, client_of(stand, max_calls=1) as c:
            silent(c, "tny", 1)
            waits = asyncio.create_task(c.call(2, {"a": 1, "b": 1}, timeout_s=0.3))
            await until(lambda: silences(stand) == 1)
            await stand.stop()
            with pytest.raises(NotConnected, match=f"{stand.port}: not connected: .*refused"):
                await waits
            with pytest.raises(BadCall):
                await c.call(2, timeout_s=-1)
            await stand.start()
            assert (await c.call(2, {"a": 1, "b": 1})).data == {"c": 2}

    asyncio.run(story())

"""The other role: the project's clients against servers without the project's codecs."""

from __future__ import annotations

import asyncio

import pytest
from tests.hub_raw.raw_comet import Note
from tests.hub_raw.raw_servers import RawCometServer, RawEsnpServer, listening

from wirelake.client import AuthFailed, CallFailed, Notification, connect

_TOKEN = "a throw-away token"


def _notes(count: int) -> list[Note]:
    return [Note(n % 3, f"m{n:015x}", f"content {n}".encode(), 1_700_000_000_000 + n)
            for n in range(count)]  # fmt: skip


async def _taken(url: str, count: int, **options: object) -> list[Notification]:
    got: list[Notification] = []
    async with asyncio.timeout(20), connect(url, id="phone", token=_TOKEN, **options) as client:
        await client.subscribe("@news", "@sport")
        async for notification in client.notifications():
            got.append(notification)
            await client.ack(notification)
            if len(got) == count:
                break
        await client.ping()
    return got


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "clear"])
def test_comet(sealed: bool) -> None:
    server = RawCometServer("phone", _TOKEN, offers_key=sealed)
    notes = server.waiting = _notes(5)
    with listening(server.serve) as (host, port):
        got = asyncio.run(_taken(f"comet://{host}:{port}", 5, allow_plaintext=not sealed))
    assert [(each.type, each.id, each.content, each.ts_ms) for each in got] == notes
    assert server.topics == ["@news", "@sport"]
    assert set(server.acked) == {note.id for note in notes}
    assert (1 in server.heard) is sealed


def test_comet_reconnects() -> None:
    server = RawCometServer("phone", _TOKEN)
    notes = server.waiting = _notes(4)
    server.cut_after_list = True
    with listening(server.serve) as (host, port):
        got = asyncio.run(_taken(f"comet://{host}:{port}", 4, backoff_s=0.01))
    assert [each.id for each in got] == [note.id for note in notes]
    assert server.heard.count(0) >= 2  # it signed on again, by itself
    assert server.heard.count(3) >= 2  # and subscribed again


async def _wrong_token(url: str) -> None:
    async with asyncio.timeout(20), connect(url, id="phone", token="wrong"):
        raise AssertionError("it was let in")


def test_comet_with_a_wrong_token() -> None:
    server = RawCometServer("phone", _TOKEN)
    with (
        listening(server.serve) as (host, port),
        pytest.raises(AuthFailed, match="token expired or illegal"),
    ):
        asyncio.run(_wrong_token(f"comet://{host}:{port}"))


async def _calls(url: str) -> None:
    async with asyncio.timeout(20), connect(url, id="caller", token=_TOKEN) as client:
        assert (await client.call("test/add", {"a": 40, "b": 2})).data == {"c": 42}
        with pytest.raises(CallFailed, match="no such thing"):
            await client.call("test/nothing")
        both = await asyncio.gather(*(client.call("test/late", {"n": n}) for n in (1, 2)))
        assert [each.data for each in both] == [{"n": 1}, {"n": 2}]
        parts = [part.data async for part in client.stream("test/count", {"to": 3})]
        assert parts == [{"n": 1}, {"n": 2}, {"n": 3}]
        traced = await client.call("test/add", {"a": 1, "b": 1}, trace=True)
        assert traced.data == {"c": 2}
        assert traced.traces == ("raw server handled",)
        await client.announce("test/happened", {"what": "an event"})
        assert (await client.call("test/add", {"a": 1, "b": 2})).data == {"c": 3}


def test_esnp_calls() -> None:
    server = RawEsnpServer()
    with listening(server.serve) as (host, port):
        asyncio.run(_calls(f"esnp://{host}:{port}"))
    assert server.heard[0] == ("hub", "auth")
    assert server.events == [{"what": "an event"}]


async def _notified(url: str) -> list[Notification]:
    got: list[Notification] = []
    async with asyncio.timeout(20), connect(url, id="caller", token=_TOKEN) as client:
        await client.subscribe("@t")
        async for notification in client.notifications():
            got.append(notification)
            await client.ack(notification)
            if len(got) == 3:
                break
    return got


def test_esnp_notifications() -> None:
    server = RawEsnpServer()
    with listening(server.serve) as (host, port):
        got = asyncio.run(_notified(f"esnp://{host}:{port}"))
    assert [(each.id, each.topic, each.text) for each in got] == [
        (f"m{n:015x}", "@t", str(n)) for n in range(3)
    ]
    assert server.acked == [each.id for each in got]

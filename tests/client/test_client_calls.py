"""Calls, pings and publishes of every protocol, with small servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from wirelake.client import (
    AuthFailed,
    BadCall,
    Busy,
    CallFailed,
    Client,
    ClientError,
    ConnectionLost,
    Published,
    Refused,
    RpcPool,
    Timeout,
    Unsupported,
    connect,
)

from .session_servers import PINNED, TOKEN, Stand, standing, until

CALLING = ("esnp", "tny", "magline")
EVERY = (*CALLING, "comet")
TARGETS: dict[str, dict[str, Any]] = {
    "esnp": {name: f"test/{name}" for name in ("echo", "add", "fail", "silence", "nothing")},
    "tny": {"echo": 1, "add": 2, "fail": "0x3", "silence": 4, "nothing": 99},
}
TARGETS["magline"] = TARGETS["tny"]


def client_of(stand: Stand, **options: Any) -> Client:
    """A client that may come in."""
    given: dict[str, Any] = {"id": "alice", "token": TOKEN, "backoff_s": 0.01, **options}
    if stand.protocol == "magline" and not {"pinned", "psk", "anonymous"} & set(given):
        given["pinned"] = PINNED
    return connect(stand.url, **given)


@pytest.mark.parametrize("protocol", CALLING)
def test_a_call_and_its_answers(protocol: str) -> None:
    async def story() -> None:
        target = TARGETS[protocol]
        async with standing(protocol) as stand, client_of(stand) as c:
            assert (await c.call(target["add"], {"a": 1, "b": 2})).data == {"c": 3}
            assert (await c.call(target["echo"], b"\x00bytes\xff")).body == b"\x00bytes\xff"
            with pytest.raises(CallFailed) as failed:
                await c.call(target["fail"])
            with pytest.raises(CallFailed) as missing:
                await c.call(target["nothing"])
            both = await asyncio.gather(
                *(c.call(target["add"], {"a": n, "b": 0}) for n in range(100))
            )
            assert [each.data["c"] for each in both] == list(range(100))
        codes = {"esnp": ("error", "error"), "tny": (500, 205), "magline": (15, 14)}
        assert (failed.value.code, missing.value.code) == codes[protocol]
        if protocol != "magline":
            assert failed.value.text == "failed on request"

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_an_answer_that_does_not_come(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            with pytest.raises(Timeout):
                await c.call(TARGETS[protocol]["silence"], timeout_s=0.05)
            assert (await c.call(TARGETS[protocol]["add"], {"a": 1, "b": 1})).data == {"c": 2}

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_calls_in_flight_fail_when_the_connection_is_lost(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            call = asyncio.create_task(c.call(TARGETS[protocol]["silence"]))
            await until(lambda: "silence" in stand.names())
            stand.cut()
            with pytest.raises(ConnectionLost):
                await call
            assert (await c.call(TARGETS[protocol]["add"], {"a": 2, "b": 2})).data == {"c": 4}
            assert stand.names().count("silence") == 1  # never sent again
            assert c.connects == 2

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_an_idempotent_call_is_sent_again(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            target = TARGETS[protocol]
            call = asyncio.create_task(c.call(target["silence"], idempotent=True, timeout_s=1.0))
            await until(lambda: "silence" in stand.names())
            stand.cut()
            await until(lambda: stand.names().count("silence") == 2)
            with pytest.raises(Timeout):  # its own timeout, over all attempts
                await call
            added = await c.call(target["add"], {"a": 1, "b": 2}, idempotent=True)
            assert added.data == {"c": 3}
        async with standing(protocol) as stand, client_of(stand, reconnect=False) as c:
            call = asyncio.create_task(c.call(target["silence"], idempotent=True))
            await until(lambda: "silence" in stand.names())
            stand.cut()
            with pytest.raises(ConnectionLost):
                await call

    asyncio.run(story())


@pytest.mark.parametrize("code", ["too_busy", "closing", "storage_full"])
@pytest.mark.parametrize("protocol", EVERY)
def test_a_busy_server(protocol: str, code: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand:
            async with client_of(stand) as c:
                stand.busy = code
                with pytest.raises(Busy) as subscribed:
                    await c.subscribe("@news")
                codes = {"esnp": code, "tny": 500, "magline": 11, "comet": 6}
                assert subscribed.value.code == codes[protocol]
                if protocol != "magline":
                    assert subscribed.value.text == "later"
                if protocol != "comet":
                    with pytest.raises(Busy):
                        await c.call(TARGETS[protocol]["add"], {"a": 1, "b": 2})
            with pytest.raises(Busy):  # and not AuthFailed, which would end a client
                async with client_of(stand):
                    pass

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_ping(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            assert 0 <= await c.ping() < 20
            assert not c.busy

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_wrong_token(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand:
            with pytest.raises(AuthFailed):
                async with client_of(stand, token="not the token"):
                    pass
            await until(lambda: not stand.peers)

    asyncio.run(story())


@pytest.mark.parametrize("protocol", EVERY)
def test_connection_refused(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand:
            pass
        with pytest.raises(ConnectionLost, match=f"127.0.0.1:{stand.port}: connection refused"):
            async with client_of(stand):
                pass

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_publish(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand) as c:
            found = await c.publish("hi", topic="@news", id="key-1", ttl_s=5, type=3)
            assert found == Published("0000000000000001", 3)
            await c.publish(b"\xff\x00", client="bob")
            texts, raw = (given for name, given in stand.heard if name == "publish")
            assert (texts["topic"], texts["id"], texts["ttl_s"]) == ("@news", "key-1", 5)
            assert texts["type"] == 3
            assert texts["content"] == (b"hi" if protocol == "esnp" else "hi")
            want = {"content": b"\xff\x00"} if protocol == "esnp" else {"content_base64": "/wA="}
            assert raw == {"client": "bob", **want}
            with pytest.raises(BadCall, match="topic= or client="):
                await c.publish("hi")

    asyncio.run(story())


def test_what_a_protocol_does_not_have() -> None:
    async def story() -> None:
        async with standing("comet") as stand, client_of(stand) as c:
            for asking in (c.call("a/b"), c.publish("hi", topic="@a"), c.announce("a/b")):
                with pytest.raises(Unsupported, match="comet has no"):
                    await asking
        async with standing("tny") as stand, client_of(stand) as c:
            others: tuple[Awaitable[object], ...] = (c.fetch(), c.info("1"), c.call(1, trace=True))
            for other in others:
                with pytest.raises(Unsupported, match="tny"):
                    await other
            with pytest.raises(Unsupported, match="tny has no streams"):
                async for _ in c.stream("1"):
                    pass

    asyncio.run(story())


def test_bad_calls_send_nothing() -> None:
    async def story() -> None:
        async with standing("esnp") as stand, client_of(stand) as c:
            heard = len(stand.heard)
            for target, given in (("add", None), (5, None), ("a/b", {"x": object()}), ("a/b", 3)):
                with pytest.raises(BadCall):
                    await c.call(target, given)
            for asking in (c.subscribe(), c.ack(), c.call("a/b", timeout_s=0)):
                with pytest.raises(BadCall):
                    await asking
            assert len(stand.heard) == heard
        async with standing("tny") as stand, client_of(stand) as c:
            for number in ("x", -1, ""):
                with pytest.raises(BadCall, match="number of a service"):
                    await c.call(number)
            with pytest.raises(BadCall, match="JSON"):
                await c.call(1, object())

    asyncio.run(story())


def test_infos_events_streams_and_traces_of_esnp() -> None:
    async def story() -> None:
        async with standing("esnp") as stand, client_of(stand) as c:
            assert (await c.info("test/kind")).data == {"kind": "INFO", "ordered": False}
            assert (await c.call("test/kind")).data["kind"] == "REQUEST"
            assert [part.data["n"] async for part in c.stream("test/count")] == [1, 2, 3]
            async for part in c.stream("test/count"):
                assert part.data == {"n": 1}
                break  # the rest is not wanted
            with pytest.raises(CallFailed, match="failed on request"):
                async for _ in c.stream("test/fail"):
                    pass
            await c.announce("test/happened", {"what": "rain"})
            traced = await c.call("test/add", {"a": 1, "b": 1}, trace=True)
            assert "stand" in traced.traces[0]
            assert ("test/happened", {"what": "rain"}) in stand.heard
            echoed = await c.call("test/echo", ({"a": [1, {"b": None}]}, b"raw"))
            assert (echoed.data, echoed.body) == ({"a": [1, {"b": None}]}, b"raw")

    asyncio.run(story())


def test_without_a_connection_calls_wait_for_one() -> None:
    async def story() -> None:
        async with standing("tny") as stand, client_of(stand) as c:
            await stand.stop()
            await until(lambda: not c.connected)
            with pytest.raises(ConnectionLost, match="not connected"):
                await c.call(2, {"a": 1, "b": 2}, timeout_s=0.05)
            later = asyncio.create_task(c.call(2, {"a": 1, "b": 2}))
            await asyncio.sleep(0)
            await stand.start()
            assert (await later).data == {"c": 3}

    asyncio.run(story())


def test_without_reconnect_the_end_is_the_end() -> None:
    async def story() -> None:
        async with standing("esnp") as stand, client_of(stand, reconnect=False) as c:
            stand.cut()
            await until(lambda: not c.connected)
            with pytest.raises(ConnectionLost):
                await c.call("test/add", {"a": 1, "b": 2})
            with pytest.raises(ConnectionLost):
                async for _ in c.notifications():
                    pass
        with pytest.raises(ConnectionLost):
            await c.call("test/add", {"a": 1, "b": 2})

    asyncio.run(story())


def test_a_token_that_is_taken_away_ends_the_client() -> None:
    async def story() -> None:
        async with standing("tny") as stand, client_of(stand) as c:
            stand.token = "another throw-away one"
            stand.cut()
            with pytest.raises(AuthFailed):
                async for _ in c.notifications():
                    pass
            with pytest.raises(AuthFailed):
                await c.call(2, {"a": 1, "b": 2})

    asyncio.run(story())


def test_tny_ids_go_on_after_a_reconnect() -> None:
    async def story() -> None:
        async with standing("tny") as stand, client_of(stand) as c:
            await c.call(1, b"x")
            stand.cut()
            await until(lambda: not c.connected)
            await c.call(1, b"x")
            ids = [given["id"] for name, given in stand.heard if name == "id"]
            assert ids == [1, 2, 3, 4]

    asyncio.run(story())


@pytest.mark.parametrize("key", [{"pinned": PINNED.hex()}, {"psk": bytes(32)}, {"anonymous": True}])
def test_magline_resumes_without_its_token(key: dict[str, Any]) -> None:
    async def story() -> None:
        async with standing("magline") as stand, client_of(stand, **key) as c:
            assert not c.resumed
            stand.cut()
            await until(lambda: not c.connected)
            assert (await c.call(2, {"a": 1, "b": 2})).data == {"c": 3}
            assert c.resumed
            assert stand.names() == ["auth", "resumed", "add"]

    asyncio.run(story())


def test_magline_does_a_full_handshake_when_the_session_is_unknown() -> None:
    async def story() -> None:
        async with standing("magline") as stand, client_of(stand) as c:
            stand.tickets.revoke("somebody")
            stand.cut()
            await until(lambda: not c.connected)
            assert (await c.call(2, {"a": 1, "b": 2})).data == {"c": 3}
            assert not c.resumed
            assert stand.names() == ["auth", "auth", "add"]

    asyncio.run(story())


def test_magline_when_the_answer_to_the_sign_on_was_lost() -> None:
    async def story() -> None:
        async with standing("magline") as stand, client_of(stand) as c:
            stand.tickets.revoke("somebody")  # so it signs on again, with a new session,
            stand.drop_auth = True  # of which it cannot know that it is signed on
            stand.cut()
            await until(lambda: stand.names().count("auth") == 2)
            stand.drop_auth = False
            assert (await c.call(2, {"a": 1, "b": 2})).data == {"c": 3}
            assert not c.resumed
            assert stand.names() == ["auth", "auth", "resumed", "auth", "add"]

    asyncio.run(story())


def test_magline_cut_while_it_resumes_still_resumes() -> None:
    async def story() -> None:
        async with standing("magline") as stand, client_of(stand) as c:
            stand.mute = True
            stand.cut()
            await until(lambda: not stand.peers)
            await until(lambda: stand.peers)
            stand.cut()
            stand.mute = False
            assert (await c.call(2, {"a": 1, "b": 2})).data == {"c": 3}
            assert c.resumed
            assert stand.names() == ["auth", "resumed", "add"]

    asyncio.run(story())


def test_magline_needs_a_server_key() -> None:
    async def story() -> None:
        async with standing("magline") as stand:
            with pytest.raises(BadCall, match="exactly one of pinned"):
                async with connect(stand.url):
                    pass
            with pytest.raises(Refused):
                async with client_of(stand, pinned=bytes(range(32))):
                    pass

    asyncio.run(story())


def test_comet_seals_when_it_can() -> None:
    async def story() -> None:
        async with standing("comet") as stand, client_of(stand):
            assert stand.names() == ["auth", "key"]
        private = bytes(range(40, 72))
        from wirelake.protocols.magline.handshake import x25519_public

        async with standing("comet", static=private) as stand:
            async with client_of(stand, pinned=x25519_public(private)):
                assert stand.names() == ["auth", "key"]
            with pytest.raises(Refused, match="key does not match"):
                async with client_of(stand, pinned=PINNED):
                    pass
        async with standing("comet", key=False) as stand:
            with pytest.raises(Refused, match="allow_plaintext"):
                async with client_of(stand):
                    pass
            async with client_of(stand, allow_plaintext=True) as c:
                await c.ping()

    asyncio.run(story())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_pool_spreads_calls_and_replaces_connections(protocol: str) -> None:
    async def story() -> None:
        key = {"pinned": PINNED} if protocol == "magline" else {}
        options = {"id": "alice", "token": TOKEN, "backoff_s": 0.01, **key}
        async with (
            standing(protocol) as stand,
            RpcPool(stand.url, size=3, **options) as pool,
        ):
            target = TARGETS[protocol]
            slow = [asyncio.create_task(pool.call(target["silence"])) for _ in range(6)]
            await until(lambda: stand.names().count("silence") == 6)
            assert [client.busy for client in pool._clients] == [2, 2, 2]
            stand.peers[0].transport.abort()
            done = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
            assert {type(task.exception()) for task in done[0]} == {ConnectionLost}
            assert (await pool.call(target["add"], {"a": 1, "b": 2})).data == {"c": 3}
            await until(lambda: pool.connected == 3, "the lost one is replaced")
            stand.cut()
            for task in slow:
                with pytest.raises(ConnectionLost):
                    await task

    asyncio.run(story())


def test_a_pool_that_cannot_connect() -> None:
    async def story() -> None:
        async with standing("tny") as stand:
            with pytest.raises(AuthFailed):
                async with RpcPool(stand.url, size=2, id="alice", token="not it"):
                    pass
            await until(lambda: not stand.peers)
        with pytest.raises(Unsupported):
            RpcPool("comet://127.0.0.1")
        with pytest.raises(BadCall, match="size"):
            RpcPool("tny://127.0.0.1", size=0)

    asyncio.run(story())


@pytest.mark.parametrize("protocol", ["tny", "magline", "comet"])
def test_heartbeats(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand, client_of(stand, heartbeat_s=0.02) as c:
            await until(lambda: stand.beats >= 3, "three heartbeats")
            assert c.connects == 1

    asyncio.run(story())


def test_a_silent_server_is_disconnected() -> None:
    async def story() -> None:
        async with standing("tny") as stand, client_of(stand, heartbeat_s=0.02) as c:
            stand.mute = True
            await until(lambda: not c.connected, "silence is noticed")
            stand.mute = False
            assert (await c.call(2, {"a": 1, "b": 2})).data == {"c": 3}

    asyncio.run(story())


def test_a_server_that_never_answers_the_sign_on() -> None:
    async def story() -> None:
        for protocol in EVERY:
            async with standing(protocol) as stand:
                stand.mute = True
                with pytest.raises((ConnectionLost, Timeout)):
                    async with client_of(stand, sign_on_timeout_s=0.05):
                        pass
                await until(lambda: not stand.peers)

    asyncio.run(story())


def test_a_server_that_sends_garbage() -> None:
    async def story() -> None:
        async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 4)
            writer.close()

        server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for protocol in EVERY:
            with pytest.raises(ClientError):
                async with connect(
                    f"{protocol}://127.0.0.1:{port}",
                    id="alice",
                    token=TOKEN,
                    **({"pinned": PINNED} if protocol == "magline" else {}),
                ):
                    pass
        server.close()
        await server.wait_closed()

    asyncio.run(story())

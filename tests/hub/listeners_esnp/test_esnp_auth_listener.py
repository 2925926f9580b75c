"""Signing on over ESNP, and what is not possible before."""

from __future__ import annotations

import asyncio

from tests.hub.listeners_esnp.peer import connected, esnp_hub, run, signed_on
from tests.hub.running import until

from wirelake.protocols.esnp.layout import Payload

WRONG = "t-a-throw-away-token-that-nobody-has"


def test_nothing_but_signing_on_is_possible_before_it() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, connected(it) as peer:
            for url in ("test/add", "test/nope", "hub/publish", "hub/subscribe", "hub/nope"):
                assert await peer.refusal(url, topic="@t", content="c") == "auth required"
            peer.tell("hub/publish", topic="@t", content="c")
            peer.tell("hub/auth", id="alice", token=it.tokens["alice"])
            assert await peer.refusal("test/add", a=1, b=2) == "auth required"
            assert it.hub.counters.failures["esnp", "auth_required"] == 2
            token = it.tokens["alice"]
            assert await peer.ok("hub/auth", id="alice", token=token) == {"id": "alice"}
            assert await peer.ok("test/add", a=1, b=2) == {"c": 3}
            assert it.hub.counters.published == 0

    run(test())


def test_wrong_tokens_close_after_the_last_attempt() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"], limits={"auth_attempts": 2}) as it:
            async with connected(it) as peer:
                assert "missing" in await peer.refusal("hub/auth", id="alice")
                # Without its name, which may be a secret: errors are in tables.
                refusal = await peer.refusal("hub/auth", id="a", token="t", secret=1)
                assert refusal == "unknown argument; expected id, token"
                said = [
                    await peer.refusal("hub/auth", id=who, token=WRONG) for who in ("alice", "x")
                ]
                assert said == ["the id or the token is wrong"] * 2
                await peer.closed()
            await until(lambda: not it.hub.connections)
            assert it.hub.counters.close_reasons["esnp", "auth_failed"] == 1
            assert it.hub.counters.auth_failures["esnp"] == 2
            async with signed_on(it, "alice") as peer:  # later, but with the right one
                assert await peer.ok("test/add", a=1, b=2) == {"c": 3}

    run(test())


def test_attempts_come_one_by_one() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, connected(it) as peer:
            for _ in range(200):
                peer.ask("hub/auth", id="alice", token=WRONG)
            for _ in range(3):
                await peer.message()
            await peer.closed()
            assert it.hub.counters.auth_failures["esnp"] == 3

    run(test())


def test_a_connection_belongs_to_one_client() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice", "bob"]) as it, signed_on(it, "alice") as peer:
            text = await peer.refusal("hub/auth", id="bob", token=it.tokens["bob"])
            assert text == "already signed on as alice"

    run(test())


def test_a_silent_connection_is_closed() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"], limits={"auth_s": 0.05}) as it:
            async with connected(it) as silent:
                await silent.closed()
            await until(lambda: not it.hub.connections)
            assert it.hub.counters.close_reasons["esnp", "auth_timeout"] == 1

    run(test())


def test_a_connection_that_signed_on_in_time_stays_open() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice"], limits={"auth_s": 0.5}) as it,
            signed_on(it, "alice") as peer,
            connected(it) as silent,
        ):
            await silent.closed()
            assert await peer.ok("test/add", a=1, b=2) == {"c": 3}

    run(test())


def test_large_messages_need_a_client() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it:
            async with connected(it) as peer:
                peer.ask("test/echo", Payload(data=bytes(5000)))
                await peer.closed()
            await until(lambda: not it.hub.connections)
            assert it.hub.counters.failures["esnp", "too_large"] == 1
            assert it.hub.counters.close_reasons["esnp", "too_large"] == 1
            async with signed_on(it, "alice") as peer:
                row = Payload(data=bytes(3_000_000))
                assert (await peer.call("test/echo", row)).rows[-1] == row

    run(test())


def test_without_tokens() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"], esnp={"auth": "none"}) as it:
            async with connected(it) as peer:
                assert await peer.ok("test/add", a=1, b=2) == {"c": 3}
                assert await peer.ok("hub/subscribe", topic="@news") == {"topics": 1}
                await peer.ok("hub/publish", topic="@news", content="hi", ttl_s=0)
                assert (await peer.notified())["content"] == "hi"
                assert await peer.ok("hub/auth", id="alice", token=it.tokens["alice"])
                answer = await peer.ok("hub/publish", topic="@news", content="hi", ttl_s=0)
                assert answer["audience"] == 0  # nobody's subscription has ended
            await until(lambda: not it.hub.connections)

    run(test())


def test_a_delay_after_failures_does_not_hold_up_others() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice"], limits={"auth_attempts": 10}) as it,
            connected(it) as wrong,
            connected(it) as other,
        ):
            for _ in range(3):
                await wrong.refusal("hub/auth", id="alice", token=WRONG)
            waiting = asyncio.ensure_future(wrong.refusal("hub/auth", id="alice", token=WRONG))
            assert await other.refusal("test/add") == "auth required"
            assert not waiting.done()
            assert await waiting == "the id or the token is wrong"

    run(test())

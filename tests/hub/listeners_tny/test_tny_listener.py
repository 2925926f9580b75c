"""tny over real sockets: signing on, services, codes, ticks, dialects, options."""

from __future__ import annotations

import asyncio

import pytest
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.running import running, until

from wirelake.hub.config import ConfigError
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Services
from wirelake.protocols.tny.codec_seed import decode_packet, encode_packet
from wirelake.protocols.tny.layout import Envelope, Message, Packet
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.message import decode_message, encode_message
from wirelake.protocols.tny.transform import TransformConfig

OPEN = {"auth": "none"}
SECURITY_KEY = "a throw-away key of a test"


def test_the_services_for_trying_out() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services(), tny=OPEN) as it,
            tny_client(it.address("tny")) as client,
        ):
            echo = await client.call(1001, b"\x00not JSON\xff")
            assert (echo.code, echo.body, echo.protocol) == (100, b"\x00not JSON\xff", 1001)
            added = await client.call(1002, {"a": 1, "b": 2})
            assert (added.code, body_of(added)) == (100, {"c": 3})
            slept = await client.call(1003, {"ms": 1})
            assert slept.code == 100
            failed = await client.call(1004)
            assert (failed.code, body_of(failed)["text"]) == (500, "failed on request")
            unknown = await client.call(1999, b"{}")
            assert (unknown.code, unknown.body) == (205, None)
            bad = await client.call(1002, {"a": "one", "b": 2})
            assert (bad.code, body_of(bad)["code"]) == (500, "bad_arguments")
            assert it.hub.counters.calls["tny", "ok"] == 3
            assert it.hub.counters.calls["tny", "not_found"] == 1

    asyncio.run(go())


def test_calls_work_after_sign_on() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services(), clients=["alice"]) as it,
            tny_client(it.address("tny")) as client,
        ):
            answer = await client.sign_on("alice", it.tokens["alice"])
            assert (answer.code, body_of(answer)) == (100, {"id": "alice"})
            assert body_of(await client.call(1002, {"a": 2, "b": 3})) == {"c": 5}
            large = b"x" * 100_000  # more than anybody may send before
            assert (await client.call(1001, large)).body == large

    asyncio.run(go())


@pytest.mark.parametrize(("protocol", "body"), [(1001, b"x"), (11, b"{}"), (1999, None)])
def test_only_sign_on_is_allowed_first(protocol: int, body: bytes | None) -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services()) as it,
            tny_client(it.address("tny")) as client,
        ):
            await client.ping()
            assert (await client.call(protocol, body)).code == 210
            assert await client.ended() == "code_210"
            await until(lambda: it.hub.counters.close_reasons["tny", "code_210"] == 1)

    asyncio.run(go())


def test_a_wrong_token_closes() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], clients=["alice"]) as it,
            tny_client(it.address("tny")) as client,
        ):
            answer = await client.sign_on("alice", "t-wrong")
            assert (answer.code, body_of(answer)["code"]) == (210, "auth_failed")
            assert await client.ended() == "code_210"

    asyncio.run(go())


def test_a_push_before_signing_on_closes() -> None:
    async def go() -> None:
        async with running(listeners=["tny"]) as it, tny_client(it.address("tny")) as client:
            client.push(1001, b"x")
            assert (await client.next_push()).code == 210
            assert await client.ended() == "code_210"

    asyncio.run(go())


def test_a_connection_without_timely_sign_on_is_closed() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], limits={"auth_s": 0.05}) as it,
            tny_client(it.address("tny")) as client,
        ):
            assert (await client.next_push()).code == 210
            assert await client.ended() == "code_210"
            await until(lambda: it.hub.counters.close_reasons["tny", "auth_timeout"] == 1)

    asyncio.run(go())


def test_large_packets_before_sign_on_are_refused() -> None:
    async def go() -> None:
        async with running(listeners=["tny"]) as it, tny_client(it.address("tny")) as client:
            client.ask(10, b"x" * 5_000)
            assert (await client.next_push()).code == 153
            assert await client.ended() == "code_153"
            await until(lambda: it.hub.counters.close_reasons["tny", "too_large"] == 1)

    asyncio.run(go())


def test_answers_come_in_the_order_of_the_work() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services(), tny=OPEN) as it,
            tny_client(it.address("tny")) as client,
        ):
            slow = client.ask(1003, {"ms": 300})
            assert body_of(await client.call(1002, {"a": 1, "b": 1})) == {"c": 2}
            assert not slow.done()
            assert (await asyncio.wait_for(slow, 20)).code == 100

    asyncio.run(go())


def test_too_many_calls_in_flight_are_refused() -> None:
    async def go() -> None:
        async with (
            running(
                listeners=["tny"], services=demo_services(), tny=OPEN, limits={"calls": 2}
            ) as it,
            tny_client(it.address("tny")) as client,
        ):
            slow = [client.ask(1003, {"ms": 400}) for _ in range(2)]
            refused = await client.call(1003, {"ms": 1})
            assert (refused.code, body_of(refused)["code"]) == (500, "too_busy")
            assert [answer.code for answer in await asyncio.gather(*slow)] == [100, 100]
            assert (await client.call(1003, {"ms": 1})).code == 100

    asyncio.run(go())


def test_a_call_is_cancelled_when_its_caller_disconnects() -> None:
    async def go() -> None:
        started, ended = asyncio.Event(), asyncio.Event()
        services = Services()

        @services.service("test", "wait", tny=2000)
        async def wait() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with running(listeners=["tny"], services=services, tny=OPEN) as it:
            async with tny_client(it.address("tny")) as client:
                client.ask(2000)
                await asyncio.wait_for(started.wait(), 20)
            await asyncio.wait_for(ended.wait(), 20)
            await until(lambda: services.running == 0)

    asyncio.run(go())


def test_a_push_is_an_event_for_a_service() -> None:
    async def go() -> None:
        heard: list[int] = []
        services = Services()

        @services.service("test", "tell", tny=2000)
        def tell(n: int) -> dict[str, int]:
            heard.append(n)
            return {"n": n}

        async with (
            running(listeners=["tny"], services=services, tny=OPEN) as it,
            tny_client(it.address("tny")) as client,
        ):
            client.push(2000, b'{"n": 5}')
            client.push(2999, b"nobody listens")
            assert (await client.call(2000, {"n": 6})).code == 100
            assert heard == [5, 6]
            assert client.pushes.empty()

    asyncio.run(go())


def test_an_answer_that_does_not_fit_is_a_refusal() -> None:
    async def go() -> None:
        services = Services()

        @services.service("test", "much", tny=2000)
        def much() -> bytes:
            return b"x" * (1 << 20)

        async with (
            running(listeners=["tny"], services=services, tny=OPEN) as it,
            tny_client(it.address("tny")) as client,
        ):
            refused = await client.call(2000)
            assert (refused.code, body_of(refused)["code"]) == (500, "too_large")
            assert (await client.call(2999)).code == 205

    asyncio.run(go())


@pytest.mark.parametrize("served", ["upstream", "auto"])
def test_the_dialect_of_the_original(served: str) -> None:
    async def go() -> None:
        tny = {**OPEN, "dialect": served}
        options = ClientOptions(dialect="upstream")
        async with (
            running(listeners=["tny"], services=demo_services(), tny=tny) as it,
            tny_client(it.address("tny"), options) as client,
        ):
            await client.ping()
            assert body_of(await client.call(1002, {"a": 1, "b": 2})) == {"c": 3}

    asyncio.run(go())


def test_the_security_options() -> None:
    async def go() -> None:
        on = {"verify": True, "encrypt": True, "waste": True}
        transform = TransformConfig(security_keys=(SECURITY_KEY,), **on)
        options = ClientOptions(reading=transform, writing=transform)
        tny = {**OPEN, **on, "security_keys": [SECURITY_KEY]}
        async with running(listeners=["tny"], services=demo_services(), tny=tny) as it:
            async with tny_client(it.address("tny"), options) as client:
                for n in range(50):
                    assert body_of(await client.call(1002, {"a": n, "b": 1})) == {"c": n + 1}
            async with tny_client(it.address("tny")) as plain:
                plain.ask(1002, {"a": 1, "b": 1})
                await plain.ended()
            await until(lambda: it.hub.counters.close_reasons["tny", "verify_required"] == 1)

    asyncio.run(go())


def test_options_that_cannot_work_are_named() -> None:
    async def go() -> None:
        with pytest.raises(
            ConfigError, match=r"tny\.encrypt: needs at least one key in tny\.security_keys"
        ):
            async with running(listeners=["tny"], tny={**OPEN, "encrypt": True}):
                pass

    asyncio.run(go())


def test_a_silent_connection_is_closed() -> None:
    async def go() -> None:
        tny = {**OPEN, "idle_s": 0.05}
        async with (
            running(listeners=["tny"], tny=tny) as it,
            tny_client(it.address("tny")) as client,
        ):
            await client.ended()
            await until(lambda: it.hub.counters.close_reasons["tny", "idle"] == 1)

    asyncio.run(go())


def test_garbage_is_answered_with_an_error_and_closes_only_its_connection() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services(), tny=OPEN) as it,
            tny_client(it.address("tny")) as other,
            tny_client(it.address("tny")) as client,
        ):
            client.writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert (await client.next_push()).code == 153
            assert await client.ended() == "code_153"
            await until(lambda: it.hub.counters.failures["tny", "bad_magic"] == 1)
            assert body_of(await other.call(1002, {"a": 1, "b": 2})) == {"c": 3}

    asyncio.run(go())


def test_many_requests_in_one_read_are_all_answered() -> None:
    async def go() -> None:
        async with (
            running(listeners=["tny"], services=demo_services(), tny=OPEN) as it,
            tny_client(it.address("tny")) as client,
        ):
            answers = [client.ask(1002, {"a": n, "b": 0}) for n in range(1_000)]
            found = await asyncio.wait_for(asyncio.gather(*answers), 20)
            assert [body_of(answer)["c"] for answer in found] == list(range(1_000))

    asyncio.run(go())


@pytest.mark.parametrize("strict", [True, False])
def test_bytes_after_a_message_are_ignored_where_that_is_wanted(strict: bool) -> None:
    """The original reads a message and ignores what follows it in the packet (section 7)."""

    async def go() -> None:
        table = {**OPEN, "strict": strict}
        message = Message(id=1, protocol=1002, body=b'{"a": 1, "b": 2}')
        content = encode_message(message, "seed") + b"more"
        packet = encode_packet(Packet(body=Envelope(access_id=0, number=1, content=content)))
        async with running(listeners=["tny"], services=demo_services(), tny=table) as it:
            reader, writer = await asyncio.open_connection(*it.address("tny"))
            writer.write(packet)
            data = await asyncio.wait_for(reader.read(65_536), 20)
            found, _ = decode_packet(data, 0, len(data))
            answer = decode_message(found.body.content, "seed")
            assert answer.code == (153 if strict else 100)
            writer.close()

    asyncio.run(go())

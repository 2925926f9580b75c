"""`ServiceProcess`: options, draining, reconnecting, and what a function gets."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import ASYNC, REQUEST, run, signed_on
from tests.hub.running import running, until
from tests.serving.providers import RIGHTS, alice, names, process, raw_process, serving_hub

from wirelake.client import AuthFailed, BadCall, CallFailed
from wirelake.hub.rpc.services import Call, Reply, Services
from wirelake.hub.store import remove_client
from wirelake.protocols.esnp.layout import Flag, FlagType, MessageId, SourceMessageId, XData
from wirelake.protocols.esnp.message import source_message_id
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.serving import ServiceProcess


def gated() -> tuple[Services, asyncio.Event]:
    """A service whose calls end when the event is set."""
    services, gate = Services(), asyncio.Event()

    @services.service("demo", "wait")
    async def wait(n: int) -> dict[str, int]:
        await gate.wait()
        return {"n": n}

    return services, gate


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        (
            "tny://127.0.0.1:1",
            {},
            "services cannot be offered over this protocol; use esnp://HOST:PORT",
        ),
        ("esnp://127.0.0.1:1", {"calls": 0}, "invalid calls 0; expected 1 to 256"),
        ("esnp://127.0.0.1:1", {"calls": 257}, "invalid calls 257; expected 1 to 256"),
    ],
)
def test_invalid_options(url: str, options: dict[str, Any], words: str) -> None:
    services, _ = gated()
    with pytest.raises(BadCall, match=words):
        ServiceProcess(services, url, **options)
    with pytest.raises(BadCall, match="no services to offer"):
        ServiceProcess(Services(), "esnp://127.0.0.1:1")


def test_refusals_at_the_start_say_why() -> None:
    services = Services()
    services.service("shop", "price")(lambda: None)

    async def test() -> None:
        async with serving_hub() as it:
            with pytest.raises(CallFailed, match="no right to offer 'shop/price'"):
                await process(it, services=services).open()
            wrong = ServiceProcess(
                gated()[0], "esnp://{}:{}".format(*it.address("esnp")), id="demo-1", token="x"
            )
            with pytest.raises(AuthFailed):
                await wrong.open()

    run(test())


def test_a_drain_finishes_calls_and_takes_no_more() -> None:
    services, gate = gated()

    async def test() -> None:
        async with serving_hub() as it, alice(it) as client:
            async with process(it, services=services) as made:
                calls = [asyncio.ensure_future(client.call("demo/wait", {"n": n})) for n in (1, 2)]
                await until(lambda: made.running == 2, "both calls are under way")
                drain = asyncio.ensure_future(made.drain(20))
                await until(lambda: not names(it), "it is withdrawn")
                with pytest.raises(CallFailed, match="no process offers 'demo/wait' now"):
                    await client.call("demo/wait", {"n": 3})
                assert not drain.done()
                gate.set()
                assert await drain == 0
            assert [(await each).data["n"] for each in calls] == [1, 2]

    run(test())


def test_a_drain_ends_after_its_time() -> None:
    services, _ = gated()

    async def test() -> None:
        async with serving_hub() as it, alice(it) as client:
            async with process(it, services=services) as made:
                call = asyncio.ensure_future(client.call("demo/wait", {"n": 1}))
                await until(lambda: made.running, "the call is under way")
                assert await made.drain(0.05) == 1
            with pytest.raises(CallFailed, match="was lost during the call"):
                await call

    run(test())


def test_it_comes_back_when_the_connection_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_hub() as it, alice(it) as client, process(it) as made:
            for connection in tuple(it.hub.connections.values()):
                if connection.client is not None and connection.client.id == "demo-1":
                    connection.drop("internal")
            await until(lambda: made.connects == 2, "it is back")
            assert (await client.call("demo/add", {"a": 1, "b": 2})).data == {"c": 3}

    with caplog.at_level(logging.WARNING, "wirelake.serving"):
        run(test())
    texts = [record.getMessage() for record in caplog.records]
    assert "dialling again" in texts[0]
    assert "services are offered again" in texts[1]


def test_it_waits_for_a_hub_that_starts_again(tmp_path: Path) -> None:
    services, _ = gated()
    options = {"data": tmp_path, "listeners": ["esnp"], "rights": RIGHTS}

    async def test() -> None:
        async with running(clients=["demo-1"], **options) as first:
            port = first.address("esnp")[1]
            made = process(first, services=services, max_backoff_s=0.05)
            await made.open()
        assert not made.connected
        async with running(esnp={"port": port}, **options) as second:
            await until(lambda: names(second), "it offers its services")
            assert made.connects == 2
            await made.close()

    run(test())


def test_a_drain_offers_nothing_on_a_new_connection() -> None:
    services, _ = gated()

    async def test() -> None:
        async with (
            serving_hub() as it,
            alice(it) as client,
            process(it, services=services) as made,
        ):
            call = asyncio.ensure_future(client.call("demo/wait", {"n": 1}))
            await until(lambda: made.running, "the call is under way")
            drain = asyncio.ensure_future(made.drain(20))
            await until(lambda: not names(it), "it is withdrawn")
            for connection in tuple(it.hub.connections.values()):
                if connection.client is not None and connection.client.id == "demo-1":
                    connection.drop("internal")
            await until(lambda: made.connects == 2, "it is back")
            assert not names(it)
            assert await drain == 0
            with pytest.raises(CallFailed, match="was lost during the call"):
                await call

    run(test())


def test_a_conflict_after_a_lost_connection_is_logged_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    services, _ = gated()
    other = {"name": "demo/wait", "signature": "(other: str)"}

    async def test() -> None:
        async with serving_hub() as it, process(it, services=services) as made:
            async with signed_on(it, "demo-2") as peer:
                (connection,) = [
                    each for each in it.hub.connections.values() if each is not None
                    and each.client is not None and each.client.id == "demo-1"
                ]  # fmt: skip
                connection.drop("internal")
                await until(lambda: not names(it), "it has left")
                await peer.ok("hub/serve", services=[other])
                await until(lambda: "trying again" in caplog.text, "the refusal is logged")
                assert not made.connected
            await until(lambda: made.connects == 2, "it is back when the other has left")
            assert names(it) == ["demo/wait"]

    with caplog.at_level(logging.WARNING, "wirelake.serving"):
        run(test())
    assert "'demo/wait' is offered by demo-2 with the signature (other: str)" in caplog.text


def test_it_ends_when_its_token_is_not_valid_any_more() -> None:
    async def test() -> None:
        async with serving_hub() as it, process(it) as made:
            waiting = asyncio.ensure_future(made.wait())
            remove_client(it.data / "hub.sqlite3", "demo-1")
            await it.hub.reload(it.hub.config)
            with pytest.raises(AuthFailed):
                await waiting

    run(test())


def test_the_call_that_a_function_gets() -> None:
    services = Services()
    seen: list[Call] = []

    @services.service("demo", "who", tny=3001)
    async def who(call: Call, a: int) -> dict[str, Any]:
        seen.append(call)
        assert call.client is not None
        return {"id": call.client.id, "protocol": call.protocol, "a": a}

    @services.service("demo", "echo", tny=3002)
    def echo(call: Call) -> Any:
        return call.echo

    async def test() -> None:
        async with (
            serving_hub(listeners=["esnp", "tny"]) as it,
            process(it, services=services),
            alice(it) as client,
        ):
            expected = {"id": "alice", "protocol": "esnp", "a": 1}
            assert (await client.call("demo/who", {"a": 1})).data == expected
            assert seen[0].timeout_s == 30.0
            result = await client.call("demo/echo", ({"x": 1.5}, b"bytes"))
            assert (result.data, result.body) == ({"x": 1.5}, b"bytes")
            await client.call("demo/who", {"a": 1}, info=True)
            assert seen[1].is_info
            client.announce  # noqa: B018 - exists
            await client.announce("demo/who", {"a": 1})
            await until(lambda: len(seen) == 3, "the event")
            assert seen[2].is_event
            async with alice(it, "tny") as other:
                expected["protocol"] = "tny"
                assert (await other.call(3001, {"a": 1})).data == expected
                assert seen[3].body == b'{"a":1}'
                assert (await other.call(3002, b"no JSON")).body == b"no JSON"

    run(test())


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (object(), "see the hub's log"),
        ({"x": 1 << 70}, "cannot be encoded"),
        (b"x" * (11 << 20), "exceeds"),
    ],
)
def test_results_that_cannot_be_sent(result: Any, words: str) -> None:
    services = Services()
    services.service("demo", "bad")(lambda: result)

    async def test() -> None:
        async with serving_hub() as it, process(it, services=services), alice(it) as client:
            with pytest.raises(CallFailed, match=words):
                await client.call("demo/bad")
            (provider,) = it.hub.offers.providers
            assert provider.running == 0

    run(test())


def test_rows_beside_the_values_go_to_esnp_callers() -> None:
    services = Services()
    row = XData(id=3, data=b"x")
    services.service("demo", "rows")(lambda: Reply(data={"a": 1}, rows=(row,)))

    async def test() -> None:
        async with serving_hub() as it, process(it, services=services), alice(it) as client:
            result = await client.call("demo/rows")
            assert result.data == {"a": 1}
            assert row in result.message.rows

    run(test())


def test_an_error_in_a_stream_comes_after_its_parts() -> None:
    services = Services()

    @services.service("demo", "breaks")
    async def breaks() -> Any:
        yield {"i": 0}
        raise RuntimeError("a defect")

    async def test() -> None:
        async with serving_hub() as it, process(it, services=services), alice(it) as client:
            parts = []
            with pytest.raises(CallFailed, match="raised an exception"):  # noqa: PT012
                async for part in client.stream("demo/breaks"):
                    parts.append(part.data)
            assert parts == [{"i": 0}]

    run(test())


def test_a_route_takes_over_when_no_process_is_left() -> None:
    elsewhere = Services()
    elsewhere.service("demo", "add")(_subtract)

    async def test() -> None:
        async with running(listeners=["esnp"], services=elsewhere, esnp={"auth": "none"}) as other:
            route = {"server": "{}:{}".format(*other.address("esnp")), "service": "demo"}
            async with serving_hub(esnp={"routes": [route]}) as it, alice(it) as client:
                arguments = {"a": 5, "b": 2}
                async with process(it):
                    assert (await client.call("demo/add", arguments)).data == {"c": 7}
                await until(lambda: not names(it), "it has left")
                assert (await client.call("demo/add", arguments)).data == {"c": 3}

    run(test())


def _subtract(a: int, b: int) -> dict[str, int]:
    return {"c": a - b}


def test_one_program_serves_two_hubs() -> None:
    services, gate = gated()
    gate.set()

    async def test() -> None:
        async with (
            serving_hub() as one,
            serving_hub() as two,
            process(one, services=services),
            process(two, services=services),
            alice(one) as first,
            alice(two) as second,
        ):
            for client in (first, second):
                assert (await client.call("demo/wait", {"n": 1})).data == {"n": 1}

    run(test())


def test_a_service_calls_another_one_through_its_process() -> None:
    """A connection carries requests both ways, so a process may call what it offers itself."""

    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [{"name": "demo/raw"}]) as peer:
            number = peer.ask("demo/raw", flags=(REQUEST, ASYNC), a=1)
            request = await peer.message()
            asked = next(row.value for row in request.rows if isinstance(row, MessageId))
            answer = SourceMessageId(value=asked)
            peer.write(Flag(value=FlagType.RESP), REQUEST, answer, *data_rows({"c": 3}))
            got = await peer.message()
            assert (source_message_id(got), values_of(got.rows)) == (number, {"c": 3})

    run(test())


def test_a_closed_hub_finishes_calls_of_processes() -> None:
    services, gate = gated()

    async def test() -> None:
        async with (
            serving_hub() as it,
            process(it, services=services) as made,
            alice(it, reconnect=False) as client,
        ):
            call = asyncio.ensure_future(client.call("demo/wait", {"n": 1}))
            await until(lambda: made.running, "the call is under way")
            drain = asyncio.ensure_future(it.hub.drain())
            await asyncio.sleep(0)
            gate.set()
            assert (await call).data == {"n": 1}
            await drain

    run(test())

"""Services in processes of their own: the same tests for Python and for sockets alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import run
from tests.hub.running import until
from tests.serving.providers import KINDS, NUMBERS, alice, lose, names, offered, serving_hub

from wirelake.client import CallFailed, Client
from wirelake.hub.listeners.esnp_provider import EsnpProvider

ALL = ["esnp", "tny", "magline"]
MAGLINE = {"anonymous": True}
LATE = {"service_s": 0.2}

pytestmark = pytest.mark.parametrize("kind", KINDS)


def target(protocol: str, op: str) -> str:
    return f"demo/{op}" if protocol == "esnp" else str(NUMBERS[op])


async def refusal(client: Client, where: str, arguments: Any = None) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await client.call(where, arguments)
    return caught.value


@pytest.mark.parametrize("protocol", ALL)
def test_calls_of_every_protocol_reach_it(kind: str, protocol: str) -> None:
    async def test() -> None:
        options = {"anonymous": True} if protocol == "magline" else {}
        async with (
            serving_hub(listeners=ALL, magline=MAGLINE) as it,
            offered(kind, it),
            alice(it, protocol, **options) as client,
        ):
            where = target(protocol, "add")
            assert (await client.call(where, {"a": 2, "b": -3})).data == {"c": -1}
            big = {"a": 1 << 40, "b": 1}
            assert (await client.call(where, big)).data == {"c": (1 << 40) + 1}

    run(test())


@pytest.mark.parametrize(("protocol", "code"), [("esnp", "error"), ("tny", 500), ("magline", 15)])
def test_errors_have_the_form_of_the_protocol(kind: str, protocol: str, code: Any) -> None:
    async def test() -> None:
        options = {"anonymous": True} if protocol == "magline" else {}
        async with (
            serving_hub(listeners=ALL, magline=MAGLINE) as it,
            offered(kind, it),
            alice(it, protocol, **options) as client,
        ):
            error = await refusal(client, target(protocol, "add"), {"a": 1})
            assert error.code == code
            if protocol != "magline":  # which sends no text
                assert "missing argument" in error.text

    run(test())


def test_a_stream_is_sent_part_by_part(kind: str) -> None:
    async def test() -> None:
        async with serving_hub() as it, offered(kind, it), alice(it) as client:
            # More than the window, so that the hub has to ask for more.
            parts = [part.data["i"] async for part in client.stream("demo/count", {"n": 100})]
            assert parts == list(range(100))
            assert [part.data async for part in client.stream("demo/count", {"n": 0})] in ([], [{}])

    run(test())


def test_a_stream_sends_no_more_parts_than_the_hub_takes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EsnpProvider, "_allow_more", lambda *_: None)

    async def test() -> None:
        async with serving_hub(limits=LATE) as it, offered(kind, it), alice(it) as client:
            parts = []
            with pytest.raises(CallFailed, match="did not answer within"):  # noqa: PT012
                async for part in client.stream("demo/count", {"n": 100}):
                    parts.append(part.data["i"])
            assert parts == list(range(16))
            assert it.hub.counters.provided["bad_reply"] == 0

    run(test())


def test_a_stream_is_a_list_in_json(kind: str) -> None:
    async def test() -> None:
        async with serving_hub(listeners=ALL) as it, offered(kind, it), alice(it, "tny") as client:
            where = str(NUMBERS["count"])
            body = (await client.call(where, {"n": 40})).body
            assert json.loads(body) == [{"i": i} for i in range(40)]
            assert (await client.call(where, {"n": 0})).body == b"[]"

    run(test())


def test_a_call_without_an_answer_fails_and_is_cancelled(kind: str) -> None:
    async def test() -> None:
        async with serving_hub(limits=LATE) as it, offered(kind, it), alice(it) as client:
            error = await refusal(client, "demo/never")
            assert error.text == "'demo/never' did not answer within 0.2 s"
            assert it.hub.counters.provided["timeout"] == 1
            assert (await client.call("demo/cancelled")).data == {"n": 1}
            # The cancelled call is answered, so its place is free again.
            (provider,) = it.hub.offers.providers
            await until(lambda: not provider.running, "the answer to the cancelled call")
            assert provider.unexpected == 0

    run(test())


def test_the_deadline_of_the_caller_is_passed_on(kind: str) -> None:
    async def test() -> None:
        async with serving_hub() as it, offered(kind, it), alice(it) as client:
            with pytest.raises(CallFailed, match=r"within 0\.05 s"):
                await client.call("demo/never", headers={"wirelake-timeout-ms": 50})

    run(test())


def test_a_caller_who_leaves_cancels_his_calls(kind: str) -> None:
    async def test() -> None:
        async with serving_hub() as it, offered(kind, it), alice(it) as other:
            async with alice(it) as client:
                call = asyncio.ensure_future(client.call("demo/never"))
                (provider,) = it.hub.offers.providers
                await until(lambda: provider.running, "the call is under way")
            with pytest.raises(ConnectionError):
                await call
            await until(lambda: not provider.running, "the call is cancelled")
            assert (await other.call("demo/cancelled")).data == {"n": 1}
            assert it.hub.counters.provided["cancelled"] == 1

    run(test())


def test_a_lost_process_fails_its_calls_at_once(kind: str) -> None:
    async def test() -> None:
        async with serving_hub() as it, offered(kind, it) as made, alice(it) as client:
            call = asyncio.ensure_future(client.call("demo/never"))
            (provider,) = it.hub.offers.providers
            await until(lambda: provider.running, "the call is under way")
            await lose(kind, made)
            with pytest.raises(CallFailed, match="'demo-1' was lost during the call"):
                await call
            assert it.hub.counters.provided["lost"] == 1
            assert it.hub.services.running == 0

    run(test())


def test_without_a_process_calls_are_refused(kind: str) -> None:
    async def test() -> None:
        async with serving_hub() as it, alice(it) as client:
            async with offered(kind, it):
                assert names(it)
            await until(lambda: not names(it), "it has left")
            error = await refusal(client, "demo/add", {"a": 1, "b": 2})
            assert error.text == "no process offers 'demo/add' now"
            async with offered(kind, it):
                assert (await client.call("demo/add", {"a": 1, "b": 2})).data == {"c": 3}

    run(test())

"""Processes that break the rules: nothing hangs, every refusal says why, the hub goes on."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import (
    ASYNC,
    REQUEST,
    Peer,
    connected,
    error_of,
    flags_of,
    run,
    signed_on,
    to,
)
from tests.hub.running import Running, running, until
from tests.serving.providers import (
    NUMBERS,
    alice,
    names,
    offered,
    process,
    raw_process,
    serving_hub,
)

from wirelake.client import CallFailed, connect
from wirelake.hub.config import ConfigError, make_config
from wirelake.hub.rpc.services import Services
from wirelake.protocols.esnp.layout import (
    Data,
    Error,
    Flag,
    FlagType,
    Header,
    Message,
    MessageId,
    Payload,
    Row,
    SeqNo,
    SourceMessageId,
    XData,
)
from wirelake.protocols.esnp.message import message_id
from wirelake.protocols.esnp.values import data_rows, values_of, var_of

RESP = Flag(value=FlagType.RESP)
ADD = {"name": "demo/add", "signature": "(a: int, b: int)"}
SHORT = {"service_s": 0.2}


async def refused(peer: Peer, *offers: dict[str, Any], calls: int = 8) -> str:
    return await peer.refusal("hub/serve", services=list(offers), calls=calls)


def reply(peer: Peer, request: Message, *rows: Row, head: tuple[Row, ...] = ()) -> None:
    number = message_id(request)
    assert number is not None
    peer.write(RESP, REQUEST, *head, SourceMessageId(value=number), *rows)


async def failure(call: asyncio.Future[Any]) -> str:
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value.text


def calling(client: Any, target: str = "demo/add", **more: Any) -> asyncio.Future[Any]:
    return asyncio.ensure_future(client.call(target, {"a": 1, "b": 2}, **more))


# -- who may offer what ----------------------------------------------------------------------------


def test_only_clients_with_the_right_may_offer() -> None:
    async def test() -> None:
        async with serving_hub() as it, signed_on(it, "alice") as peer:
            expected = "no right to offer 'demo/add'; the operator grants it with serve in"
            assert expected in await refused(peer, ADD)
            async with signed_on(it, "demo-1") as other:
                other_service = {"name": "shop/price"}
                assert "no right to offer 'shop/price'" in await refused(other, ADD, other_service)
            assert not names(it)  # all or none

    run(test())


def test_a_client_that_has_not_signed_on_offers_nothing() -> None:
    async def test() -> None:
        async with serving_hub() as it, connected(it) as peer:
            assert await refused(peer, ADD) == "auth required"
        async with running(listeners=["esnp"], esnp={"auth": "none"}) as it, connected(it) as peer:
            assert "no right to offer" in await refused(peer, ADD)

    run(test())


def test_services_are_offered_over_esnp_only() -> None:
    async def test() -> None:
        async with serving_hub(listeners=["tny"]) as it:
            url = "tny://{}:{}".format(*it.address("tny"))
            async with connect(url, id="demo-1", token=it.tokens["demo-1"]) as client:
                with pytest.raises(CallFailed, match="services are offered over esnp only"):
                    await client.call(15, {"services": [ADD]})

    run(test())


def test_a_right_that_is_taken_away_ends_the_calls() -> None:
    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]), alice(it) as client:
            it.hub.authority.set_rights(())
            assert await failure(calling(client)) == "no process offers 'demo/add' now"

    run(test())


@pytest.mark.parametrize("pattern", ["", "demo"])
def test_patterns_of_services_are_checked(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"rights\.clients\[0\]\.serve\[0\]"):
        make_config({"rights": {"clients": [{"ids": ["a"], "serve": [pattern]}]}})


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ([], "expected at least one service"),
        ([{"name": "add"}], "add/: expected a service other than 'hub', and an op"),
        ([{"name": "hub/add"}], "expected a service other than 'hub'"),
        ([{"name": "demo/add", "numbers": {"tny": 11}}], "reserved"),
        ([{"name": "demo/add", "numbers": {"comet": 1}}], "expected a protocol with service num"),
        ([{"name": "demo/add", "numbers": {"tny": "x"}}], "expected int, got str"),
        ([{"name": "demo/add", "answers": 1}], "answers"),
        ([ADD, ADD], "'demo/add' is offered twice"),
    ],
)
def test_invalid_offers(offers: list[dict[str, Any]], words: str) -> None:
    async def test() -> None:
        async with serving_hub() as it, signed_on(it, "demo-1") as peer:
            assert words in await refused(peer, *offers)
            assert not names(it)
            assert (await peer.ok("hub/serve", services=[ADD]))["services"] == 1

    run(test())


def test_a_service_of_the_hub_itself_stays() -> None:
    services = Services()
    services.service("demo", "add", tny=3001)(lambda: None)

    async def test() -> None:
        async with serving_hub(services=services) as it, signed_on(it, "demo-1") as peer:
            assert await refused(peer, ADD) == "'demo/add' is a service of the hub itself"
            offer = {"name": "demo/other", "numbers": {"tny": 3001}}
            assert await refused(peer, offer) == "'demo/other': tny=3001 is used by 'demo/add'"

    run(test())


# -- two versions ----------------------------------------------------------------------------------


def test_another_signature_is_a_conflict_until_the_first_process_leaves() -> None:
    new = {**ADD, "signature": "(a: int, b: int, c: int)"}

    async def test() -> None:
        async with serving_hub() as it, signed_on(it, "demo-2") as second:
            async with raw_process(it, [ADD]):
                assert await refused(second, new) == (
                    "'demo/add' is offered by demo-1 with the signature (a: int, b: int), not "
                    "(a: int, b: int, c: int); stop that process first, or give the new version "
                    "another name"
                )
                numbered = {**ADD, "numbers": {"tny": 3001}}
                assert "with the numbers none, not tny=3001" in await refused(second, numbered)
            await until(lambda: not names(it), "the first has left")
            assert await second.ok("hub/serve", services=[new], calls=2) == {
                "services": 1,
                "calls": 2,
            }
            service = it.hub.services.named("demo", "add")
            assert service is not None
            assert service.signature == new["signature"]

    run(test())


def test_a_number_is_free_again_when_its_process_has_left() -> None:
    first = {"name": "demo/add", "numbers": {"tny": 3001}}
    other = {"name": "demo/sum", "numbers": {"tny": 3001}}

    async def test() -> None:
        async with serving_hub() as it, signed_on(it, "demo-2") as second:
            async with raw_process(it, [first]):
                expected = "'demo/sum': tny=3001 is used by 'demo/add'"
                assert await refused(second, other) == expected
            await until(lambda: not names(it), "the first has left")
            await second.ok("hub/serve", services=[other])
            assert [each.name for each in it.hub.services.every] == ["demo/sum"]

    run(test())


def test_services_that_nobody_offers_are_forgotten_when_there_are_too_many() -> None:
    async def test() -> None:
        async with (
            serving_hub(limits={"offered_services": 2}) as it,
            signed_on(it, "demo-2") as second,
        ):
            async with raw_process(it, [{"name": "demo/a"}, {"name": "demo/b"}]):
                assert await refused(second, ADD) == "too_busy: processes offer 2 services already"
            await until(lambda: not names(it), "the first has left")
            assert len(it.hub.services.every) == 2
            await second.ok("hub/serve", services=[ADD])
            assert len(it.hub.services.every) == 2
            assert names(it) == ["demo/add"]

    run(test())


# -- answers ---------------------------------------------------------------------------------------


def test_garbage_closes_the_connection_and_fails_the_calls() -> None:
    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]) as peer, alice(it) as client:
            call = calling(client)
            await peer.message()
            peer.writer.write(b"\x00\xff\xff\xff garbage")
            assert await failure(call) == "'demo-1' was lost during the call: it may have run"
            assert it.hub.counters.provided["lost"] == 1
            async with raw_process(it, [ADD]) as again:
                call = calling(client)
                reply(again, await again.message(), *data_rows({"c": 3}))
                assert (await call).data == {"c": 3}

    run(test())


def test_a_second_answer_is_dropped_and_counted() -> None:
    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]) as peer, alice(it) as client:
            call = calling(client)
            request = await peer.message()
            reply(peer, request, *data_rows({"c": 3}))
            reply(peer, request, *data_rows({"c": 4}))
            assert (await call).data == {"c": 3}
            (provider,) = it.hub.offers.providers
            await until(lambda: provider.unexpected == 1, "the second answer")
            call = calling(client)
            reply(peer, await peer.message(), *data_rows({"c": 5}))
            assert (await call).data == {"c": 5}

    run(test())


def test_an_answer_to_no_call() -> None:
    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]) as peer:
            peer.write(RESP, REQUEST, SourceMessageId(value=77))
            (provider,) = it.hub.offers.providers
            await until(lambda: provider.unexpected == 1, "the answer")
            assert provider.running == 0

    run(test())


def test_a_broken_row_in_an_answer() -> None:
    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]) as peer, alice(it) as client:
            call = calling(client)
            number = message_id(await peer.message()) or 0
            answer = peer.codec.encode_message(
                Message(rows=(RESP, REQUEST, SourceMessageId(value=number)))
            )
            # A DATA row whose value has no type.
            peer.writer.write(answer[:-4] + b"\x15\x00\x00\x03\x02c\x63" + bytes(4))
            assert "the service sent a broken row" in await failure(call)
            assert it.hub.counters.provided["bad_reply"] == 1

    run(test())


def test_a_process_that_never_answers_has_no_more_calls_than_its_places() -> None:
    async def test() -> None:
        async with (
            serving_hub(limits=SHORT) as it,
            raw_process(it, [ADD], calls=2) as peer,
            alice(it) as client,
        ):
            for _ in range(2):
                assert "did not answer within 0.2 s" in await failure(calling(client))
            # Both are cancelled, and neither is answered: it gets no third.
            expected = "1 process with 'demo/add': no room for another call"
            assert await failure(calling(client)) == expected
            heard = [await peer.message() for _ in range(4)]
            events = [each for each in heard if FlagType.EVENT in flags_of(each)]
            asked = [each for each in heard if each not in events]
            cancelled = [values_of(each.rows)["id"] for each in events]
            assert cancelled == [message_id(each) for each in asked]
            assert events[0].rows[1:3] == to("hub/cancel")
            reply(peer, asked[0], head=(Error(value="cancelled"),))
            (provider,) = it.hub.offers.providers
            await until(lambda: provider.running == 1, "a place is free")
            call = calling(client)
            reply(peer, await peer.message(), *data_rows({"c": 3}))
            assert (await call).data == {"c": 3}

    run(test())


def test_a_cancelled_call_frees_its_place_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.hub.listeners.esnp_provider._CANCEL_S", 0.01)

    async def test() -> None:
        async with (
            serving_hub(limits=SHORT) as it,
            raw_process(it, [ADD], calls=1) as peer,
            alice(it) as client,
        ):
            await failure(calling(client))
            (provider,) = it.hub.offers.providers
            await until(lambda: not provider.running, "the hub has given up")
            late = await peer.message()
            reply(peer, late, *data_rows({"c": 3}))
            await until(lambda: provider.unexpected == 1, "the late answer is dropped")

    run(test())


def test_a_stream_that_does_not_wait_is_cut_off() -> None:
    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]) as peer, alice(it) as client:
            call = calling(client)
            request = await peer.message()
            for part in range(1, 40):
                reply(peer, request, *data_rows({"i": part}), head=(SeqNo(current=part),))
            assert await failure(call) == "the service sent more than 16 parts without waiting"
            assert it.hub.counters.provided["bad_reply"] == 1

    run(test())


def test_large_parts_that_nobody_reads_fail_their_call_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wirelake.hub.listeners.esnp_provider._HELD_BYTES", 4 << 20)

    async def test() -> None:
        async with (
            serving_hub() as it,
            raw_process(it, [ADD]) as peer,
            signed_on(it, "alice") as silent,
            alice(it) as client,
        ):
            silent.ask("demo/add")  # and never reads
            request = await peer.message()
            for part in range(1, 16):
                rows = (Payload(data=bytes(1 << 20)),)
                reply(peer, request, *rows, head=(SeqNo(current=part),))
                await peer.writer.drain()
            cancelled = await peer.message()
            assert cancelled.rows[1:3] == to("hub/cancel")
            assert all(not each.held_bytes for each in it.hub.offers.providers)
            call = calling(client)
            reply(peer, await peer.message(), *data_rows({"c": 3}))
            assert (await call).data == {"c": 3}
            while (message := await silent.message()) and error_of(message) is None:
                pass
            assert error_of(message) == "too_busy: the stream is too fast for its reader"

    run(test())


@pytest.mark.parametrize("seed", range(8))
def test_nonsense_harms_neither_the_hub_nor_other_processes(seed: int) -> None:
    chance = random.Random(seed)
    flags = [RESP, REQUEST, ASYNC, *(Flag(value=each) for each in (1, 2, 5, 6, 200))]

    def nonsense() -> tuple[Row, ...]:
        rows: list[Row] = chance.sample(flags, chance.randint(0, 4))
        numbers = SeqNo(current=chance.randint(-1, 5), maximum=chance.randint(-1, 5))
        for row in (
            SourceMessageId(value=chance.randint(0, 6)),
            MessageId(value=chance.randint(0, 6)),
            numbers,
            Error(value="no"),
            *to(chance.choice(["hub/cancel", "hub/more", "demo/add", "hub/serve", "x/y"])),
            *data_rows({"id": chance.randint(0, 6), "c": 1}),
        ):
            if chance.random() < 0.5:
                rows.append(row)
        return tuple(rows)

    async def test() -> None:
        async with (
            serving_hub(limits={"service_s": 0.5}) as it,
            process(it, "demo-2") as made,
            raw_process(it, [{"name": "demo/raw"}]) as peer,
            alice(it) as client,
        ):
            calls = [calling(client, "demo/raw") for _ in range(4)]
            await until(lambda: it.hub.services.running == 4, "the calls are under way")
            for _ in range(300):
                peer.write(*nonsense())
            await peer.writer.drain()
            # Each call ends: with an answer that fits by chance, or with an error.
            await asyncio.wait(calls)
            for call in calls:
                assert call.exception() is None or isinstance(call.exception(), CallFailed)
            assert (await client.call("demo/add", {"a": 1, "b": 2})).data == {"c": 3}
            assert made.connects == 1
        assert it.hub.services.running == 0

    run(test())


def test_codes_of_errors() -> None:
    async def test() -> None:
        async with serving_hub(listeners=["esnp", "tny"]) as it:
            offer = {**ADD, "numbers": {"tny": 3001}}
            async with raw_process(it, [offer]) as peer, alice(it, "tny") as client:
                for given, counted in (
                    ("bad_arguments", "bad_arguments"),
                    ("internal", "internal"),
                    # Code 210 of tny closes the connection of the caller.
                    ("auth_failed", "failed"),
                    ("nonsense", "failed"),
                ):
                    call = calling(client, "3001")
                    code = Header(name="wirelake-code", value=var_of(given))
                    reply(peer, await peer.message(), code, head=(Error(value="no"),))
                    assert await failure(call) == "no"
                    assert it.hub.counters.calls["tny", counted] >= 1
                assert client.connects == 1

    run(test())


# -- what is passed on -----------------------------------------------------------------------------


async def request_of(it: Running, *rows: Row) -> Message:
    """The request that a process gets for one of alice."""
    async with raw_process(it, [ADD]) as peer, signed_on(it, "alice") as caller:
        caller.ask("demo/add", *rows, a=1)
        return await peer.message()


def test_the_rows_of_a_call_reach_the_process_without_forged_headers() -> None:
    forged = Header(name="wirelake-client", value=var_of("root"))
    own = Header(name="lang", value=var_of("de"))
    rows = (own, XData(id=3, data=b"x"), Payload(data=b"p"))

    async def test() -> None:
        async with serving_hub() as it:
            got = await request_of(it, forged, *rows)
            assert flags_of(got) == {FlagType.REQUEST, FlagType.ASYNC}
            headers = values_of(got.rows, Header)
            # No second one with the name of another, which some reader may take instead.
            assert len(headers) == sum(isinstance(row, Header) for row in got.rows)
            assert headers == {
                "wirelake-client": "alice",
                "wirelake-protocol": "esnp",
                "wirelake-timeout-ms": 30_000,
                "wirelake-window": 16,
                "lang": "de",
            }
            body = [row for row in got.rows if isinstance(row, Data | XData | Payload)]
            assert body == [*data_rows({"a": 1}), *rows[1:]]

    run(test())


@pytest.mark.parametrize(
    ("offer", "values", "payload"),
    [
        ({}, {"a": 1, "b": 2}, []),
        ({"body": True}, {"a": 1, "b": 2}, [b'{"a":1,"b":2}']),
        ({"values": False, "body": True}, {}, [b'{"a":1,"b":2}']),
    ],
)
def test_a_json_body_becomes_rows(
    offer: dict[str, Any], values: dict[str, Any], payload: list[bytes]
) -> None:
    async def test() -> None:
        async with serving_hub(listeners=["esnp", "tny"]) as it:
            offered_one = {**ADD, "numbers": {"tny": 3001}, **offer}
            async with raw_process(it, [offered_one]) as peer, alice(it, "tny") as client:
                call = calling(client, "3001")
                request = await peer.message()
                assert values_of(request.rows) == values
                assert [r.data for r in request.rows if isinstance(r, Payload)] == payload
                reply(peer, request, Payload(data=b"\xff"))
                assert (await call).body == b"\xff"

    run(test())


@pytest.mark.parametrize("body", [b"nonsense", b"[1]", b'{"a": 18446744073709551616}'])
def test_a_body_that_cannot_be_passed_on(body: bytes) -> None:
    async def test() -> None:
        async with (
            serving_hub(listeners=["esnp", "tny"]) as it,
            offered("python", it),
            alice(it, "tny") as client,
        ):
            with pytest.raises(CallFailed):
                await client.call(NUMBERS["add"], body)
            assert it.hub.counters.calls["tny", "bad_arguments"] == 1

    run(test())


# -- which process gets a call ---------------------------------------------------------------------


def test_a_call_goes_to_the_process_with_the_fewest() -> None:
    async def test() -> None:
        async with (
            serving_hub() as it,
            raw_process(it, [ADD], calls=2) as one,
            signed_on(it, "demo-2") as two,
            alice(it) as client,
        ):
            await two.ok("hub/serve", services=[ADD], calls=1)
            calls = [calling(client) for _ in range(3)]
            # 2 of 2 places, and 1 of 1: there are no more.
            got = [await one.message(), await one.message(), await two.message()]
            expected = "2 processes with 'demo/add': no room for another call"
            assert await failure(calling(client)) == expected
            for peer, request in zip((one, one, two), got, strict=True):
                reply(peer, request, *data_rows({"c": 3}))
            assert [(await each).data for each in calls] == [{"c": 3}] * 3
            # With as many each, they take turns.
            order = []
            for _ in range(4):
                call = calling(client)
                done, rest = await asyncio.wait(
                    [asyncio.ensure_future(_answered(each)) for each in (one, two)],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in rest:
                    task.cancel()
                await asyncio.gather(*rest, return_exceptions=True)
                order += [task.result() for task in done]
                await call
            assert order in ([one, two] * 2, [two, one] * 2)

    run(test())


def test_a_process_that_answers_faster_gets_more() -> None:
    async def test() -> None:
        async with (
            serving_hub() as it,
            raw_process(it, [ADD]) as slow,
            signed_on(it, "demo-2") as fast,
            alice(it) as client,
        ):
            await fast.ok("hub/serve", services=[ADD])
            calls = [calling(client) for _ in range(4)]
            waiting = [await slow.message(), await slow.message()]
            # Whose turn it is does not matter: the slow one has two calls, the fast one fewer.
            for _ in range(2):
                reply(fast, await fast.message(), *data_rows({"c": 3}))
            for _ in range(4):
                await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                calls.append(calling(client))
                reply(fast, await fast.message(), *data_rows({"c": 3}))
                await calls[-1]
            for request in waiting:
                reply(slow, request, *data_rows({"c": 3}))
            assert [(await each).data for each in calls] == [{"c": 3}] * 8

    run(test())


async def _answered(peer: Peer) -> Peer:
    reply(peer, await peer.message(), *data_rows({"c": 3}))
    return peer


def test_the_hub_has_a_limit_of_its_own() -> None:
    async def test() -> None:
        async with serving_hub(limits={"service_calls": 3}) as it, signed_on(it, "demo-1") as peer:
            answer = await peer.ok("hub/serve", services=[ADD], calls=500)
            assert answer == {"services": 1, "calls": 3}

    run(test())


def test_what_is_withdrawn_gets_no_more_calls_and_finishes_those_it_has() -> None:
    async def test() -> None:
        async with (
            serving_hub() as it,
            alice(it) as client,
            raw_process(it, [ADD, {"name": "demo/sum"}]) as peer,
        ):
            call = calling(client)
            request = await peer.message()
            peer.ask("hub/withdraw", services=["demo/add"])
            assert values_of((await peer.message()).rows) == {"services": 1}
            assert names(it) == ["demo/sum"]
            assert "no process offers" in await failure(calling(client))
            reply(peer, request, *data_rows({"c": 3}))
            assert (await call).data == {"c": 3}
            words = await peer.refusal("hub/withdraw", services=["demo/add"])
            assert words == "'demo/add' is not offered on this connection"

    run(test())


def test_a_request_that_the_process_has_not_seen_as_async() -> None:
    """The hub flags its requests as ASYNC, so a process may answer them in any order."""

    async def test() -> None:
        async with serving_hub() as it, raw_process(it, [ADD]) as peer, alice(it) as client:
            calls = [calling(client) for _ in range(2)]
            requests = [await peer.message() for _ in calls]
            assert all(ASYNC in each.rows for each in requests)
            for request in reversed(requests):
                number = next(row.value for row in request.rows if isinstance(row, MessageId))
                reply(peer, request, *data_rows({"number": number}))
            numbers = [(await each).data["number"] for each in calls]
            assert numbers == sorted(numbers)

    run(test())

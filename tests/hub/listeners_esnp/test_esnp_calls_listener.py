"""Service calls over ESNP: echo, add, sleep, fail; order, ASYNC, INFO, EVENT, TRACE, sequences."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import (
    ASYNC,
    INFO,
    REQUEST,
    TRACE,
    Peer,
    error_of,
    esnp_hub,
    flags_of,
    is_head_first,
    part_of,
    run,
    signed_on,
    to,
)
from tests.hub.running import until

from wirelake.hub.listeners import esnp
from wirelake.hub.rpc.defect_log import DefectLog
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Call, Reply, ServiceError, Services
from wirelake.protocols.esnp.layout import (
    Data,
    FlagType,
    Header,
    MessageId,
    OpaqueRow,
    Payload,
    RowType,
    SeqNo,
    SessionInfo,
    SourceAddress,
    Var,
    VarType,
    XData,
)
from wirelake.protocols.esnp.message import source_message_id
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.values import values_of, var_of


def test_add_and_echo() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            for b in (2, 3, 1 << 40):  # the second and third are answered while they are read
                answer = await peer.call("test/add", a=1, b=b)
                assert values_of(answer.rows) == {"c": 1 + b}
                assert flags_of(answer) == {FlagType.RESP, FlagType.REQUEST}
                assert is_head_first(answer)
            rows = (
                Data(name="small", value=Var(type=VarType.INT8, value=-3)),
                Data(name="list", value=var_of([1, {"k": b"\xff"}])),
                Payload(data=b"\x00\x01"),
                Payload(data=b""),
            )
            for _ in range(3):
                answer = await peer.call("test/echo", *rows, Header(name="h", value=var_of(1)))
                assert answer.rows[-4:] == rows
                assert is_head_first(answer)
            assert it.hub.counters.calls["esnp", "ok"] == 7  # with signing on

    run(test())


def test_errors_are_answers() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            for _ in range(3):
                assert await peer.refusal("test/fail", a=1) == "failed on request"
                assert await peer.refusal("test/nope") == "unknown service 'test/nope'"
                assert await peer.refusal("test/add", b=2) == "missing argument 'a'"
                assert "unknown argument 'c'" in await peer.refusal("test/add", a=1, b=2, c=3)
                assert "argument 'a': " in await peer.refusal("test/add", a="1", b=2)
                assert "expected 0 to" in await peer.refusal("test/sleep", ms=-1)
                assert await peer.ok("test/add", a=1, b=2) == {"c": 3}
            calls = it.hub.counters.calls
            assert calls["esnp", "failed"] == 6
            assert calls["esnp", "not_found"] == 3
            assert calls["esnp", "bad_arguments"] == 9

    run(test())


def test_answers_in_order_and_out_of_order() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            asked = [peer.ask("test/sleep", ms=30 if n == 5 else 0) for n in range(20)]
            asked += [peer.ask("test/add", a=n, b=0) for n in range(200)]
            answered = [await peer.message() for _ in asked]
            assert [source_message_id(each) for each in answered] == asked
            assert not any(map(error_of, answered))
            slow = peer.ask("test/sleep", flags=(REQUEST, ASYNC), ms=50)
            quick = peer.ask("test/add", flags=(REQUEST, ASYNC), a=1, b=2)
            assert source_message_id(await peer.message()) == quick
            assert source_message_id(await peer.message()) == slow

    run(test())


def test_too_many_at_a_time_are_refused() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice"], limits={"calls": 4}) as it,
            signed_on(it, "alice") as peer,
        ):
            for _ in range(6):
                peer.ask("test/sleep", flags=(REQUEST, ASYNC), ms=200)
            texts = [error_of(await peer.message()) for _ in range(6)]
            assert texts.count(None) == 4
            assert texts[:2] == ["too_busy: 4 requests are pending"] * 2

    run(test())


def test_what_a_reply_carries_back() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            session = SessionInfo(name="s", value=var_of(5))
            source = SourceAddress(kind=40, value="me")
            for _ in range(3):
                answer = await peer.call("test/echo", source, session, Payload(data=b"x"))
                assert session in answer.rows
                assert [row.value for row in answer.rows if type(row).__name__ == "Address"] == [
                    "me"
                ]

    run(test())


def test_info_event_and_trace() -> None:
    async def test() -> None:
        services = demo_services()
        seen: list[Any] = []

        @services.service("log", "line")
        def line(call: Call, text: str) -> None:
            seen.append((text, call.is_info, call.is_event, call.client and call.client.id))

        @services.service("log", "fail")
        async def fail() -> None:
            seen.append("fail")
            raise ServiceError("no")

        async with (
            esnp_hub(clients=["alice"], services=services) as it,
            signed_on(it, "alice") as peer,
        ):
            peer.ask("log/line", flags=(INFO,), text="info")
            assert flags_of(await peer.message()) == {FlagType.RESP, FlagType.INFO}
            peer.tell("log/line", text="event")
            peer.tell("log/line", wrong=1)
            peer.tell("log/fail")
            peer.tell("log/nope")
            peer.write(*to("log/line"))  # of no kind: for nobody
            number = peer.ask("test/add", flags=(REQUEST, TRACE), a=1, b=2)
            report, answer = await peer.message(), await peer.message()
            assert FlagType.TRACE_INFO in flags_of(report)
            assert Payload(data=b"hub handled") in report.rows
            assert source_message_id(report) == source_message_id(answer) == number
            assert values_of(answer.rows) == {"c": 3}
            assert seen[:2] == [("info", True, False, "alice"), ("event", False, True, "alice")]
            await until(lambda: "fail" in seen)
            assert len(seen) == 3

    run(test())


def test_a_request_in_parts() -> None:
    async def test() -> None:
        services = Services()

        @services.service("file", "join")
        def join(call: Call, name: str) -> Reply:
            return Reply(data={"name": name, "parts": len(call.payloads)}, payload=call.body)

        async with (
            esnp_hub(clients=["alice"], services=services) as it,
            signed_on(it, "alice") as peer,
        ):
            head = (REQUEST, *to("file/join"), MessageId(value=9))
            name = Data(name="name", value=var_of("n"))
            peer.write(*head, SeqNo(current=2), Payload(data=b"b"))
            peer.write(*head, SeqNo(current=1), name, Payload(data=b"a"))
            peer.write(*head, SeqNo(current=3, maximum=3), Payload(data=b"c"))
            answer = await peer.message()
            assert values_of(answer.rows) == {"name": "n", "parts": 3}
            assert answer.rows[-1] == Payload(data=b"abc")

    run(test())


async def _parts(peer: Peer) -> list[Any]:
    found = []
    while True:
        message = await peer.message()
        numbers = part_of(message)
        found.append((numbers, values_of(message.rows), error_of(message)))
        if error_of(message) is not None or numbers is None or numbers[0] == numbers[1]:
            return found


def test_an_answer_in_parts() -> None:
    async def test() -> None:
        services = Services()
        gate = asyncio.Event()

        @services.service("test", "count")
        async def count(upto: int) -> AsyncIterator[dict[str, int]]:
            for number in range(upto):
                yield {"n": number}
            if upto == 1:
                await gate.wait()

        @services.service("test", "breaks")
        async def breaks() -> AsyncIterator[Any]:
            yield {"n": 0}
            yield {"n": object()}

        async with (
            esnp_hub(clients=["alice"], services=services) as it,
            signed_on(it, "alice") as peer,
        ):
            peer.ask("test/count", upto=2)
            assert await _parts(peer) == [
                ((1, 0), {"n": 0}, None),
                ((2, 0), {"n": 1}, None),
                ((3, 3), {}, None),
            ]
            peer.ask("test/count", upto=0)
            assert await _parts(peer) == [(None, {}, None)]
            peer.ask("test/count", upto=1)
            assert part_of(await peer.message()) == (1, 0)  # a part does not wait for the next
            gate.set()
            assert part_of(await peer.message()) == (2, 2)
            peer.ask("test/breaks")
            first, last = await _parts(peer)
            assert first == ((1, 0), {"n": 0}, None)
            assert last[2] is not None
            assert await peer.refusal("test/count", upto="x")

    run(test())


def test_a_stream_waits_for_a_slow_reader() -> None:
    async def test() -> None:
        services = Services()
        sent = []

        @services.service("test", "flood")
        async def flood(parts: int) -> AsyncIterator[bytes]:
            for number in range(parts):
                sent.append(number)
                yield bytes(65_536)

        async with (
            esnp_hub(clients=["alice"], services=services) as it,
            signed_on(it, "alice") as peer,
        ):
            peer.ask("test/flood", parts=400)  # 26 MB; nobody reads them yet
            (connection,) = it.hub.connections.values()
            await until(lambda: connection.paused_since)
            stopped_at = len(sent)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(sent) <= stopped_at + 1 < 400
            parts = await _parts(peer)
            assert len(parts) == 401
            assert it.hub.services.running == 0

    run(test())


def test_a_call_is_cancelled_when_its_connection_ends() -> None:
    async def test() -> None:
        services = Services()
        ended = []

        @services.service("test", "wait")
        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        async with esnp_hub(clients=["alice"], services=services) as it:
            async with signed_on(it, "alice") as peer:
                peer.ask("test/wait")
                await until(lambda: it.hub.services.running)
            await until(lambda: ended)
            assert it.hub.services.running == 0

    run(test())


def test_results_that_cannot_be_written(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirelake.hub.rpc.defect_log.monotonic", lambda: 5.0)
    monkeypatch.setattr(esnp, "_defects", DefectLog(logging.getLogger("defects")))

    async def test() -> None:
        services = Services()

        @services.service("test", "large")
        def large() -> bytes:
            return bytes(11 << 20)

        @services.service("test", "odd")
        def odd() -> dict[str, Any]:
            return {"x": object()}

        @services.service("test", "head")
        def head() -> Reply:
            return Reply(rows=(XData(id=1, data=b"y"), Payload(data=b"x")))

        async with (
            esnp_hub(clients=["alice"], services=services) as it,
            signed_on(it, "alice") as peer,
        ):
            for _ in range(3):
                assert "maximum size" in await peer.refusal("test/large")
                assert "log" in await peer.refusal("test/odd")
                assert (await peer.call("test/head")).rows[-2:] == head().rows
            assert it.hub.counters.calls["esnp", "internal"] == 3
            assert it.hub.counters.calls["esnp", "too_large"] == 3

    run(test())
    # Once in a second, however often it is called.
    assert caplog.text.count("service test/odd: cannot encode the answer") == 1


def test_dialect_go() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice"], esnp={"dialect": "go"}) as it,
            signed_on(it, "alice") as peer,
        ):
            peer.codec = PROTOCOL.codec("go")
            row = Data(name="l", value=var_of(["a", "b"]))
            for _ in range(2):
                assert (await peer.call("test/echo", row)).rows[-1] == row

    run(test())


def test_strict_refuses_what_else_is_tolerated() -> None:
    async def test() -> None:
        async with (
            esnp_hub(clients=["alice"], esnp={"strict": True}) as strict,
            esnp_hub(clients=["alice"]) as lenient,
        ):
            for it, wanted in ((strict, True), (lenient, False)):
                async with signed_on(it, "alice") as peer:
                    for _ in range(2):
                        peer.write(REQUEST, *to("test/echo"), Payload(data=b""), MessageId(value=4))
                        assert (error_of(await peer.message()) is not None) == wanted

    run(test())


def test_cancelled_rows_are_flags_where_that_is_wanted() -> None:
    """TRACE and MESSAGE_KIND of early peers (section 6)."""

    async def test() -> None:
        old = (
            OpaqueRow(type=RowType.MESSAGE_KIND, data=b"\x01"),
            OpaqueRow(type=RowType.TRACE),
        )
        legacy = {"revision": "frames", "legacy_rows": True}
        async with esnp_hub(clients=["alice"], esnp=legacy) as it, signed_on(it, "alice") as peer:
            number = peer.ask("test/add", *old, flags=(), a=1, b=2)
            report, answer = await peer.message(), await peer.message()
            assert FlagType.TRACE_INFO in flags_of(report)
            assert source_message_id(report) == source_message_id(answer) == number
            assert values_of(answer.rows) == {"c": 3}
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            peer.ask("test/add", *old, flags=(), a=1, b=2)  # of no kind: for nobody
            answer = await peer.call("test/add", a=2, b=2)
            assert values_of(answer.rows) == {"c": 4}

    run(test())


def test_revision_frames_has_no_async() -> None:
    async def test() -> None:
        table = {"revision": "frames"}
        async with esnp_hub(clients=["alice"], esnp=table) as it, signed_on(it, "alice") as peer:
            asked = [peer.ask("test/sleep", flags=(REQUEST, ASYNC), ms=50)]
            asked.append(peer.ask("test/add", flags=(REQUEST, ASYNC), a=1, b=2))
            answered = [source_message_id(await peer.message()) for _ in asked]
            assert answered == asked

    run(test())


def test_a_silent_peer_is_closed_where_that_is_wanted() -> None:
    async def test() -> None:
        table = {"idle_s": 0.05}
        async with esnp_hub(clients=["alice"], esnp=table) as it, signed_on(it, "alice") as peer:
            assert await peer.reader.read() == b""
            await until(lambda: it.hub.counters.close_reasons["esnp", "idle"] == 1)

    run(test())

"""Every flow of ESNP's documents, over sockets, without the project's codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw.hub_process import HubProcess
from tests.hub_raw.line import Line
from tests.hub_raw.raw_esnp import EsnpError, RawEsnp

pytestmark = pytest.mark.slow

Dial = Callable[..., Line]


def _signed_on(hub: HubProcess, dialled: Dial, name: str = "", token: str = "") -> RawEsnp:
    if not name:
        name, token = hub.client()
    client = RawEsnp(dialled("esnp"))
    assert client.call("hub", "auth", {"id": name, "token": token}) == {"id": name}
    return client


def test_calls(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    assert client.call("test", "add", {"a": 40, "b": 2}) == {"c": 42}
    assert client.call("test", "add", {"a": 2**40, "b": 1}) == {"c": 2**40 + 1}
    with pytest.raises(EsnpError, match="failed on request"):
        client.call("test", "fail")
    with pytest.raises(EsnpError, match=r"nope"):
        client.call("test", "nope")
    with pytest.raises(EsnpError):
        client.call("test", "add", {"a": "no number", "b": 1})
    assert client.call("test", "add", {"a": 1, "b": 1}) == {"c": 2}


def test_echo_gives_rows_back(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    values: dict[str, Any] = {
        "nothing": None,
        "yes": True,
        "small": -1,
        "large": 2**62,
        "real": 0.5,
        "bytes": b"\x00\xff",
        "text": "行",
        "list": [1, "x", [None]],
        "map": {"k": {"deep": [1, 2]}},
    }
    payloads = [(esnp.PAYLOAD, b"one"), (esnp.PAYLOAD, b""), (esnp.PAYLOAD, b"\x00" * 5000)]
    answer = client.ask("test", "echo", values, *payloads)
    assert answer.data == values
    assert answer.all(esnp.PAYLOAD) == [b"one", b"", b"\x00" * 5000]
    assert answer.flags == {esnp.RESP, esnp.REQUEST}
    assert answer.ordered


def test_an_answer_carries_what_belongs_to_it(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    source = [
        (esnp.SOURCE_ADDRESS, esnp.address(40, "10.0.0.1:99")[1]),
        (esnp.SOURCE_ADDRESS, esnp.address(esnp.SERVICE, "caller")[1]),
    ]
    session = [
        esnp.data("broker", "x-1", esnp.SESSION_INFO),
        esnp.data("other", 5, esnp.SESSION_INFO),
    ]
    answer = client.ask("test", "add", {"a": 1, "b": 2}, *source, *session)
    assert answer.addresses == {40: "10.0.0.1:99", esnp.SERVICE: "caller"}
    assert answer.named(esnp.SESSION_INFO) == {"broker": "x-1", "other": 5}
    assert answer.ordered
    assert answer.data == {"c": 3}


def test_without_async_answers_keep_the_order(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    client.send(esnp.call_rows(101, "test", "sleep", {"ms": 150}))
    client.send(esnp.call_rows(102, "test", "add", {"a": 1, "b": 1}))
    assert [client.answer().source_id for _ in range(2)] == [101, 102]


def test_with_async_the_quick_one_overtakes(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    client.send(esnp.call_rows(201, "test", "sleep", {"ms": 300}, esnp.flag(esnp.ASYNC)))
    client.send(esnp.call_rows(202, "test", "add", {"a": 1, "b": 1}, esnp.flag(esnp.ASYNC)))
    answers = [client.answer() for _ in range(2)]
    assert [answer.source_id for answer in answers] == [202, 201]
    assert all(answer.error is None for answer in answers)


def test_an_id_in_flight_cannot_be_used_again(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    for _ in range(2):
        client.send(esnp.call_rows(7, "test", "sleep", {"ms": 200}, esnp.flag(esnp.ASYNC)))
    first, second = client.answer(7), client.answer(7)
    assert first.error is not None
    assert second.error is None


def test_info_is_answered_and_events_are_not(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    target = [esnp.address(esnp.SERVICE, "test"), esnp.address(esnp.OP, "add")]
    values = [esnp.data("a", 1), esnp.data("b", 2)]
    client.send([esnp.flag(esnp.EVENT), esnp.message_id(30), *target, *values])
    bad = [esnp.address(esnp.SERVICE, "no"), esnp.address(esnp.OP, "such")]
    client.send([esnp.flag(esnp.EVENT), esnp.message_id(31), *bad])
    client.send([esnp.flag(esnp.INFO), esnp.message_id(32), *target, *values])
    answer = client.receive()
    assert answer.source_id == 32
    assert answer.flags == {esnp.RESP, esnp.INFO}
    assert answer.error is None


def test_trace_reports_come_before_the_answer(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    client.send(esnp.call_rows(40, "test", "add", {"a": 1, "b": 2}, esnp.flag(esnp.TRACE)))
    result, answer = client.receive(), client.receive()
    assert {esnp.RESP, esnp.TRACE_INFO} <= result.flags
    assert result.source_id == answer.source_id == 40
    assert result.all(esnp.PAYLOAD)[0]
    assert esnp.TRACE not in answer.flags | result.flags
    assert esnp.TRACE_INFO not in answer.flags
    assert answer.data == {"c": 3}


def test_a_request_in_parts(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    parts = [(1, 0), (2, 0), (3, 3)]
    for number, (current, last) in enumerate(parts):
        more = (esnp.seq(current, last), (esnp.PAYLOAD, b"part %d" % current))
        client.send(esnp.call_rows(50, "test", "echo", {f"n{number}": number}, *more))
    answer = client.answer(50)
    assert answer.error is None
    assert answer.all(esnp.PAYLOAD) == [b"part 1", b"part 2", b"part 3"]
    assert answer.data == {"n0": 0, "n1": 1, "n2": 2}


def test_pipelined_calls_in_odd_slices(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    data = b"".join(
        esnp.encoded(esnp.call_rows(1000 + n, "test", "add", {"a": n, "b": 1})) for n in range(100)
    )
    for at in range(0, len(data), 37):
        client.line.send(data[at : at + 37])
    answers = [client.answer(1000 + n) for n in range(100)]
    assert [answer.data for answer in answers] == [{"c": n + 1} for n in range(100)]


def test_unknown_rows_are_not_an_error(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    client.send([])  # an empty message is legal
    unknown = [(0x01, b"reserved"), (0x13, b"\x01"), (0x80, b"application"), (0xFF, b"")]
    answer = client.ask("test", "add", {"a": 1, "b": 2}, *unknown, esnp.flag(200))
    assert answer.data == {"c": 3}
    assert {kind for kind, _ in answer.rows}.isdisjoint({0x01, 0x13, 0x80, 0xFF})


def test_head_rows_after_body_rows_are_read(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    client.send(list(reversed(esnp.call_rows(60, "test", "add", {"a": 1, "b": 2}))))
    assert client.answer(60).data == {"c": 3}


def test_nothing_but_signing_on_before_it(hub: HubProcess, dialled: Dial) -> None:
    client = RawEsnp(dialled("esnp"))
    for service, op in (("test", "add"), ("hub", "subscribe"), ("hub", "publish")):
        with pytest.raises(EsnpError, match="auth"):
            client.call(service, op, {"a": 1, "b": 2, "topic": "@x", "content": "x"})
    name, token = hub.client()
    with pytest.raises(EsnpError):
        client.call("hub", "auth", {"id": name, "token": "wrong"})
    assert client.call("hub", "auth", {"id": name, "token": token}) == {"id": name}
    assert client.call("test", "add", {"a": 1, "b": 2}) == {"c": 3}


def test_three_wrong_tokens_are_enough(dialled: Dial) -> None:
    client = RawEsnp(dialled("esnp"))
    texts = []
    for _ in range(3):
        with pytest.raises(EsnpError) as caught:
            client.call("hub", "auth", {"id": "nobody", "token": "wrong"})
        texts.append(str(caught.value))
    assert len(set(texts)) == 1
    assert client.line.rest() == b""


def test_large_messages_need_signing_on(hub: HubProcess, dialled: Dial) -> None:
    line = dialled("esnp")
    large = [(esnp.PAYLOAD, bytes(5000))]
    line.send(esnp.encoded(esnp.call_rows(1, "test", "echo", {}, *large)))
    assert line.rest() == b""
    client = _signed_on(hub, dialled)
    assert client.ask("test", "echo", {}, *large).all(esnp.PAYLOAD) == [bytes(5000)]


def _notified(event: esnp.Message) -> dict[str, Any]:
    assert event.addresses == {esnp.SERVICE: "hub", esnp.OP: "notify"}
    assert event.flags == {esnp.EVENT}
    assert event.ordered
    return event.data


def test_topics(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    topic = "@esnp/topics"
    assert client.call("hub", "subscribe", {"topic": topic}) == {"topics": 1}
    first = hub.publish(topic=topic, content="over HTTP", type=3)
    got = _notified(client.next_event())
    assert got.pop("ts") > 1_600_000_000_000
    assert got == {"id": first["id"], "topic": topic, "content": "over HTTP", "type": 3}
    second = client.call("hub", "publish", {"topic": topic, "content": "by myself"})
    assert second["audience"] == 1
    assert second["id"] > first["id"] or len(second["id"]) == 16
    assert _notified(client.next_event())["id"] == second["id"]
    assert client.call("hub", "unsubscribe", {"topic": topic})["topics"] in (0, 1)
    assert hub.publish(topic=topic, content="nobody")["audience"] == 0


def test_unacknowledged_notifications_are_sent_again(hub: HubProcess, dialled: Dial) -> None:
    name, token = hub.client()
    topic = f"@esnp/acked/{name}"
    client = _signed_on(hub, dialled, name, token)
    client.call("hub", "subscribe", {"topic": topic, "ack": True})
    ids = [hub.publish(topic=topic, content=str(n))["id"] for n in range(10)]
    assert [_notified(client.next_event())["id"] for _ in ids] == ids
    assert client.call("hub", "ack", {"ids": ids[:3]}) == {"acked": 3}
    assert client.call("hub", "ack", {"id": ids[5]}) == {"acked": 1}
    assert client.call("hub", "ack", {"id": "unknown"}) == {"acked": 0}
    client.close()
    ids.append(hub.publish(topic=topic, content="while away")["id"])
    client = _signed_on(hub, dialled, name, token)
    client.call("hub", "subscribe", {"topic": topic, "ack": True})
    wanted = [each for at, each in enumerate(ids) if at not in (0, 1, 2, 5)]
    assert [_notified(client.next_event())["id"] for _ in wanted] == wanted
    client.call("hub", "ack", {"ids": wanted})
    assert client.events == []


def test_a_key_publishes_once(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    topic = "@esnp/once"
    client.call("hub", "subscribe", {"topic": topic})
    result = [
        client.call("hub", "publish", {"topic": topic, "content": "x", "id": "order 66"}),
        client.call("hub", "publish", {"topic": topic, "content": "x", "id": "order 66"}),
        hub.publish(topic=topic, content="x", id="order 66"),
    ]
    assert result[0]["id"] == result[1]["id"] != result[2]["id"]  # another publisher's key
    assert _notified(client.next_event())["id"] == result[0]["id"]
    assert _notified(client.next_event())["id"] == result[2]["id"]
    client.call("test", "add", {"a": 1, "b": 2})
    assert client.events == []


def test_publishing_what_cannot_be(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    for values in (
        {"content": "to nobody"},
        {"topic": "@a", "client": "b", "content": "to both"},
        {"topic": "", "content": "x"},
        {"topic": "@with space", "content": "x"},
        {"topic": "@x" + "x" * 300, "content": "x"},
        {"topic": "@x", "content": "x" * 40_000},
        {"topic": "@x", "content": "x", "type": 256},
        {"topic": "@x", "content": "x", "ttl_s": -1},
        {"client": "there-is-no-such-client", "content": "x"},
        {"topic": "@x"},
    ):
        with pytest.raises(EsnpError):
            client.call("hub", "publish", values)
    assert client.call("test", "add", {"a": 1, "b": 2}) == {"c": 3}

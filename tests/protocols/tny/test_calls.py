"""Requests that wait: matching, expiry, order."""

from __future__ import annotations

from wirelake.protocols.tny.layout import Message, Mode, OriginalMessageIdHeader, TracingHeader
from wirelake.protocols.tny.message import Calls, answered_id, encode_header


def original(number: int) -> bytes:
    return encode_header(OriginalMessageIdHeader(message_id=number))


def test_a_response_names_the_id_or_the_original_id() -> None:
    assert answered_id(Message(id=5)) == 5
    assert answered_id(Message(id=5, headers=(encode_header(TracingHeader()),))) == 5
    assert answered_id(Message(id=5, headers=(encode_header(TracingHeader()), original(9)))) == 9
    broken = original(9)[:4] + b"\x08"
    assert answered_id(Message(id=5, headers=(broken,))) == 5
    assert answered_id(Message(id=5, headers=(broken, original(7)))) == 7


def test_a_call_is_taken_once() -> None:
    calls = Calls()
    request = Message(id=5, protocol=1)
    calls.add(request, 10.0)
    answer = Message(id=1, mode=Mode.RESPONSE, protocol=1, to_message=5)
    assert calls.take(answer, same_protocol=True) is request
    assert calls.take(answer, same_protocol=True) is None
    assert len(calls) == 0


def test_calls_with_one_awaited_id_are_matched_by_protocol_then_by_age() -> None:
    calls = Calls()
    requests = [
        Message(id=n, protocol=p, headers=(original(1),)) for n, p in ((1, 7), (2, 8), (3, 8))
    ]
    for request in requests:
        calls.add(request, 10.0)
    answer = Message(id=1, mode=Mode.RESPONSE, protocol=8, to_message=1)
    assert calls.take(answer, same_protocol=True) is requests[1]
    assert calls.take(answer, same_protocol=True) is requests[2]
    assert calls.take(answer, same_protocol=True) is None
    assert calls.take(answer, same_protocol=False) is requests[0]


def test_calls_expire_in_the_order_of_their_deadlines() -> None:
    calls = Calls()
    for number, deadline in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 9.0)):
        calls.add(Message(id=number, headers=(original(1),)), deadline)
    assert calls.next_deadline() == 1.0
    assert [request.id for request in calls.expire(3.0)] == [2, 3, 1]
    assert calls.next_deadline() == 9.0
    assert len(calls) == 1
    assert calls.expire(8.9) == []
    assert [request.id for request in calls.drain()] == [4]
    assert calls.next_deadline() is None
    assert len(calls) == 0

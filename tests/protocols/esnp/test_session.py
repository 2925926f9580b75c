"""ESNP sessions beside their rules: misuse, cuts, the table, and what a caller can rely on.

What the rules say is in `tests/playbooks/esnp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    EVENT,
    INFO,
    REQUEST,
    RESP,
    TRACE_INFO,
    Taking,
    data,
    m,
    mid,
    pair,
    raw,
    smid,
)

from wirelake.protocols.esnp import session
from wirelake.protocols.esnp.layout import Payload, SeqNo
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.session import Announced, Answered, CallFailed, EsnpSession, Requested
from wirelake.protocols.sansio import CLOSED, Closed, Role, SessionError, Side

TRIGGERS: dict[str, Callable[[EsnpSession], object]] = {
    "receive request": lambda s: s.receive(raw(m(REQUEST, mid(1))), 0.0),
    "receive info": lambda s: s.receive(raw(m(INFO, mid(1))), 0.0),
    "receive event": lambda s: s.receive(raw(m(EVENT)), 0.0),
    "receive response": lambda s: s.receive(raw(m(RESP, smid(1))), 0.0),
    "receive trace": lambda s: s.receive(raw(m(RESP, TRACE_INFO)), 0.0),
    "send": lambda s: s.announce([]),
    "eof": lambda s: s.receive_eof(),
    "broken frame": lambda s: s.receive(b"\0\0\0\1", 0.0),
    "idle": lambda s: s.on_timer(10.0),
    "close": lambda s: s.close(),
}


@pytest.mark.parametrize("role", list(Role))
def test_the_table_is_what_happens(role: Role) -> None:
    table = EsnpSession.TABLES[role]
    assert table[CLOSED] == {}
    for trigger, after in table["open"].items():
        one = EsnpSession(role, SessionOptions(idle_limit_s=10))
        TRIGGERS[trigger](one)
        assert one.state == after, trigger
        assert sum(isinstance(event, Closed) for event in one.events()) == (after == CLOSED)


# -- misuse raises, and changes nothing ------------------------------------------------------


def test_an_answer_cannot_be_sent_as_a_message() -> None:
    both = pair()
    both.client.request([])
    both.run()
    with pytest.raises(SessionError, match=r"use answer\(\)"):
        both.server.send(m(RESP, REQUEST, smid(1)))
    assert both.server.pending == 1


def test_a_message_that_does_not_encode_starts_no_call() -> None:
    one = EsnpSession(Role.CLIENT)
    for wrong in (SeqNo(current=1 << 31), Payload(data=bytes(11 << 20))):
        with pytest.raises(SessionError):
            one.request([wrong])
    assert (one.calls, one.to_send(), one.next_timer()) == (0, b"", None)


def test_an_answer_that_does_not_encode_leaves_the_call_open() -> None:
    both = pair()
    both.client.request([])
    both.run()
    call = both.called()
    named: Any
    for named in ({"error": "\udcff"}, {"rows": [Payload(data=bytes(11 << 20))]}):
        with pytest.raises(SessionError):
            both.server.answer(call, **named)
    both.server.answer(call, [data("a", 1)])
    assert [type(event) for event in both.run().take()[0]] == [Answered]


def test_nothing_can_be_sent_after_the_end() -> None:
    both = pair()
    both.client.request([])
    both.client.request([])
    both.run()
    call = both.called()
    both.server.close("enough")
    both.server.close("twice")
    for misuse in (
        lambda: both.server.answer(call),
        lambda: both.server.request([]),
        lambda: both.server.announce([]),
        lambda: both.server.forward(bytes(4)),
    ):
        with pytest.raises(SessionError, match="bad_state"):
            misuse()
    both.server.receive(raw(m(EVENT)), 1.0)
    both.server.on_timer(1_000.0)
    both.server.receive_eof()
    assert both.server.to_send() == b""
    assert both.server.events() == [Closed("enough", Side.LOCAL, clean=False)]
    assert both.server.pending == 0


def test_a_call_of_another_session() -> None:
    one, other = pair(), pair()
    one.client.request([])
    one.run()
    with pytest.raises(SessionError, match="not waiting for a reply"):
        other.server.answer(one.called())


@pytest.mark.parametrize("first_id", [0, -1, 1 << 64])
def test_a_first_id_that_is_none(first_id: int) -> None:
    with pytest.raises(SessionError, match="first_id"):
        EsnpSession(Role.CLIENT, first_id=first_id)


# -- cuts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17])
def test_any_cut_of_the_stream_means_the_same(size: int) -> None:
    messages = [m(EVENT, data("a", n)) for n in range(3)] + [m(REQUEST, mid(9)), m()]
    stream = b"".join(map(raw, messages))
    whole, cut = Taking(Role.SERVER), Taking(Role.SERVER)
    whole.receive(stream, 0.0)
    for start in range(0, len(stream), size):
        cut.receive(stream[start : start + size], 0.0)
    shown = [[_shown(event) for event in one.events()] for one in (whole, cut)]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 5


def _shown(event: Any) -> Any:
    return event.call.parts if isinstance(event, Requested) else event


def test_bytes_that_trickle_in_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large message, byte by byte: the heads of its rows are read, and it is decoded once."""
    rows = [Payload(data=bytes(20)) for _ in range(200)]
    stream = raw(m(EVENT, *rows))
    one = EsnpSession(Role.SERVER)
    seen = {"scanned": 0, "decoded": 0}
    scan, decode = one._codec.scan_message, one._codec.decode_message

    def counted_scan(buf: Any, pos: int, end: int, limit: int, resume: int | None) -> Any:
        seen["scanned"] += len(buf) - (resume or 0)
        return scan(buf, pos, end, limit, resume)

    def counted_decode(buf: Any, pos: int, end: int, limit: int) -> Any:
        seen["decoded"] += end - pos
        return decode(buf, pos, end, limit)

    monkeypatch.setattr(one._codec, "scan_message", counted_scan)
    monkeypatch.setattr(one._codec, "decode_message", counted_decode)
    for start in range(len(stream)):
        one.receive(stream[start : start + 1], 0.0)
    assert [type(event) for event in one.events()] == [Announced]
    assert seen["decoded"] <= len(stream) + 8
    assert seen["scanned"] < 3 * len(stream)


def test_offsets_are_those_of_the_stream() -> None:
    one = EsnpSession(Role.SERVER, SessionOptions(strict=True))
    before = raw(m(EVENT))
    one.receive(before + raw(m(EVENT, data("a", 1), mid(1))), 0.0)
    one.receive(before + b"\0\0", 0.0)
    one.receive(b"\0\1", 0.0)
    offsets = [event.offset for event in one.events() if hasattr(event, "offset")]
    assert offsets == [len(before), one.received_bytes - 4]


# -- what a caller can rely on ---------------------------------------------------------------


def test_the_public_names() -> None:
    assert set(session.__all__) <= set(dir(session))


def test_a_timer_that_is_early_does_nothing() -> None:
    """Answered calls may leave a timer behind that finds nothing to do."""
    one = EsnpSession(Role.CLIENT)
    one.request([], timeout_s=1)
    one.request([], timeout_s=3)
    one.receive(raw(m(RESP, smid(1))), 0.0)
    one.events()
    assert one.next_timer() == 1
    one.on_timer(1.0)
    assert (one.events(), one.next_timer()) == ([], 3)
    one.on_timer(3.0)
    assert one.events() == [CallFailed(2, "timeout")]


def test_many_calls_in_flight_cost_no_more_each() -> None:
    one = EsnpSession(Role.CLIENT, SessionOptions(max_calls=5_000))
    numbers = [one.request([], timeout_s=10 + n) for n in range(5_000)]
    one.to_send()
    for number in numbers[:-1]:
        one.receive(raw(m(RESP, smid(number))), 1.0)
    assert one.calls == 1
    assert len(one.events()) == 4_999

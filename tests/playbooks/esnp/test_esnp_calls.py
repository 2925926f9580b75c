"""Section 3 of `docs/decisions/esnp.md`: reply, info, event, error, trace, sequence, async.

Each interaction as the one who asks, as the one who answers, and back to back.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    ASKED,
    ASYNC,
    EVENT,
    INFO,
    REQUEST,
    RESP,
    TRACE,
    TRACE_INFO,
    book,
    closed,
    data,
    err,
    failed,
    lines,
    m,
    mid,
    pair,
    raw,
    smid,
    to,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, Eof, Playbook, rule

from wirelake.protocols.esnp import codec_seed
from wirelake.protocols.esnp.layout import (
    Address,
    Data,
    Flag,
    FlagType,
    Header,
    Message,
    OpaqueRow,
    Payload,
    SeqNo,
    SessionInfo,
    SourceAddress,
    Var,
    Version,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import check, error_text, kind
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.session import Announced, Answered, CallFailed, Requested, Traced
from wirelake.protocols.sansio import Role, Side

SID = SessionInfo(name="sid", value=Var(type=24, value="a"))
ADD = m(REQUEST, mid(7), to("test", "add"), data("a", 1), data("b", 2))
SUM = m(RESP, REQUEST, smid(7), data("c", 3))
REPLIES = [line for name, line in lines("esnp.jsonl").items() if name.startswith("reply_")]


def caller(**named: Any) -> Playbook:
    """A dialogue with one who asks."""
    return book(role=Role.CLIENT, **named)


def asks(rows: Any = (), **named: Any) -> Any:
    """A call on a session."""
    return lambda s: s.request(rows, **named)


def answers(*rows: Any, call: int = -1, **named: Any) -> Any:
    """An answer on a session."""
    return lambda s: s.answer(s.taken[call], rows, **named)


# -- reply -----------------------------------------------------------------------------------


@rule("esnp.3.reply")
def test_a_request_is_answered() -> None:
    (book() >> ADD << ASKED >> answers(data("c", 3)) << SUM).done()


@rule("esnp.3.reply")
def test_a_reply_carries_back_what_it_must_and_nothing_else() -> None:
    """In the order of the request; repeats and all."""
    everything = m(
        REQUEST,
        TRACE,
        ASYNC,
        Flag(value=200),
        mid(7),
        SourceAddress(kind=40, value="h1"),
        SourceAddress(kind=40, value="h2"),
        to("test", "add"),
        SeqNo(current=1, maximum=1),
        Version(major=1, minor=0, branch=0, variant=0),
        SID,
        Header(name="h", value=Var(type=0)),
        data("a", 1),
        Payload(data=b"x"),
        SID,
        XData(id=1, data=b"x"),
        OpaqueRow(type=0x80, data=b"app"),
        OpaqueRow(type=0x20, data=b"?"),
    )
    back = m(
        RESP,
        REQUEST,
        smid(7),
        Address(kind=40, value="h1"),
        Address(kind=40, value="h2"),
        SID,
        SID,
    )
    (book() >> everything << ASKED >> answers() << back).done()


@rule("esnp.3.reply")
@pytest.mark.parametrize("line", REPLIES, ids=lambda line: line["name"])
def test_the_replies_of_the_vectors(line: dict[str, Any]) -> None:
    """What the original answers, through a session; ours answers no event and no half request."""
    request = bytes.fromhex(line["expect"]["request_hex"])
    wanted, _ = codec_seed.decode_message(bytes.fromhex(line["hex"]), 0, len(line["hex"]) // 2)
    asked, _ = codec_seed.decode_message(request, 0, len(request))
    what = kind(asked)
    if what in {"EVENT", "NONE"}:
        (book() >> request << EmitsKind.of(Announced)).done()
    elif what == "RESPONSE":
        (book() >> request << failed("unexpected_reply")).done()
    else:
        error = error_text(wanted)
        extra = [row for row in wanted.rows if isinstance(row, Data | Payload) or row == TRACE_INFO]
        whole = m(*(row for row in asked.rows if not isinstance(row, SeqNo)))
        dialogue = book() >> whole << ASKED >> answers(*extra, error=error)
        (dialogue << (lambda found: same_rows(found, wanted))).done()


def same_rows(one: Message, other: Message) -> bool:
    """Whether the rows are the same, in an order that revision lines allows."""
    return sorted(map(repr, one.rows)) == sorted(map(repr, other.rows)) and not check(one)


@rule("esnp.3.matching")
def test_a_caller_matches_by_source_message_id() -> None:
    two = m(RESP, REQUEST, smid(2), data("c", 2))
    one = m(RESP, REQUEST, smid(1), data("c", 1))
    dialogue = caller() >> asks() << m(REQUEST, mid(1)) >> asks() << m(REQUEST, mid(2))
    dialogue = dialogue >> two << Emits(Answered(2, two, raw(two)))
    (dialogue >> one << Emits(Answered(1, one, raw(one)))).done()


@rule("esnp.3.matching")
@pytest.mark.parametrize("stray", [m(RESP, smid(9)), m(RESP), m(RESP, smid(0)), m(RESP, INFO)])
def test_a_response_that_answers_nothing_is_dropped_and_counted(stray: Any) -> None:
    dialogue = caller() >> stray << failed("unexpected_reply", fatal=False)
    assert dialogue.done().warnings == {"unexpected_reply": 1}


def test_a_call_back_to_back() -> None:
    both = pair()
    number = both.client.request_to("esnp://_/test/add", [data("a", 1), data("b", 2)])
    both.run()
    call = both.called()
    assert call.message == m(REQUEST, mid(number), to("test", "add"), data("a", 1), data("b", 2))
    both.server.answer(call, [data("c", 3)])
    ((answered,), _) = both.run().take()
    assert isinstance(answered, Answered)
    assert (answered.id, answered.last, answered.error) == (number, True, None)
    assert answered.message == m(RESP, REQUEST, smid(number), data("c", 3))


def test_both_ends_may_ask_at_once() -> None:
    both = pair()
    both.client.request([data("a", 1)])
    both.server.request([data("b", 2)])
    both.run()
    both.server.answer(both.server.taken[0], [data("x", 1)])
    both.client.answer(both.client.taken[0], [data("y", 2)])
    client, server = both.run().take()
    assert [e.message.rows[-1] for e in client if isinstance(e, Answered)] == [data("x", 1)]
    assert [e.message.rows[-1] for e in server if isinstance(e, Answered)] == [data("y", 2)]


# -- info, event, no kind --------------------------------------------------------------------


@rule("esnp.3.kinds")
def test_an_info_has_a_response() -> None:
    result = m(INFO, mid(3), data("a", 1))
    dialogue = book() >> result << ASKED >> answers() << m(RESP, INFO, smid(3))
    assert dialogue.done().taken[0].kind == "INFO"
    dialogue = caller() >> asks(flag=FlagType.INFO) << m(INFO, mid(1))
    thanks = m(RESP, INFO, smid(1))
    (dialogue >> thanks << Emits(Answered(1, thanks, raw(thanks)))).done()


@rule("esnp.3.kinds")
@pytest.mark.parametrize("message", [m(EVENT, mid(3), data("a", 1)), m(mid(3)), m()])
def test_an_event_has_none(message: Any) -> None:
    (book() >> message << Emits(Announced(message, raw(message)))).done()


@rule("esnp.3.kinds")
def test_what_has_request_and_resp_is_a_response() -> None:
    """All FLAG rows count, wherever they stand."""
    (book() >> m(REQUEST, mid(1), RESP) << failed("unexpected_reply")).done()


def test_an_event_back_to_back() -> None:
    both = pair()
    both.client.announce([data("a", 1)])
    assert both.run().take() == (
        [],
        [Announced(m(EVENT, data("a", 1)), raw(m(EVENT, data("a", 1))))],
    )


# -- error -----------------------------------------------------------------------------------


@rule("esnp.3.error")
@pytest.mark.parametrize("text", ["test error", ""])
def test_a_failed_call_has_an_error(text: str) -> None:
    """Its presence counts, not its text."""
    sorry = m(RESP, err(text), REQUEST, smid(7))
    (book() >> ADD << ASKED >> answers(error=text) << sorry).done()
    dialogue = caller(first_id=7) >> asks() << m(REQUEST, mid(7)) >> sorry
    answered = Answered(7, sorry, raw(sorry))
    (dialogue << Emits(answered)).done()
    assert answered.error == text


@rule("esnp.3.error")
@pytest.mark.parametrize("message", [m(EVENT, mid(1), mid(2)), m(mid(1), mid(2))])
def test_an_event_is_never_answered_with_an_error(message: Any) -> None:
    strict = SessionOptions(strict=True)
    (book(strict) >> message << failed("duplicate_row", fatal=False)).done()
    (book(strict) >> m(REQUEST, mid(1), mid(2)) << failed("duplicate_row") << _is_error).done()


def _is_error(message: Any) -> bool:
    return any(type(row).__name__ == "Error" for row in message.rows)


# -- timeouts and the end --------------------------------------------------------------------


@rule("esnp.3.timeouts")
def test_a_call_that_is_not_answered_ends() -> None:
    dialogue = caller() >> asks() << m(REQUEST, mid(1)) >> At(4.9)
    dialogue = dialogue >> At(5.0) << Emits(CallFailed(1, "timeout"))
    late = m(RESP, REQUEST, smid(1))
    dialogue = dialogue >> asks() << m(REQUEST, mid(2)) >> late << failed("unexpected_reply")
    assert dialogue.done().calls == 1


@rule("esnp.3.timeouts")
def test_each_call_has_its_own_time() -> None:
    dialogue = caller() >> asks(timeout_s=9) << m(REQUEST, mid(1))
    dialogue = dialogue >> asks(timeout_s=2) << m(REQUEST, mid(2))
    dialogue = dialogue >> asks(timeout_s=3) << m(REQUEST, mid(3))
    answer = m(RESP, smid(3))
    dialogue = dialogue >> answer << EmitsKind.of(Answered, id=3)
    dialogue = dialogue >> At(2) << Emits(CallFailed(2, "timeout"))
    dialogue = dialogue >> At(8.9) >> At(9) << Emits(CallFailed(1, "timeout"))
    assert dialogue.done().next_timer() is None


@rule("esnp.3.timeouts")
@pytest.mark.parametrize(
    ("end", "side"), [(Eof(), Side.REMOTE), (lambda s: s.close("eof"), Side.LOCAL)]
)
def test_at_the_end_every_call_fails(end: Any, side: Side) -> None:
    dialogue = caller() >> asks() << m(REQUEST, mid(1)) >> asks() << m(REQUEST, mid(2))
    dialogue = dialogue >> end << Emits(CallFailed(1, "connection_lost"))
    dialogue = dialogue << Emits(CallFailed(2, "connection_lost"))
    (dialogue << closed("eof", side=side, clean=False)).done()


@rule("esnp.3.timeouts")
def test_an_idle_limit_can_be_set() -> None:
    options = SessionOptions(idle_limit_s=10)
    dialogue = book(options) >> At(9) >> m(EVENT) << EmitsKind.of(Announced) >> At(18.9)
    (dialogue >> At(19) << failed("idle") << closed("idle", clean=False)).done()
    assert book().done().next_timer() is None


# -- trace -----------------------------------------------------------------------------------


@rule("esnp.3.trace")
@pytest.mark.parametrize("flags", [(TRACE, REQUEST), (REQUEST, TRACE)], ids=["first", "last"])
def test_a_node_reports_before_it_answers(flags: Any) -> None:
    """Wherever the flag stands."""
    dialogue = book(SessionOptions(trace_name="service(gos)")) >> m(*flags, mid(7))
    report = m(RESP, TRACE_INFO, REQUEST, smid(7), Payload(data=b"service(gos) handled"))
    (dialogue << report << ASKED >> answers() << m(RESP, REQUEST, smid(7))).done()


@rule("esnp.3.trace")
def test_a_report_does_not_end_the_call() -> None:
    dialogue = caller() >> asks(more_flags=[FlagType.TRACE])
    dialogue = dialogue << m(REQUEST, TRACE, mid(1))
    report = m(RESP, TRACE_INFO, REQUEST, smid(1), Payload(data=b"A -> B"))
    dialogue = dialogue >> report << Emits(Traced(1, "A -> B", report))
    answer = m(RESP, REQUEST, smid(1))
    (dialogue >> answer << Emits(Answered(1, answer, raw(answer)))).done()


@rule("esnp.3.trace")
def test_what_is_reported_and_what_is_not() -> None:
    """An event is; a response and a report are not, so that no two nodes report to each other."""
    dialogue = book(SessionOptions(trace_name="n")) >> m(EVENT, TRACE)
    dialogue = (
        dialogue << m(RESP, TRACE_INFO, Payload(data=b"n handled")) << EmitsKind.of(Announced)
    )
    dialogue = dialogue >> m(RESP, TRACE) << failed("unexpected_reply")
    (dialogue >> m(TRACE, TRACE_INFO) << EmitsKind.of(Traced, id=None, text="")).done()
    (book() >> m(EVENT, TRACE) << EmitsKind.of(Announced)).done()


def test_a_trace_back_to_back() -> None:
    both = pair(server=SessionOptions(trace_name="node"))
    both.client.request([], more_flags=[FlagType.TRACE])
    client, _ = both.run().take()
    assert [event.text for event in client if isinstance(event, Traced)] == ["node handled"]
    assert both.client.calls == 1
    both.server.answer(both.called())
    assert [type(event) for event in both.run().take()[0]] == [Answered]


# -- async -----------------------------------------------------------------------------------


@rule("esnp.3.async")
def test_concurrent_requests_are_handed_over_at_once_and_answered_in_any_order() -> None:
    dialogue = book() >> m(REQUEST, ASYNC, mid(1)) << ASKED >> m(REQUEST, ASYNC, mid(2)) << ASKED
    dialogue = dialogue >> answers(call=1) << m(RESP, REQUEST, smid(2))
    (dialogue >> answers(call=0) << m(RESP, REQUEST, smid(1))).done()


@rule("esnp.3.async")
def test_in_frames_flag_7_means_nothing() -> None:
    """It is carried, and the request waits for its turn."""
    dialogue = book(SessionOptions(revision="frames")) >> m(REQUEST, ASYNC, mid(1)) << ASKED
    dialogue = dialogue >> m(REQUEST, ASYNC, mid(2)) >> answers() << m(RESP, REQUEST, smid(1))
    dialogue = dialogue << ASKED
    assert dialogue.done().taken[1].message == m(REQUEST, ASYNC, mid(2))


@rule("esnp.3.async")
def test_without_an_id_there_is_only_the_order() -> None:
    dialogue = book() >> m(REQUEST, ASYNC) << ASKED >> m(REQUEST, ASYNC)
    (dialogue >> answers() << m(RESP, REQUEST) << ASKED).done()


def test_concurrent_calls_back_to_back() -> None:
    both = pair()
    numbers = [both.client.request([], more_flags=[FlagType.ASYNC]) for _ in range(3)]
    both.run()
    for call in reversed(both.server.taken):
        both.server.answer(call)
    client, server = both.run().take()
    assert [event.id for event in client if isinstance(event, Answered)] == numbers[::-1]
    assert [event.call.concurrent for event in server if isinstance(event, Requested)] == [True] * 3


def test_the_two_codecs_write_the_same_but_for_containers() -> None:
    assert PROTOCOL.codec("go").encode_message(ADD) == codec_seed.encode_message(ADD)

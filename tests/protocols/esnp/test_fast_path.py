"""Plain requests that are answered while they are read: the same bytes as by the long way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.playbooks.esnp.peer import ASYNC, EVENT, REQUEST, data, m, mid, raw

from wirelake.protocols.esnp import codec_seed
from wirelake.protocols.esnp.endpoint import Announced, Requested
from wirelake.protocols.esnp.fast_path import Deferred, HeadTemplate
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Error,
    Flag,
    FlagType,
    Header,
    MessageId,
    Payload,
    Row,
    SeqNo,
    SessionInfo,
    SourceAddress,
    Version,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import reply
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.session import EsnpSession
from wirelake.protocols.esnp.values import values_of, var_of
from wirelake.protocols.sansio import Closed, Failed, Role, SessionError
from wirelake.wire.views.strategy import messages

SERVICE = Address(kind=AddressKind.SERVICE, value="test")
OP = Address(kind=AddressKind.OP, value="echo")
REFUSED = "x" * 5


class Echo:
    """Answers every request with its own body rows, at once or by events."""

    def __init__(self, *, fast_handler: bool, **options: Any):
        self.session = EsnpSession(Role.SERVER, SessionOptions(**options))
        self.by_events = 0
        self.fast_handler = 0
        self.failed: list[str] = []
        if fast_handler:
            self.session.fast_handler = self._answer

    def _answer(
        self, head: HeadTemplate, rows: tuple[Row, ...], values: dict[str, Any], number: bytes
    ) -> bytes | str | None:
        assert len(number) == 8
        assert values == values_of(rows)
        if head.op == "later":
            return None
        self.fast_handler += 1
        if head.op == "refuse":
            return REFUSED
        return self.session.body_of(tuple(row for row in rows if isinstance(row, Payload)))

    def give(self, data: bytes) -> bytes:
        """What is written when these bytes come."""
        self.session.receive(data, 0.0)
        while events := self.session.events():
            for event in events:
                if isinstance(event, Requested):
                    self._by_event(event)
                elif isinstance(event, Failed):
                    self.failed.append(event.code)
                else:
                    self.failed.append(type(event).__name__)
        return self.session.to_send()

    def _by_event(self, event: Requested) -> None:
        self.by_events += 1
        rows = tuple(row for part in event.call.parts for row in part.rows)
        ops = [r.value for r in rows if isinstance(r, Address) and r.kind == AddressKind.OP]
        if ops[:1] == ["refuse"]:
            self.session.answer(event.call, error=REFUSED)
        else:
            self.session.answer(event.call, [r for r in rows if isinstance(r, Payload)])


def both(*pieces: bytes, **options: Any) -> tuple[Echo, Echo]:
    """The same bytes to one that answers at once and to one that does not: no difference."""
    fast_body, slow = Echo(fast_handler=True, **options), Echo(fast_handler=False, **options)
    assert [fast_body.give(piece) for piece in pieces] == [slow.give(piece) for piece in pieces]
    assert fast_body.failed == slow.failed
    assert fast_body.session.buffered == slow.session.buffered
    assert fast_body.session.warnings == slow.session.warnings
    return fast_body, slow


def request(number: int, *rows: Row, op: Address = OP) -> bytes:
    return raw(m(REQUEST, SERVICE, op, mid(number), *rows))


heads = st.permutations([REQUEST, SERVICE, OP, mid(7)])
extra = st.lists(
    st.sampled_from(
        [
            Payload(data=b"p"),
            data("a", 1),
            Header(name="h", value=var_of("x")),
            XData(id=1, data=b"y"),
            SessionInfo(name="s", value=var_of(2)),
            SourceAddress(kind=30, value="me"),
            Version(major=1, minor=0, branch=0, variant=0),
            SeqNo(current=1, maximum=1),
            Flag(value=FlagType.TRACE),
            Flag(value=FlagType.INFO),
            Flag(value=130),
            ASYNC,
            OP,
            MessageId(value=3),
            Error(value="e"),
        ]
    ),
    max_size=3,
)


@given(st.lists(st.tuples(heads, extra), min_size=2, max_size=6), st.booleans())
def test_any_rows_give_the_same_answers(requests: list[Any], strict: bool) -> None:
    pieces = [raw(m(*head, *more)) for head, more in requests for _ in range(2)]
    both(*pieces, strict=strict, trace_name="here")


@given(st.lists(messages(PROTOCOL), max_size=4), st.integers(1, 40))
def test_any_messages_in_any_pieces_give_the_same_answers(found: list[Any], size: int) -> None:
    plain = [request(n, Payload(data=bytes([n]))) for n in (1, 2)]
    whole = [*plain, *map(codec_seed.encode_message, found), *plain]
    both(*(each[at : at + size] for each in whole for at in range(0, len(each), size)))


def test_the_second_of_a_kind_makes_no_event() -> None:
    stream = b"".join(request(number, Payload(data=b"x")) for number in range(1, 10))
    fast_body, slow = both(stream, stream, stream)
    assert slow.by_events == 27
    assert (fast_body.by_events, fast_body.fast_handler) == (9, 18)


def test_an_error_at_once() -> None:
    refuse = Address(kind=AddressKind.OP, value="refuse")
    pieces = [request(number, Payload(data=b"x"), op=refuse) for number in (1, 2, 3)]
    fast_body, _ = both(*pieces)
    assert fast_body.fast_handler == 2


def test_what_the_application_does_not_want_is_an_event() -> None:
    later = Address(kind=AddressKind.OP, value="later")
    fast_body, _ = both(*(request(number, op=later) for number in (1, 2, 3)))
    assert (fast_body.by_events, fast_body.fast_handler) == (3, 0)


def test_a_head_that_begins_another() -> None:
    longer = [raw(m(REQUEST, SERVICE, mid(n), OP, Payload(data=b"x"))) for n in (1, 2, 3)]
    shorter = [raw(m(REQUEST, SERVICE, mid(n), Payload(data=b"y"))) for n in (4, 5, 6)]
    fast_body, _ = both(*shorter, *longer, *shorter)
    assert fast_body.fast_handler == 2 + 2 + 3


def test_an_unanswered_request_keeps_the_order() -> None:
    one = EsnpSession(Role.SERVER)
    one.fast_handler = lambda _head, rows, _values, _number: one.body_of(rows)
    one.receive(request(1), 0.0)
    one.answer(one.events()[0].call)  # type: ignore[attr-defined]
    held = Address(kind=AddressKind.OP, value="held")
    one.receive(request(2, op=held) + request(3, Payload(data=b"x")), 0.0)
    (waiting,) = one.events()
    assert isinstance(waiting, Requested)
    assert one.to_send()  # the answer to the first
    one.answer(waiting.call)
    (after,) = one.events()
    assert isinstance(after, Requested)
    assert after.call.id == 3


def test_nothing_overtakes_an_event() -> None:
    one = Putting()
    event = raw(m(EVENT, SERVICE, OP))
    one.session.receive(event + concurrent(2) + concurrent(3), 0.0)
    assert one.held == []
    announced, *requested = one.session.events()
    assert isinstance(announced, Announced)
    assert [each.call.id for each in requested] == [2, 3]  # type: ignore[attr-defined]
    one.session.receive(concurrent(4), 0.0)
    assert len(one.held) == 1


def test_large_requests_and_large_answers_are_refused_in_the_same_way() -> None:
    limit = 200
    small, large = Payload(data=b"x"), Payload(data=b"x" * limit)
    fast_body, _ = both(
        request(1, small), request(2, small), request(3, large), message_limit=limit
    )
    assert fast_body.failed[0] == "too_large"
    one = EsnpSession(Role.SERVER, SessionOptions(message_limit=limit))
    with pytest.raises(SessionError, match="too_large"):
        one.body_of((large,))
    nearly = Payload(data=b"x" * (limit - 10))
    one.fast_handler = lambda *_: one.body_of((nearly,))
    one.receive(request(1), 0.0)
    one.answer(one.events()[0].call)  # type: ignore[attr-defined]
    one.to_send()
    one.receive(request(2), 0.0)
    answer, _ = codec_seed.decode_message(out := one.to_send(), 0, len(out))
    assert any(isinstance(row, Error) for row in answer.rows)


def test_an_application_that_closes_writes_nothing_more() -> None:
    one = EsnpSession(Role.SERVER)

    def close(*_: object) -> bytes:
        one.close("enough")
        return one.body_of(())

    one.fast_handler = close
    one.receive(request(1), 0.0)
    one.answer(one.events()[0].call)  # type: ignore[attr-defined]
    one.to_send()
    one.receive(request(2) + request(3), 0.0)
    assert one.to_send() == b""
    assert [type(event) for event in one.events()] == [Closed]


def test_few_heads_are_kept() -> None:
    ops = [Address(kind=AddressKind.OP, value=f"op{number}") for number in range(20)]
    fast_body, _ = both(*(request(1, op=op) for op in ops for _ in range(2)))
    assert len(fast_body.session._heads) == 8
    assert fast_body.fast_handler == 8


def test_no_template_is_kept_without_a_handler() -> None:
    one = Echo(fast_handler=False)
    one.give(request(1))
    assert one.session._heads == []


# -- later -----------------------------------------------------------------------------------


def concurrent(number: int, *rows: Row) -> bytes:
    return raw(m(REQUEST, ASYNC, SERVICE, OP, mid(number), *rows))


class Putting:
    """Puts every request off that may be answered out of order."""

    def __init__(self, **options: Any):
        self.session = EsnpSession(Role.SERVER, SessionOptions(**options))
        self.session.fast_handler = self._put_off
        self.held: list[tuple[HeadTemplate, bytes]] = []
        self.session.receive(concurrent(1), 0.0)
        self.session.answer(self.session.events()[0].call)  # type: ignore[attr-defined]
        self.session.to_send()

    def _put_off(
        self, head: HeadTemplate, _rows: tuple[Row, ...], _values: dict[str, Any], number: bytes
    ) -> Deferred | bytes:
        if not head.concurrent:
            return self.session.body_of(())
        self.held.append((head, number))
        return Deferred.DEFERRED

    def refusals(self, data: bytes) -> int:
        """How many of these requests are refused."""
        self.session.receive(data, 0.0)
        return sum(isinstance(event, Failed) for event in self.session.events())


def test_what_is_put_off_is_in_flight_until_it_is_answered() -> None:
    one = Putting(max_requests=3)
    assert one.refusals(concurrent(2) + concurrent(3)) == 0
    assert one.session.pending == 2
    assert one.refusals(concurrent(2)) == 1  # that id is in flight
    assert one.refusals(concurrent(4) + concurrent(5)) == 1  # and that was one too many
    assert [int.from_bytes(number, "big") for _, number in one.held] == [2, 3, 4]
    one.session.to_send()
    head, number = one.held.pop(1)
    body = one.session.body_of((Payload(data=b"x"),))
    answer = codec_seed.decode_message(
        data := one.session.reply_deferred(head, number, body), 0, len(data)
    )[0]
    expected = reply(m(REQUEST, ASYNC, mid(3)), rows=[Payload(data=b"x")])
    assert answer == expected
    assert one.session.pending == 2
    assert one.refusals(concurrent(3)) == 0


def test_an_error_later() -> None:
    one = Putting()
    one.refusals(concurrent(7))
    data = one.session.reply_deferred(*one.held[0], "no")
    assert codec_seed.decode_message(data, 0, len(data))[0] == reply(
        m(REQUEST, ASYNC, mid(7)), error="no"
    )


def test_nothing_is_answered_after_the_end() -> None:
    one = Putting()
    one.refusals(concurrent(7))
    one.session.receive_eof()
    assert one.session.reply_deferred(*one.held[0], "no") == b""
    assert one.session.pending == 0


def test_a_deferred_reply_does_not_delay_others() -> None:
    one = Putting()
    one.session.receive(request(2), 0.0)
    one.session.answer(one.session.events()[0].call)  # type: ignore[attr-defined]
    one.session.to_send()
    assert one.refusals(concurrent(3) + request(4)) == 0
    data = one.session.to_send()
    assert codec_seed.decode_message(data, 0, len(data))[0] == reply(m(REQUEST, mid(4)))
    assert one.session.pending == 1


def test_flag_seven_means_nothing_in_revision_frames() -> None:
    one = Putting(revision="frames")
    one.refusals(concurrent(3))
    assert one.held == []

"""The error classes of the ESNP rules, each on a live connection.

Three things can be wrong (sections 1, 2 and 6 of `docs/decisions/esnp.md`):

    the framing      the connection closes without a reply
    a row            the message is read, that row carries the error, the connection stays
    what we write    the caller is told, and nothing leaves
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    ASKED,
    CODECS,
    END,
    EVENT,
    REQUEST,
    RESP,
    book,
    closed,
    data,
    failed,
    lines,
    m,
    mid,
    raw,
    smid,
)
from tests.playbooks.playbook import EmitsKind, Eof, rule

from wirelake.conformance.esnp import CLASSES
from wirelake.protocols.esnp.layout import BrokenRow, Data, Payload, SeqNo, Var
from wirelake.protocols.esnp.limits import UNAUTHENTICATED_LIMIT, SessionOptions
from wirelake.protocols.esnp.session import Announced
from wirelake.protocols.sansio import Role, SessionError, Side

STRICT = SessionOptions(strict=True)
ASKING = raw(m(REQUEST, mid(7)))[: -len(END)]
"""A request whose last row is to come."""


def row(tag: int, body: str) -> bytes:
    """A row of this type with these bytes."""
    found = bytes.fromhex(body)
    return bytes([tag]) + len(found).to_bytes(3, "big") + found


# -- the framing -----------------------------------------------------------------------------


@rule("esnp.class.Truncated")
def test_the_end_inside_a_message_is_an_error() -> None:
    dialogue = book() >> ASKING >> Eof() << failed("short", side=Side.REMOTE)
    (dialogue << closed("eof", clean=False)).done()


@rule("esnp.class.Truncated")
def test_the_end_between_messages_is_not() -> None:
    dialogue = book() >> m(EVENT) << EmitsKind.of(Announced) >> Eof() << closed("eof", clean=True)
    dialogue.done()


@rule("esnp.class.Truncated")
@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20])
def test_what_is_missing_is_waited_for(cut: int) -> None:
    whole = raw(m(REQUEST, mid(7), data("a", 1)))
    session = (book() >> whole[:cut]).done()
    assert session.buffered == cut
    (book() >> whole[:cut] >> whole[cut:] << ASKED).done()


@rule("esnp.class.BadEnd")
def test_an_end_with_a_body_closes_without_a_reply() -> None:
    dialogue = book() >> ASKING + bytes.fromhex("00000001ff") << failed("bad_end", fatal=True)
    (dialogue << closed("bad_end", clean=False)).done()


@rule("esnp.class.RowTooLarge")
def test_a_message_over_the_limit_closes_at_its_head() -> None:
    """Before the body is there; exactly the limit passes."""
    whole = raw(m(EVENT, Payload(data=bytes(100))))
    exact = SessionOptions(message_limit=len(whole))
    (book(exact) >> whole << EmitsKind.of(Announced)).done()
    less = SessionOptions(message_limit=len(whole) - 1 - len(END))
    dialogue = book(less) >> whole[:9] << failed("too_large")
    (dialogue << closed("too_large", clean=False)).done()


@rule("esnp.class.RowTooLarge")
def test_what_is_too_large_is_not_written() -> None:
    session: Any = book(SessionOptions(message_limit=1 << 30)).done()
    with pytest.raises(SessionError, match="too_large"):
        session.announce([Payload(data=bytes(1 << 24))])
    session = book(SessionOptions(message_limit=50)).done()
    with pytest.raises(SessionError, match="too_large"):
        session.request([Payload(data=bytes(50))])
    assert (session.calls, session.to_send(), session.next_timer()) == (0, b"", None)


@rule("esnp.class.RowTooLarge")
def test_the_limit_can_be_low_until_a_peer_is_known() -> None:
    dialogue = book()
    session: Any = dialogue.session
    session.message_limit = UNAUTHENTICATED_LIMIT
    small = m(EVENT, Payload(data=bytes(4_000)))
    dialogue = dialogue >> small << EmitsKind.of(Announced)
    session.message_limit = session.options.message_limit
    large = m(EVENT, Payload(data=bytes(40_000)))
    dialogue = dialogue >> large << EmitsKind.of(Announced)
    session.message_limit = UNAUTHENTICATED_LIMIT
    (dialogue >> large << failed("too_large") << closed("too_large")).done()


# -- a row -----------------------------------------------------------------------------------

BAD_ROWS = {
    "BadRowSize": (row(0x12, "00"), "bad_length"),
    "RowTruncated": (row(0x15, "0261"), "short"),
    "TrailingBytes": (row(0x15, "026105020000"), "trailing_bytes"),
    "VarintTruncated": (row(0x15, "02610580"), "varint_truncated"),
    "VarintOverflow": (row(0x15, "026106" + "ff" * 10), "varint_overflow"),
    "IntRange": (row(0x15, "026104" + "8080" + "08"), "int_range"),
    "NegativeLength": (row(0x15, "01610502"), "negative_length"),
    "LengthOverrun": (row(0x15, "7e610502"), "length_overrun"),
    "UnknownVarType": (row(0x15, "02610c"), "unknown_var_type"),
    "InvalidUtf8": (row(0x15, "02ff0502"), "invalid_utf8"),
    "TooDeep": (row(0x15, "0261" + "1702" * 100 + "00"), "too_deep"),
}
"""Each class with a row that has it, and our code."""


@rule(*(f"esnp.class.{name}" for name in BAD_ROWS))
@pytest.mark.parametrize(("bad", "code"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_leaves_the_message_valid(bad: bytes, code: str) -> None:
    """Counted, carried with its bytes, and the request is answered."""
    whole = ASKING + bad + END
    dialogue = book() >> whole << ASKED
    session: Any = dialogue.session
    (call,) = session.taken
    broken = call.message.rows[-1]
    assert isinstance(broken, BrokenRow)
    assert (broken.code, call.raw) == (code, (whole,))
    assert session.warnings[code] == 1
    answer = lambda s: s.answer(call, [data("c", 3)])  # noqa: E731
    (dialogue >> answer << m(RESP, REQUEST, smid(7), data("c", 3))).done()


@rule(*(f"esnp.class.{name}" for name in BAD_ROWS))
@pytest.mark.parametrize(("bad", "code"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_strict_reader_refuses_it(bad: bytes, code: str) -> None:
    dialogue = book(STRICT) >> ASKING + bad + END << failed(code, fatal=False, side=Side.REMOTE)
    dialogue = dialogue << (lambda found: found.rows[1].value.startswith(code))
    (dialogue >> m(REQUEST, mid(8)) << ASKED).done()


@rule("esnp.class.RowTruncated")
@pytest.mark.parametrize("body", ["", "0261", "02610d00"])
def test_a_row_cut_short(body: str) -> None:
    dialogue = book() >> ASKING + row(0x15, body) + END << ASKED
    broken = dialogue.done().taken[0].message.rows[-1]  # type: ignore[attr-defined]
    assert broken.code in {"short", "varint_truncated"}


def test_every_class_of_the_vectors_is_met() -> None:
    """Each vector with an error goes through a strict session and comes to no harm."""
    seen = set()
    for line in lines("esnp.jsonl").values():
        error = line["expect"].get("error")
        if not error or not line["hex"] or line["name"].startswith(("prim_", "int_")):
            continue
        seen.add(error)
        session: Any = book(STRICT).session
        session.receive(bytes.fromhex(line["hex"]), 0.0)
        session.receive_eof()
        assert session.closed
    assert seen <= set(CLASSES)
    assert len(seen) > 10


# -- rows that are right, but not together ---------------------------------------------------


@rule("esnp.class.DuplicateRow")
def test_a_single_row_twice() -> None:
    """The first counts; strict refuses."""
    twice = m(REQUEST, mid(7), mid(8))
    dialogue = book() >> twice << ASKED >> (lambda s: s.answer(s.taken[0]))
    dialogue = dialogue << m(RESP, REQUEST, smid(7), smid(8))
    assert dialogue.done().warnings == {"duplicate_row": 1}  # type: ignore[attr-defined]
    dialogue = book(STRICT) >> twice << failed("duplicate_row", fatal=False)
    (dialogue << (lambda found: found.rows[1].value.startswith("duplicate_row"))).done()


@rule("esnp.class.RowOrder")
def test_a_head_row_after_a_body_row() -> None:
    mixed = m(REQUEST, data("a", 1), mid(7))
    assert (book() >> mixed << ASKED).done().warnings == {"row_order": 1}  # type: ignore[attr-defined]
    dialogue = book(STRICT) >> mixed << failed("row_order", fatal=False)
    (dialogue << (lambda found: found.rows[1].value.startswith("row_order"))).done()


@rule("esnp.class.SeqRange")
def test_a_number_that_no_part_has() -> None:
    odd = m(EVENT, SeqNo(current=3, maximum=2))
    dialogue = book() >> odd << EmitsKind.of(Announced)
    assert dialogue.done().warnings == {"seq_range": 1}  # type: ignore[attr-defined]
    (book(STRICT) >> odd << failed("seq_range", fatal=False)).done()


# -- too much at once ------------------------------------------------------------------------


def test_too_many_requests_are_refused_not_dropped() -> None:
    dialogue = book(SessionOptions(max_requests=2)) >> m(REQUEST, mid(1)) << ASKED
    dialogue = dialogue >> m(REQUEST, mid(2)) >> m(REQUEST, mid(3)) << failed("too_busy")
    (dialogue << (lambda found: found.rows[-1] == smid(3))).done()


def test_too_many_bytes_of_requests_are_refused_but_one_is_always_taken() -> None:
    large = m(REQUEST, mid(1), Payload(data=bytes(1_000)))
    dialogue = book(SessionOptions(max_request_bytes=500)) >> large << ASKED
    dialogue = dialogue >> m(REQUEST, mid(2)) << failed("too_busy", fatal=False)
    dialogue = dialogue << (lambda found: found.rows[-1] == smid(2))
    dialogue = dialogue >> (lambda s: s.answer(s.taken[0])) << m(RESP, REQUEST, smid(1))
    (dialogue >> m(REQUEST, mid(3)) << ASKED).done()


def test_too_many_calls_are_misuse() -> None:
    session: Any = book(SessionOptions(max_calls=1), role=Role.CLIENT).done()
    session.request([])
    with pytest.raises(SessionError, match="too_busy"):
        session.request([])
    assert session.calls == 1


@pytest.mark.parametrize("dialect", ["seed", "go"])
def test_a_container_of_the_other_dialect_is_a_bad_row(dialect: Any) -> None:
    """Go answers the document's form with an error; here the application may do the same."""
    one = Var(type=5, value=1)
    listed = m(REQUEST, mid(7), Data(name="k", value=Var(type=23, value=(one, one, one))))
    other = "go" if dialect == "seed" else "seed"
    dialogue = (
        book(SessionOptions(dialect=dialect)) >> CODECS[other].encode_message(listed) << ASKED
    )
    broken = dialogue.done().taken[0].message.rows[-1]
    assert isinstance(broken, BrokenRow)

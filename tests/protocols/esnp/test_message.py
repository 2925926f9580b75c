"""Views of an ESNP message: flags as a set, first rows, order, strictness, and the reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp import layout, message
from wirelake.protocols.esnp.address import Address
from wirelake.protocols.esnp.layout import BrokenRow, Flag, FlagType, Message, OpaqueRow, Row, Var
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.wire.errors import DecodeError

NULL = Var(type=0)
ROWS: list[Row] = [
    Flag(value=4),
    Flag(value=300),
    layout.MessageId(value=7),
    layout.SourceMessageId(value=8),
    layout.SourceAddress(kind=40, value="h"),
    layout.Address(kind=30, value="s"),
    layout.SeqNo(current=1, maximum=2),
    layout.Error(value="e"),
    layout.Version(major=1, minor=0, branch=0, variant=0),
    layout.SessionInfo(name="sid", value=NULL),
    layout.Header(name="h", value=NULL),
    layout.Data(name="d", value=NULL),
    layout.Payload(data=b"p"),
    layout.XData(id=1),
    OpaqueRow(type=0x20, data=b"?"),
    OpaqueRow(type=0x80, data=b"!"),
]


def of(*rows: Row) -> Message:
    return Message(rows=rows)


def flagged(*numbers: int) -> Message:
    return of(*(Flag(value=number) for number in numbers))


# -- flags ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "kind", "request_", "response"),
    [
        ((), "NONE", False, False),
        ((4,), "REQUEST", True, False),
        ((1, 4), "REQUEST", True, False),
        ((4, 7, 128), "REQUEST", True, False),
        ((3, 4), "RESPONSE", False, True),
        ((4, 3), "RESPONSE", False, True),
        ((3,), "RESPONSE", False, True),
        ((5,), "INFO", False, False),
        ((3, 5), "INFO_RESPONSE", False, True),
        ((5, 3), "INFO_RESPONSE", False, True),
        ((6,), "EVENT", False, False),
        ((7,), "NONE", False, False),
        ((3, 2, 4), "TRACE_INFO", False, True),
    ],
)
def test_flags_are_a_set(
    numbers: tuple[int, ...], kind: str, request_: bool, response: bool
) -> None:
    found = flagged(*numbers)
    assert message.flags(found) == numbers
    assert message.kind(found) == kind
    assert message.is_request(found) is request_
    assert message.is_response(found) is response


@given(st.permutations([3, 4, 1, 128]))
def test_the_order_of_flags_does_not_matter(numbers: list[int]) -> None:
    assert message.kind(flagged(*numbers)) == "RESPONSE"


def test_a_trace_report_is_recognised() -> None:
    assert message.is_trace_info(flagged(3, 4, 2))
    assert not message.is_trace_info(flagged(3, 4))


# -- single rows ------------------------------------------------------------------------------


def test_absent_rows() -> None:
    empty = of()
    assert message.message_id(empty) is None
    assert message.source_message_id(empty) is None
    assert message.error_text(empty) is None
    assert message.seq(empty) is None
    assert not message.is_last(empty)
    assert message.addresses(empty) == ()
    assert message.address(empty) == message.source_address(empty) == Address()


def test_the_first_of_repeated_rows_counts() -> None:
    twice = of(
        layout.MessageId(value=1),
        layout.MessageId(value=2),
        layout.Address(kind=30, value="a"),
        layout.Address(kind=30, value="b"),
    )
    assert message.message_id(twice) == 1
    assert message.addresses(twice) == ((30, "a"), (30, "b"))
    assert message.address(twice).service == "a"


def test_a_broken_row_counts_as_absent() -> None:
    broken = BrokenRow(type=0x11, data=b"", code="bad_length", field="message_id", offset=0)
    assert message.message_id(of(broken, layout.MessageId(value=2))) == 2


@pytest.mark.parametrize(
    ("current", "maximum", "last"),
    [(1, 0, False), (3, 3, True), (2, 3, False), (5, 2, False), (0, 0, False), (-1, -1, False)],
)
def test_last_part(current: int, maximum: int, last: bool) -> None:
    part = of(layout.SeqNo(current=current, maximum=maximum))
    assert message.seq(part) == (current, maximum)
    assert message.is_last(part) is last


# -- order and strictness ---------------------------------------------------------------------


@given(st.permutations(ROWS))
def test_ordered_is_stable_and_valid_in_lines(rows: list[Row]) -> None:
    found = message.ordered(of(*rows)).rows
    head = [row for row in rows if message.row_type(row) in message.HEAD_ROWS]
    assert list(found) == head + [row for row in rows if row not in head]
    assert message.check(Message(rows=found), "lines") == ()


def test_unknown_rows_are_never_out_of_order() -> None:
    rows = (OpaqueRow(type=0x80), OpaqueRow(type=0x20), OpaqueRow(type=0x13), Flag(value=4))
    assert message.check(of(*rows), "lines") == ()


@pytest.mark.parametrize("number", sorted(message.SINGLE_ROWS))
def test_a_single_row_that_repeats(number: int) -> None:
    row = next(row for row in ROWS if message.row_type(row) == number)
    for revision in ("frames", "lines"):
        with pytest.raises(DecodeError) as caught:
            message.check(of(row, row), revision)
        assert caught.value.code == "duplicate_row"


def test_row_order_matters_in_lines_only() -> None:
    found = of(layout.Payload(data=b""), Flag(value=4))
    assert message.check(found, "frames") == ()
    with pytest.raises(DecodeError, match="row_order in flag"):
        message.check(found, "lines")


@pytest.mark.parametrize("numbers", [(0, 0), (-1, -1), (5, 2), (1, -1)])
def test_sequence_out_of_range(numbers: tuple[int, int]) -> None:
    with pytest.raises(DecodeError, match="seq_range"):
        message.check(of(layout.SeqNo(current=numbers[0], maximum=numbers[1])), "frames")


def test_a_broken_row_is_the_first_problem() -> None:
    data = bytes.fromhex("160000001e00000000000000")
    with pytest.raises(DecodeError, match=r"varint_truncated in flag\.value.*row 1"):
        message.check(PROTOCOL.decode(data).message, "lines")


def test_lenient_returns_all_problems() -> None:
    row = layout.SeqNo(current=0)
    found = message.check(of(layout.Payload(data=b""), row, row), "lines", strict=False)
    assert [error.code for error in found] == [
        "duplicate_row",
        "row_order",
        "row_order",
        "seq_range",
        "seq_range",
    ]


def test_unknown_revision_names_the_known() -> None:
    with pytest.raises(ValueError, match="frames or lines"):
        message.check(of(), "rows")  # type: ignore[arg-type]


# -- reply ------------------------------------------------------------------------------------


def test_what_a_reply_copies() -> None:
    assert message.reply(of(*ROWS)).rows == (
        Flag(value=FlagType.RESP),
        Flag(value=4),
        layout.SourceMessageId(value=7),
        layout.Address(kind=40, value="h"),
        layout.SessionInfo(name="sid", value=NULL),
    )


def test_a_reply_in_frames_keeps_the_order_of_the_request() -> None:
    session, mid = layout.SessionInfo(name="s", value=NULL), layout.MessageId(value=1)
    found = message.reply(of(session, mid), revision="frames").rows
    assert found == (Flag(value=3), session, layout.SourceMessageId(value=1))


def test_error_and_head_rows_come_second_and_body_rows_last() -> None:
    seq, data = layout.SeqNo(current=1), layout.Payload(data=b"x")
    found = message.reply(flagged(4), error="no", rows=[data, seq], revision="frames").rows
    assert found == (Flag(value=3), layout.Error(value="no"), seq, Flag(value=4), data)


def test_the_reply_to_an_event_has_resp_alone() -> None:
    assert message.flags(message.reply(flagged(6, 1, 7, 200))) == (3,)


def test_all_repeats_are_copied() -> None:
    found = message.reply(of(layout.MessageId(value=1), layout.MessageId(value=2)))
    assert found.rows[1:] == (layout.SourceMessageId(value=1), layout.SourceMessageId(value=2))


def test_a_session_info_that_is_no_var_is_carried_back_as_it_is() -> None:
    raw = bytes.fromhex("1000000e1662726f6b65722d75756964ac02")
    request = PROTOCOL.decode(raw + bytes(4)).message
    assert isinstance(request.rows[0], BrokenRow)
    assert PROTOCOL.encode(message.reply(request))[5:-4] == raw


def test_a_broken_message_id_is_not_copied() -> None:
    request = PROTOCOL.decode(bytes.fromhex("110000010100000000")).message
    assert message.reply(request).rows == (Flag(value=3),)

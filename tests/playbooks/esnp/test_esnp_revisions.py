"""Both revisions, both dialects, and the optional reading of cancelled rows (section 6)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    ASKED,
    EVENT,
    INFO,
    REQUEST,
    RESP,
    TRACE_INFO,
    EsnpPair,
    Taking,
    book,
    closed,
    data,
    failed,
    m,
    mid,
    pair,
    raw,
    smid,
    to,
)
from tests.playbooks.playbook import Emits, EmitsKind, rule

from wirelake.protocols.esnp.layout import Data, OpaqueRow, Payload, SessionInfo, Var, VarType
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.session import Announced, Answered, Traced
from wirelake.protocols.sansio import Role, SessionError

FRAMES = SessionOptions(revision="frames", legacy_rows=True, trace_name="n")


def kind_row(number: int) -> OpaqueRow:
    """MESSAGE_KIND."""
    return OpaqueRow(type=0x13, data=bytes([number]))


TRACE_ROW = OpaqueRow(type=0x19)
TRACE_RESP_ROW = OpaqueRow(type=0x1A)


@pytest.mark.parametrize("revision", ["frames", "lines"])
@pytest.mark.parametrize("dialect", ["seed", "go"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_call_in_every_setting(revision: Any, dialect: Any, strict: bool) -> None:
    options = SessionOptions(revision=revision, dialect=dialect, strict=strict)
    both = pair(options, options)
    items = tuple(Var(type=VarType.INT32, value=n) for n in range(3))
    rows = [Data(name="l", value=Var(type=VarType.LIST, value=items)), *to("test", "sum")]
    both.client.request(rows)
    both.run()
    assert both.called().message.rows[-1] == rows[0]
    both.server.answer(both.called(), [rows[0]])
    ((answered,), _) = both.run().take()
    assert isinstance(answered, Answered)
    assert answered.message.rows[-1] == rows[0]
    assert not both.client.warnings
    assert not both.server.warnings


@rule("esnp.8.7")
def test_the_two_revisions_talk_to_each_other() -> None:
    both: EsnpPair = pair(SessionOptions(revision="frames"), SessionOptions(strict=True))
    both.client.request([data("a", 1), *to("test", "add")])
    both.run()
    both.server.answer(both.called(), [data("c", 1)])
    assert [type(event) for event in both.run().take()[0]] == [Answered]


# -- cancelled rows --------------------------------------------------------------------------


@rule("esnp.8.6")
def test_cancelled_rows_mean_nothing_by_default() -> None:
    for options in (SessionOptions(), SessionOptions(revision="frames", trace_name="n")):
        message = m(kind_row(1), mid(7), TRACE_ROW)
        (book(options) >> message << Emits(Announced(message, raw(message)))).done()


@rule("esnp.8.6")
def test_in_frames_they_can_be_read_as_flags() -> None:
    """The bytes stay what they were."""
    message = m(kind_row(1), TRACE_ROW, mid(7))
    dialogue = book(FRAMES) >> message
    dialogue = dialogue << m(RESP, TRACE_INFO, REQUEST, smid(7), Payload(data=b"n handled"))
    dialogue = dialogue << ASKED >> (lambda s: s.answer(s.taken[0])) << m(RESP, REQUEST, smid(7))
    session = dialogue.done()
    assert isinstance(session, Taking)
    assert session.taken[0].raw == (raw(message),)


@rule("esnp.8.6")
def test_every_kind_and_the_trace_response() -> None:
    dialogue = book(FRAMES, role=Role.CLIENT) >> (lambda s: s.request([])) << m(REQUEST, mid(1))
    report = m(kind_row(2), TRACE_RESP_ROW, smid(1), Payload(data=b"A -> B"))
    dialogue = dialogue >> report << EmitsKind.of(Traced, id=1, text="A -> B")
    dialogue = dialogue >> m(kind_row(2), smid(1)) << EmitsKind.of(Answered, id=1)
    dialogue = dialogue >> m(kind_row(3), mid(5)) << ASKED
    dialogue = dialogue >> (lambda s: s.answer(s.taken[0])) << m(RESP, INFO, smid(5))
    event = m(EVENT)
    (dialogue >> m(kind_row(4)) << Emits(Announced(event, raw(m(kind_row(4)))))).done()


@rule("esnp.8.6")
@pytest.mark.parametrize(
    "odd", [kind_row(0), kind_row(9), OpaqueRow(type=0x13), OpaqueRow(type=0x19, data=b"x")]
)
def test_what_has_no_meaning_stays_bytes(odd: OpaqueRow) -> None:
    message = m(odd)
    (book(FRAMES) >> message << Emits(Announced(message, raw(message)))).done()


@rule("esnp.8.6")
def test_in_lines_they_cannot() -> None:
    with pytest.raises(SessionError, match="requires revision frames"):
        SessionOptions(legacy_rows=True)


# -- session info, broken or not -------------------------------------------------------------


@rule("esnp.3.reply")
def test_a_broken_session_info_is_carried_back_as_it_is() -> None:
    """It may be another's, in a form that only its owner reads."""
    request = raw(m(REQUEST, mid(7)))[:-4] + bytes.fromhex("10000003" + "027805" + "00000000")
    dialogue = book() >> request << ASKED
    session: Any = dialogue.session
    broken = session.taken[0].message.rows[-1]
    (dialogue >> (lambda s: s.answer(s.taken[0])) << m(RESP, REQUEST, smid(7), broken)).done()


@rule("esnp.3.reply")
def test_several_session_infos_of_one_name_all_go_back() -> None:
    infos = tuple(SessionInfo(name="n", value=Var(type=VarType.INT32, value=n)) for n in range(3))
    dialogue = book() >> m(REQUEST, mid(7), infos) << ASKED
    (dialogue >> (lambda s: s.answer(s.taken[0])) << m(RESP, REQUEST, smid(7), infos)).done()


@pytest.mark.parametrize("revision", ["frames", "lines"])
def test_a_broken_frame_ends_both_revisions(revision: Any) -> None:
    dialogue = book(SessionOptions(revision=revision)) >> bytes.fromhex("00000001")
    (dialogue << failed("bad_end") << closed("bad_end")).done()

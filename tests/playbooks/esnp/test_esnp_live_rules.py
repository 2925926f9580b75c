"""Section 8 of the ESNP rules, bullet by bullet (`docs/decisions/esnp.md`, "On a connection").

Bullets 5 (sequences) and 6 (routing) have files of their own.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    ASKED,
    END,
    EVENT,
    INFO,
    REQUEST,
    RESP,
    book,
    data,
    err,
    failed,
    m,
    mid,
    pair,
    raw,
    smid,
    to,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, rule

from wirelake.protocols.esnp.address import Address, format_url, parse_url
from wirelake.protocols.esnp.application import Application
from wirelake.protocols.esnp.layout import Address as AddressRow
from wirelake.protocols.esnp.layout import (
    Data,
    Flag,
    OpaqueRow,
    Payload,
    Row,
    Var,
    VarType,
    Version,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.session import Announced, Answered, CallFailed
from wirelake.protocols.sansio import Role, SessionError
from wirelake.wire.types import Layout, VarI32


def answers(*rows: Any, call: int = -1, **named: Any) -> Any:
    """An answer on a session."""
    return lambda s: s.answer(s.taken[call], rows, **named)


# -- 1: order of replies ---------------------------------------------------------------------


@rule("esnp.8.1")
def test_requests_are_handed_over_one_after_the_other() -> None:
    """So the answers come in the order of arrival, whatever the application does."""
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED >> m(REQUEST, mid(2)) >> m(INFO, mid(3))
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(1)) << ASKED
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(2)) << ASKED
    (dialogue >> answers() << m(RESP, INFO, smid(3))).done()


@rule("esnp.8.1")
def test_events_do_not_wait_for_answers() -> None:
    event = m(EVENT)
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED >> event << Emits(Announced(event, raw(event)))
    (dialogue >> answers() << m(RESP, REQUEST, smid(1))).done()


@rule("esnp.8.1")
def test_an_answer_out_of_turn_is_misuse() -> None:
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED >> answers() << m(RESP, REQUEST, smid(1))
    session: Any = dialogue.done()
    with pytest.raises(SessionError, match="not waiting for a reply"):
        session.answer(session.taken[0])
    assert session.to_send() == b""


# -- 2: MESSAGE_ID ---------------------------------------------------------------------------


@rule("esnp.8.2")
def test_a_duplicate_of_an_id_in_flight_gets_an_error() -> None:
    busy = m(RESP, err("message id 1 is in flight"), REQUEST, smid(1))
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED
    dialogue = dialogue >> m(REQUEST, mid(1)) << failed("bad_args", fatal=False) << busy
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(1))
    (dialogue >> m(REQUEST, mid(1)) << ASKED).done()  # answered, so the id is free again


@rule("esnp.8.2")
def test_a_duplicate_of_an_id_that_waits_for_its_turn_gets_one_too() -> None:
    dialogue = book() >> m(REQUEST, mid(1)) << ASKED >> m(REQUEST, mid(2))
    dialogue = dialogue >> m(REQUEST, mid(2)) << failed("bad_args")
    (dialogue << m(RESP, err("message id 2 is in flight"), REQUEST, smid(2))).done()


@rule("esnp.8.2")
def test_zero_is_read_and_never_written() -> None:
    """It names nothing, so two of them are no duplicate."""
    dialogue = book() >> m(REQUEST, mid(0)) << ASKED >> m(REQUEST, mid(0))
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(0)) << ASKED
    session: Any = dialogue.done()
    with pytest.raises(SessionError, match="other than 0"):
        session.send(m(REQUEST, mid(0)))
    with pytest.raises(SessionError, match="needs a MESSAGE_ID"):
        session.send(m(REQUEST))
    session._next_id = (1 << 64) - 1
    assert [session.new_id(), session.new_id()] == [(1 << 64) - 1, 1]


@rule("esnp.8.2")
def test_our_own_ids_are_unique() -> None:
    dialogue = book(role=Role.CLIENT, first_id=5) >> (lambda s: s.request([])) << m(REQUEST, mid(5))
    session: Any = dialogue.done()
    with pytest.raises(SessionError, match="call 5 is already in flight"):
        session.send(m(REQUEST, mid(5)))
    session._next_id = 5
    assert session.new_id() == 6


# -- 3: to= ----------------------------------------------------------------------------------


@rule("esnp.8.3")
def test_to_is_the_caller_s() -> None:
    """It gives up after that many milliseconds; it is not sent."""
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request_to("esnp://_/test/add?to=1234"))
    dialogue = dialogue << m(REQUEST, mid(1), to("test", "add")) >> At(1.2)
    (dialogue >> At(1.234) << Emits(CallFailed(1, "timeout"))).done()


@rule("esnp.8.3")
@pytest.mark.parametrize("query", ["", "?to=0", "?to=-5", "?to=abc"])
def test_without_a_usable_to_the_default_counts(query: str) -> None:
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request_to(f"esnp://_/test/add{query}"))
    dialogue = dialogue << m(REQUEST, mid(1), to("test", "add")) >> At(4.9)
    (dialogue >> At(5) << Emits(CallFailed(1, "timeout"))).done()


@rule("esnp.8.3")
def test_the_timeout_of_the_caller_overrides_to() -> None:
    dialogue = book(role=Role.CLIENT)
    dialogue = dialogue >> (lambda s: s.request_to("esnp://_/test/add?to=9000", timeout_s=1))
    dialogue = dialogue << m(REQUEST, mid(1), to("test", "add"))
    (dialogue >> At(1) << Emits(CallFailed(1, "timeout"))).done()


# -- 4: URL ----------------------------------------------------------------------------------


@rule("esnp.8.4")
def test_a_named_host_is_sent_and_a_nameless_one_is_not() -> None:
    host = AddressRow(kind=40, value="h:1")
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request_to("esnp://h:1/test/add"))
    dialogue = dialogue << m(REQUEST, mid(1), host, to("test", "add"))
    dialogue = dialogue >> (lambda s: s.request_to("esnp://_/test/add"))
    (dialogue << m(REQUEST, mid(2), to("test", "add"))).done()


@rule("esnp.8.4")
def test_unknown_parameters_are_kept_and_not_sent() -> None:
    url = "esnp://_/test/add?o=17&g=blue&a_35=n1&to=10&colour=red"
    assert format_url(parse_url(url)) == url
    dialogue = book(role=Role.CLIENT) >> (lambda s: s.request_to(parse_url(url)))
    rows = [(50, "blue"), (35, "n1"), (30, "test"), (20, "add"), (10, "17")]
    wanted = m(REQUEST, mid(1), *(AddressRow(kind=kind, value=value) for kind, value in rows))
    (dialogue << wanted).done()


@rule("esnp.8.4", "esnp.class.BadUrl")
def test_what_is_no_url_is_misuse() -> None:
    session: Any = book(role=Role.CLIENT).done()
    with pytest.raises(SessionError, match="bad_url"):
        session.request_to("http://h/test/add")
    with pytest.raises(SessionError, match="bad_url"):
        session.request_to("esnp://%zz/s/o")
    assert (session.calls, session.to_send()) == (0, b"")


@rule("esnp.8.4", "esnp.8.7")
def test_revision_frames_has_no_url() -> None:
    options = SessionOptions(revision="frames")
    dialogue = book(options, role=Role.CLIENT)
    with pytest.raises(SessionError, match="has no URLs"):
        dialogue.session.request_to("esnp://_/test/add")  # type: ignore[attr-defined]
    address = Address(service="test", op="add", timeout_ms=2_000)
    dialogue = dialogue >> (lambda s: s.request_to(address))
    dialogue = dialogue << m(REQUEST, mid(1), to("test", "add"))
    (dialogue >> At(2) << Emits(CallFailed(1, "timeout"))).done()


# -- 7: one listener serves both revisions ---------------------------------------------------


@rule("esnp.8.7", "esnp.class.RowOrder")
def test_a_row_order_that_lines_forbids() -> None:
    """Counted; refused in strict mode alone. Revision frames has no order."""
    mixed = m(data("a", 1), REQUEST, mid(1))
    dialogue = book() >> mixed << ASKED
    assert dialogue.done().warnings == {"row_order": 2}  # type: ignore[attr-defined]
    dialogue = book(SessionOptions(strict=True)) >> mixed << failed("row_order", fatal=False)
    dialogue = dialogue << (lambda found: _error(found).startswith("row_order"))
    (dialogue >> m(REQUEST, mid(2)) << ASKED).done()
    dialogue = book(SessionOptions(revision="frames", strict=True)) >> mixed << ASKED
    assert not dialogue.done().warnings  # type: ignore[attr-defined]


def _error(message: Any) -> str:
    found: str = next(row.value for row in message.rows if type(row).__name__ == "Error")
    return found


@rule("esnp.8.7")
@pytest.mark.parametrize("revision", ["frames", "lines"])
@pytest.mark.parametrize("dialect", ["seed", "go"])
def test_what_we_write_is_ordered_in_both(revision: Any, dialect: Any) -> None:
    options = SessionOptions(revision=revision, dialect=dialect)
    rows = [data("a", 1), OpaqueRow(type=0x80), *to("test", "add")]
    dialogue = book(options, role=Role.CLIENT) >> (lambda s: s.request(rows))
    wanted = m(REQUEST, mid(1), *to("test", "add"), data("a", 1), OpaqueRow(type=0x80))
    dialogue = dialogue << wanted
    dialogue = dialogue >> m(data("x", 1), REQUEST, mid(9)) << ASKED
    (dialogue >> answers(data("y", 2)) << m(RESP, REQUEST, smid(9), data("y", 2))).done()


# -- 8: VERSION ------------------------------------------------------------------------------


def version(major: int) -> Version:
    """VERSION major.0.0.0."""
    return Version(major=major, minor=0, branch=0, variant=0)


@rule("esnp.8.8", "esnp.3.version")
def test_version_is_carried_and_shown() -> None:
    dialogue = book() >> m(REQUEST, mid(1), version(3)) << ASKED
    dialogue = dialogue >> answers() << m(RESP, REQUEST, smid(1))
    session: Any = dialogue.done()
    assert session.taken[0].version == version(3)
    assert (book() >> m(REQUEST) << ASKED).done().taken[0].version is None  # type: ignore[attr-defined]


@rule("esnp.8.8")
def test_a_server_may_require_a_major_version() -> None:
    strict = SessionOptions(require_major=2)
    result = err("expected version 2")
    dialogue = book(strict) >> m(REQUEST, mid(1), version(3)) << failed("bad_version", fatal=False)
    dialogue = dialogue << m(RESP, result, REQUEST, smid(1))
    dialogue = (
        dialogue >> m(INFO, mid(2)) << failed("bad_version") << m(RESP, result, INFO, smid(2))
    )
    dialogue = dialogue >> m(EVENT) << failed("bad_version")  # never answered
    dialogue = dialogue >> m(REQUEST, mid(3), version(2)) << ASKED
    (dialogue >> m(RESP, smid(3)) << failed("unexpected_reply")).done()  # answers have none


@rule("esnp.8.8")
def test_a_caller_may_send_its_version() -> None:
    options = SessionOptions(version=version(2))
    dialogue = book(options, role=Role.CLIENT) >> (lambda s: s.request([]))
    dialogue = dialogue << m(REQUEST, version(2), mid(1))
    (dialogue >> (lambda s: s.announce([])) << m(EVENT, version(2))).done()
    both = pair(options, SessionOptions(require_major=2))
    both.client.request([])
    both.run()
    assert both.called().version == version(2)


# -- 9: a key twice --------------------------------------------------------------------------


@rule("esnp.8.9")
@pytest.mark.parametrize("dialect", ["seed", "go"])
def test_a_map_with_a_repeated_key_keeps_its_pairs(dialect: Any) -> None:
    one, two = (Var(type=VarType.INT32, value=n) for n in (1, 2))
    row = Data(name="k", value=Var(type=VarType.MAP, value=(("a", one), ("b", one), ("a", two))))
    dialogue = book(SessionOptions(dialect=dialect)) >> m(REQUEST, mid(1), row) << ASKED
    session: Any = dialogue.session
    found = session.taken[0].message.rows[-1]
    assert found == row
    assert dict(found.value.value)["a"] == two
    (dialogue >> answers(found) << m(RESP, REQUEST, smid(1), row)).done()


# -- 10: an application's own rows and flags -------------------------------------------------


class Position(Layout):
    """A row of an application."""

    x: VarI32
    """East."""
    y: VarI32
    """North."""


APP = Application(rows={0x80: Position}, flags={128: "URGENT"})


@rule("esnp.8.10")
def test_application_rows_and_flags_pass_through() -> None:
    """What is declared has names; what is not is bytes and numbers."""
    urgent = Flag(value=APP.flag("URGENT"))
    here = APP.row(Position(x=1, y=-2))
    other = OpaqueRow(type=0xFF, data=b"?")
    rows: list[Row] = [urgent, Flag(value=2**31 - 1), here, other]
    both = pair()
    both.client.request(rows)
    both.run()
    message = both.called().message
    assert message.rows == (REQUEST, mid(1), *rows)
    assert APP.read(here) == Position(x=1, y=-2)
    both.server.answer(both.called(), [here])
    ((answered,), _) = both.run().take()
    assert isinstance(answered, Answered)
    assert answered.message.rows[-1] == here


# -- 11: the worked example ------------------------------------------------------------------


@rule("esnp.8.11")
def test_the_document_s_worked_example() -> None:
    """Type 1 with 1000 bytes: carried as bytes, since type 1 is reserved."""
    example = bytes.fromhex("010003e8") + bytes(1_000) + END
    dialogue = (
        book() >> example << Emits(Announced(m(OpaqueRow(type=1, data=bytes(1_000))), example))
    )
    dialogue.done()


@rule("esnp.8.6")
@pytest.mark.parametrize("number", [0x01, 0x0F, 0x13, 0x19, 0x1A, 0x20, 0x7F])
def test_cancelled_and_unknown_rows_are_never_originated(number: int) -> None:
    row = OpaqueRow(type=number)
    dialogue = book() >> m(REQUEST, mid(1), row) << ASKED
    session: Any = dialogue.session
    with pytest.raises(SessionError, match="cannot be sent"):
        session.request([row])
    with pytest.raises(SessionError, match="cannot be sent"):
        session.answer(session.taken[0], [row])
    (dialogue >> answers() << m(RESP, REQUEST, smid(1))).done()


@rule("esnp.8.6")
def test_a_broken_row_is_not_originated_either() -> None:
    dialogue = book() >> bytes.fromhex("11000001ff") + END << EmitsKind.of(Announced)
    session: Any = dialogue.session
    broken = book() >> bytes.fromhex("1e0000010811000001ff") + END << ASKED
    row = broken.session.taken[0].message.rows[-1]  # type: ignore[attr-defined]
    with pytest.raises(SessionError, match="a broken row"):
        session.announce([row])
    (dialogue >> (lambda s: s.announce([Payload(data=b"")])) << EVENT_ONLY).done()


EVENT_ONLY = m(EVENT, Payload(data=b""))

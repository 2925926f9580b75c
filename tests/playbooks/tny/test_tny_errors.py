"""Every class of bad input (§7 of the rules), on live connections: answered, and closed.

The classes have the names that the rules and the vectors give them. Each is tried on a server and
on a client, in the dialects in which it exists, and in one piece as well as byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Eof, rule
from tests.playbooks.tny.peer import (
    CODECS,
    DIALECTS,
    Numbered,
    Peer,
    client_book,
    push,
    request,
    response,
    server_book,
)

from wirelake.conformance.tny import class_of
from wirelake.protocols.sansio import Closed, Failed, Side
from wirelake.protocols.tny.limits import ClientOptions, ServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.session import ClientSession, Pushed, ServerSession, Unmatched
from wirelake.protocols.tny.transform import Dialect, TransformConfig
from wirelake.wire.errors import DecodeError

MOVE = 2002


def packet(payload: bytes, option: int = 0) -> bytes:
    return b"tny." + bytes([option]) + len(payload).to_bytes(4, "little") + payload


def with_message(content: bytes) -> bytes:
    return packet(b"\x01\x01" + content)


def message(dialect: str, **more: Any) -> bytes:
    data: bytes = CODECS[dialect].write_message(push(1, MOVE, **more))
    return data


BROKEN: dict[str, Callable[[str], bytes]] = {
    "bad_magic": lambda _: b"rpk.\x00",
    "reserved_type": lambda d: packet(b"\x01\x01" + message(d), option=3),
    "payload_too_long": lambda _: b"tny.\0\xff\xff\xff\xff",
    "payload_truncated": lambda _: packet(b"\x01"),
    "bad_varint": lambda _: packet(b"\x01" + b"\xff" * 10 + b"\x01"),
    "message_truncated": lambda d: with_message(message(d)[:-1]),
    "body_length": lambda d: with_message(message(d, body=b"hello")[:-1]),
    "header_length": lambda d: with_message(
        message(d, **({"forward_header": b"to"} if d == "seed" else {"headers": (b"to",)}))[:-1]
    ),
    "bad_mode": lambda d: with_message(message(d)[:1] + b"\x03" + message(d)[2:]),
    "trailing_bytes": lambda d: with_message(message(d) + b"\xde\xad"),
}
"""By class: bytes that are broken in that way."""
ROLES: dict[str, Callable[..., Any]] = {"server": server_book, "client": client_book}


@rule(
    "tny.error.bad_magic",
    "tny.error.reserved_type",
    "tny.error.payload_too_long",
    "tny.error.payload_truncated",
    "tny.error.bad_varint",
    "tny.error.message_truncated",
    "tny.error.body_length",
    "tny.error.header_length",
    "tny.error.bad_mode",
    "tny.error.trailing_bytes",
)
@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_bytes_are_answered_153_by_a_server_and_end_the_connection(
    name: str, dialect: Dialect, role: str
) -> None:
    data = BROKEN[name](dialect)
    book = ROLES[role](Peer(dialect)) >> data << EmitsKind.of(Failed, fatal=True, side=Side.REMOTE)
    if role == "server":
        book << push(1, 0, code=ResultCode.DECODE_ERROR)
    book << EmitsKind.of(Closed, side=Side.LOCAL, clean=False)
    session = book.done()
    assert session.closed
    assert session.buffered == 0
    assert session.next_timer() is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_the_error_is_the_one_that_the_class_names_wherever_the_bytes_are_cut(
    name: str, dialect: Dialect
) -> None:
    before = Peer(dialect).encode(push(1, MOVE))
    broken = BROKEN[name](dialect).replace(b"\x01\x01", b"\x01\x02", 1)
    found = set()
    for step in (1, 3, 1000):
        session = ServerSession(ServerOptions(dialect=dialect))
        stream = before + broken
        for start in range(0, len(stream), step):
            session.receive(stream[start : start + step], 0.0)
        pushed, failed, closed = session.events()
        assert isinstance(pushed, Pushed)
        assert isinstance(failed, Failed)
        assert closed == Closed(failed.code, Side.LOCAL, clean=False)
        found.add((failed.code, failed.field, failed.offset))
    ((code, field, offset),) = found
    assert class_of(DecodeError(code, field), relay=False) == name
    assert offset is not None
    assert len(before) <= offset <= len(before) + len(broken)


@rule("tny.error.number_replayed", "tny.error.number_skipped")
@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize(("number", "name"), [(0, "number_replayed"), (31, "number_skipped")])
def test_numbers_out_of_step_close_without_an_answer(number: int, name: str, role: str) -> None:
    (
        ROLES[role]()
        >> Numbered(number, push(1, MOVE))
        << EmitsKind.of(Failed, code=name, field="number", fatal=True)
        << Emits(Closed(name, Side.LOCAL, clean=False))
    ).done()


@rule("tny.error.incomplete")
@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_incomplete_packet_waits_and_is_an_error_at_the_end(role: str, dialect: Dialect) -> None:
    whole = Peer(dialect).encode(push(1, MOVE, b"body"))
    (
        ROLES[role](Peer(dialect))
        >> whole[:-1]
        >> Eof()
        << EmitsKind.of(Failed, code="short", fatal=True)
        << Emits(Closed("eof", Side.REMOTE, clean=False))
    ).done()
    (ROLES[role](Peer(dialect)) >> whole[:-1] >> whole[-1:] << EmitsKind.of(Pushed)).done()


@rule("tny.7.quiet")
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_server_can_close_without_an_answer_as_the_original_does(name: str) -> None:
    (
        server_book(tell_errors=False)
        >> BROKEN[name]("seed")
        << EmitsKind.of(Failed, fatal=True)
        << EmitsKind.of(Closed, clean=False)
    ).done()


@rule("tny.7.lenient")
@pytest.mark.parametrize("dialect", [*DIALECTS, "auto"])
def test_not_strict_reads_what_the_original_reads(dialect: Any) -> None:
    wire_dialect = "seed" if dialect == "auto" else dialect
    for name in ("trailing_bytes", "reserved_type"):
        session = ServerSession(ServerOptions(dialect=dialect, strict=False))
        session.receive(BROKEN[name](wire_dialect), 0.0)
        assert session.events() == [Pushed(push(1, MOVE))]
        client = ClientSession(ClientOptions(dialect=dialect))
        client.receive(BROKEN[name](wire_dialect), 0.0)
        assert client.closed
    session = ServerSession(ServerOptions(dialect=dialect, strict=False))
    session.receive(
        BROKEN["bad_mode"](wire_dialect) + packet(b"\x01\x02" + message(wire_dialect)), 0.0
    )
    failed, pushed = session.events()
    assert isinstance(failed, Failed)
    assert (failed.code, failed.field, failed.fatal) == ("reserved_value", "message.mode", False)
    assert pushed == Pushed(push(1, MOVE))


@pytest.mark.parametrize("role", sorted(ROLES))
def test_an_error_has_its_offset_in_the_stream(role: str) -> None:
    peer = Peer()
    first = peer.encode(push(1, MOVE))
    stray = peer.encode(response(2, request(9, MOVE)))
    start = len(first) + len(stray)
    book = ROLES[role](peer) >> first + stray
    book << EmitsKind.of(Pushed)
    book << EmitsKind.of(Failed, code="unexpected_reply", offset=len(first))
    book << EmitsKind.of(Unmatched)
    book >> Numbered(2, push(3, MOVE))
    book << EmitsKind.of(Failed, code="number_replayed", offset=start + 9) << EmitsKind.of(Closed)
    book.done()
    book = ROLES[role](reading=TransformConfig(verify=True)) >> first
    book << EmitsKind.of(Failed, code="verify_required", offset=4)


def test_after_the_end_nothing_happens_any_more() -> None:
    session = (
        server_book(tell_errors=False)
        >> b"????"
        << EmitsKind.of(Failed, code="bad_magic")
        << EmitsKind.of(Closed)
        >> request(1, MOVE)
        >> Eof()
    ).done()
    session.on_timer(10_000.0)
    assert session.events() == []
    assert session.to_send() == b""


def test_the_answer_is_left_out_when_it_does_not_fit() -> None:
    (
        server_book(max_payload=1)
        >> b"rpk."
        << EmitsKind.of(Failed, code="bad_magic")
        << EmitsKind.of(Closed, reason="bad_magic")
    ).done()

"""Where the document and the original differ (§8 of the rules), and `auto`, which reads both."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Eof, Playbook, rule
from tests.playbooks.tny.peer import (
    CODECS,
    DIALECTS,
    EPOCH_MS,
    Peer,
    client_book,
    filler,
    push,
    request,
    response,
    server_book,
)

from wirelake.protocols.sansio import Closed, Failed, SessionError, Side
from wirelake.protocols.tny.layout import Ping, Pong
from wirelake.protocols.tny.limits import PAYLOAD_LIMITS, ClientOptions, ServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.session import (
    ClientSession,
    DialectSeen,
    Pinged,
    Ponged,
    Pushed,
    Requested,
    ServerSession,
)
from wirelake.protocols.tny.transform import Dialect

MOVE = 2002
PING5, PONG5 = b"tny.\x01", b"tny.\x02"
PING9, PONG9 = PING5 + bytes(4), PONG5 + bytes(4)

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)


def raw_book(dialect: Any, **options: Any) -> Playbook:
    """A dialogue with a server in bytes: what it writes at one time is one thing that it says."""
    session = ServerSession(
        ServerOptions(dialect=dialect, **options), epoch_ms=EPOCH_MS, random=filler
    )
    return Playbook(session, decode=lambda buf, pos, end: (buf[pos:end], end), encode=bytes)


# -- 8.1: ticks ------------------------------------------------------------------------------


@rule("tny.8.1", "tny.11.6")
def test_a_tick_is_nine_bytes_in_seed_and_five_in_upstream() -> None:
    (raw_book("seed") >> PING9 << Emits(Pinged()) << PONG9 >> PONG9 << Emits(Ponged())).done()
    (raw_book("upstream") >> PING5 << Emits(Pinged()) << PONG5 >> PONG5 << Emits(Ponged())).done()


@rule("tny.8.1", "tny.11.6")
def test_seed_waits_for_nine_bytes_and_refuses_a_tick_that_has_no_length() -> None:
    (
        raw_book("seed", tell_errors=False)
        >> PING5
        >> b"tny."
        << EmitsKind.of(Failed, code="bad_length", fatal=True)
        << Emits(Closed("bad_length", Side.LOCAL, clean=False))
    ).done()


@rule("tny.8.1", "tny.11.6")
def test_upstream_answers_at_five_bytes_and_refuses_a_length() -> None:
    (
        raw_book("upstream", tell_errors=False)
        >> PING9
        << Emits(Pinged())
        << PONG5
        << EmitsKind.of(Failed, code="bad_magic", offset=5)
        << Emits(Closed("bad_magic", Side.LOCAL, clean=False))
    ).done()


@rule("tny.8.1", "tny.11.6")
def test_auto_reads_both_forms_and_answers_in_the_peers() -> None:
    (raw_book("auto") >> PING9 << Emits(DialectSeen("seed")) << Emits(Pinged()) << PONG9).done()
    message = Peer("upstream").encode(push(1, MOVE))
    (
        raw_book("auto")
        >> PING5 + message
        << Emits(DialectSeen("upstream"))
        << Emits(Pinged())
        << PONG5
        << Emits(Pushed(push(1, MOVE)))
    ).done()


@rule("tny.8.1", "tny.11.6")
def test_auto_answers_a_lone_ping_of_the_original_at_once() -> None:
    (
        raw_book("auto")
        >> PING5
        << Emits(Pinged())
        << PONG5
        >> PING5
        << Emits(DialectSeen("upstream"))
        << Emits(Pinged())
        << PONG5
        >> Eof()
        << Emits(Closed("eof", Side.REMOTE))
    ).done()


@rule("tny.8.1", "tny.11.6")
@pytest.mark.parametrize("cut", range(5, 9))
def test_auto_gives_its_pong_the_rest_that_the_peers_ping_turns_out_to_have(cut: int) -> None:
    (
        raw_book("auto")
        >> PING9[:cut]
        << Emits(Pinged())
        << PONG5
        >> PING9[cut:]
        << Emits(DialectSeen("seed"))
        << bytes(4)
        >> PING9[:5]  # by now it is known
        << Emits(Pinged())
        << PONG9
        >> PING9[5:]
    ).done()


@rule("tny.8.1", "tny.11.6")
def test_auto_does_not_put_the_rest_of_a_pong_after_something_else() -> None:
    session = ServerSession(ServerOptions(dialect="auto"))
    session.receive(PING5, 0.0)
    session.push(MOVE)
    session.receive(bytes(4), 0.0)
    assert session.to_send().count(b"tny.") == 2
    assert not session.closed
    session.ping()
    assert session.to_send() == PING9


@rule("tny.8.1")
@pytest.mark.parametrize("size", [1, 3, 4, 700])
def test_auto_skips_the_declared_content_of_a_tick_however_it_is_cut(size: int) -> None:
    tick = PONG5 + size.to_bytes(4, "little") + b"tny." * (size // 4) + b"?" * (size % 4)
    stream = tick + Peer().encode(push(1, MOVE))
    for step in (1, 2, 5, len(stream)):
        session = ServerSession(ServerOptions(dialect="auto"))
        for start in range(0, len(stream), step):
            session.receive(stream[start : start + step], 0.0)
            assert session.buffered < 40
        kinds = [type(event) for event in session.events()]
        assert sorted(kinds, key=str) == sorted([DialectSeen, Ponged, Pushed], key=str)


@rule("tny.8.1")
def test_auto_refuses_a_tick_that_declares_more_than_the_limit() -> None:
    (
        raw_book("auto", tell_errors=False, max_payload=100)
        >> PING5 + (101).to_bytes(4, "little")
        << Emits(Pinged())
        << PONG5
        << EmitsKind.of(Failed, code="too_large", offset=5)
        << EmitsKind.of(Closed, reason="too_large")
    ).done()


@rule("tny.8.1")
def test_auto_finds_an_end_in_the_middle_of_a_tick() -> None:
    for rest in (b"\0", (9).to_bytes(4, "little") + b"half"):
        session = ServerSession(ServerOptions(dialect="auto"))
        session.receive(PONG5 + rest, 0.0)
        session.receive_eof()
        assert [e.code for e in session.events() if isinstance(e, Failed)] == ["short"]


@rule("tny.8.1", "tny.11.6")
def test_auto_writes_seed_until_the_dialect_of_the_peer_is_known() -> None:
    session = ClientSession(ClientOptions(dialect="auto"), epoch_ms=EPOCH_MS)
    session.ping()
    assert session.to_send() == PING9
    session.push(MOVE, forward_header=b"to")
    assert session.to_send() == Peer("seed", access_id=0).encode(
        push(1, MOVE, forward_header=b"to")
    )
    session.receive(PONG5 + PONG5, 0.0)
    assert session.dialect == "upstream"
    session.ping()
    assert session.to_send() == PING5
    session.push(MOVE, headers=(b"\x66\0\0\0",))
    written = session.to_send()
    packet, _ = CODECS["upstream"].decode_packet(written, 0, len(written))
    assert packet.body.number == 2  # the context goes on
    message, _ = CODECS["upstream"].read_message(packet.body.content, 0, len(packet.body.content))
    assert message == push(2, MOVE, headers=(b"\x66\0\0\0",))


def test_a_request_of_one_form_is_answered_while_the_other_is_in_use() -> None:
    session = ServerSession(ServerOptions(dialect="auto"), epoch_ms=EPOCH_MS)
    asked = request(1, MOVE, forward_header=b"to")
    session.receive(Peer("seed").encode(asked) + PONG5 + PONG5, 0.0)
    session.respond(asked, b"ok")
    written = session.to_send()
    packet, _ = CODECS["upstream"].decode_packet(written, 0, len(written))
    message, _ = CODECS["upstream"].read_message(packet.body.content, 0, len(packet.body.content))
    assert message == response(1, asked, b"ok", forward_header=None)


# -- 8.2 to 8.10 -----------------------------------------------------------------------------


@rule("tny.8.2")
def test_seed_has_one_forward_header_and_upstream_a_list() -> None:
    one = push(1, MOVE, forward_header=b"\x01\x02")
    several = push(1, MOVE, headers=(b"\x66\0\0\0", b"\x66\0\0\0"))
    (server_book(Peer("seed")) >> one << Emits(Pushed(one))).done()
    (server_book(Peer("upstream")) >> several << EmitsKind.of(Pushed, message=several)).done()
    with pytest.raises(SessionError, match="bad_value"):
        ClientSession().push(MOVE, headers=(b"\x66\0\0\0",))
    with pytest.raises(SessionError, match="bad_value"):
        ClientSession(ClientOptions(dialect="upstream")).push(MOVE, forward_header=b"to")


@rule("tny.8.6")
@both_dialects
def test_fixed_numbers_are_little_endian(dialect: Dialect) -> None:
    peer = Peer(dialect)
    (client_book(peer) >> (lambda s: s.push(MOVE, bytes(300))) << push(1, MOVE, bytes(300))).done()
    assert int.from_bytes(peer.raw[0][5:9], "little") == len(peer.raw[0]) - 9


@rule("tny.8.6")
def test_a_varint_too_wide_is_an_error_in_seed_and_cut_in_upstream() -> None:
    wide = b"\x01" + b"\x81\x80\x80\x80\x80\x01"  # number 1, and a bit beyond the 32nd
    content = CODECS["seed"].write_message(push(1, MOVE))
    payload = wide + content
    data = b"tny.\0" + len(payload).to_bytes(4, "little") + payload
    (
        server_book(Peer("seed"))
        >> data
        << EmitsKind.of(Failed, code="int_range", fatal=True)
        << push(1, 0, code=ResultCode.DECODE_ERROR)
        << EmitsKind.of(Closed, reason="int_range")
    ).done()
    (server_book(Peer("upstream")) >> data << Emits(Pushed(push(1, MOVE)))).done()


@rule("tny.8.6")
@both_dialects
def test_the_payload_limit_is_1_mib_in_seed_and_65535_in_upstream(dialect: Dialect) -> None:
    limit = PAYLOAD_LIMITS[dialect]
    assert limit == {"seed": 1 << 20, "upstream": 65_535}[dialect]
    room = limit - len(Peer(dialect).encode(push(1, MOVE, bytes(limit)))) + 9 + limit
    fits = push(1, MOVE, bytes(room))
    (server_book(Peer(dialect)) >> fits << Emits(Pushed(fits))).done()
    client = ClientSession(ClientOptions(dialect=dialect), access_id=12_345, epoch_ms=EPOCH_MS)
    client.push(MOVE, bytes(room))
    assert len(client.to_send()) == limit + 9
    with pytest.raises(SessionError, match="too_large"):
        client.push(MOVE, bytes(room + 1))
    assert client.next_id == 2  # nothing was used up
    (
        server_book(Peer(dialect))
        >> b"tny.\0" + (limit + 1).to_bytes(4, "little")  # known from the head alone
        << EmitsKind.of(Failed, code="too_large", offset=5)
        << push(1, 0, code=ResultCode.DECODE_ERROR)
        << EmitsKind.of(Closed, reason="too_large")
    ).done()


@rule("tny.8.9")
def test_the_obsolete_design_is_not_supported() -> None:
    (
        server_book(tell_errors=False)
        >> b"tng.\x00\x00"
        << EmitsKind.of(Failed, code="bad_magic", offset=0)
        << EmitsKind.of(Closed, reason="bad_magic")
    ).done()


@both_dialects
def test_a_tick_of_any_role_is_the_dialects(dialect: Dialect) -> None:
    peer = Peer(dialect)
    (client_book(peer) >> Ping() << Emits(Pinged()) << Pong()).done()
    assert peer.raw == [{"seed": PONG9, "upstream": PONG5}[dialect]]


@both_dialects
def test_requests_are_the_same_bytes_in_both_dialects_when_nothing_is_special(
    dialect: Dialect,
) -> None:
    peer = Peer(dialect)
    asked = request(1, MOVE, b"hello")
    (server_book(peer) >> asked << Emits(Requested(asked))).done()
    assert Peer("seed").encode(asked) == Peer("upstream").encode(asked)

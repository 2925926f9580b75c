"""Rules 1 to 12 and 19 of the magline decisions, on live sessions: what is on the wire.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

import pytest
from tests.playbooks.magline.peer import (
    NO_TAG,
    PEER_RANDOM,
    To,
    an_ack,
    dice,
    err,
    fin,
    head,
    new_client,
    new_server,
    open_client,
    open_server,
    refused,
    refused_bare,
    rep,
    req,
)
from tests.playbooks.playbook import At, Emits, EmitsKind, rule

from wirelake.protocols.magline.codec_seed import decode_frame
from wirelake.protocols.magline.handshake import x25519_public
from wirelake.protocols.magline.layout import Ack, ErrorNumber, Pin, Pon, Syn
from wirelake.protocols.magline.session import (
    Established,
    Finished,
    Pinged,
    Refused,
    Replied,
    Reply,
    Request,
    Requested,
    RequestFailed,
    RequestLost,
)
from wirelake.protocols.sansio import Closed, Failed, Side


@rule("magline.1")
def test_1_big_endian() -> None:
    """A little-endian SYN reads as a command that does not exist."""
    body = PEER_RANDOM + x25519_public(bytes([5]) * 32)
    for opened in (new_server()[1], new_client()[1]):
        frame = head(length=64, order="<") + body
        refused_bare(opened, frame, "unknown_type", ErrorNumber.UNKNOWN_CMD)
    peer, _ = new_client()
    assert peer.frames[0][:16] == bytes.fromhex("7f66 0001 0000 0000 00000001 00000040")


@rule("magline.2")
@pytest.mark.parametrize("magic", [0x00, 0x16, 0x7D, 0x80, 0xFF])
def test_2_magic_is_refused_on_the_first_byte(magic: int) -> None:
    for _, book in (new_server(), new_client()):
        refused_bare(book, bytes([magic]), "bad_magic", ErrorNumber.BAD_FRAME, offset=0)


@rule("magline.2")
def test_2_magic_must_agree_with_the_command() -> None:
    frame = head(magic=0x7E, length=64) + bytes(64)
    refused_bare(new_server()[1], frame, "magic_mismatch", ErrorNumber.BAD_FRAME)
    frame = head(magic=0x7F, cmd=6, seq=2, length=20) + bytes(20)
    refused(open_server()[1], frame, "magic_mismatch", ErrorNumber.BAD_FRAME)


@rule("magline.3")
@pytest.mark.parametrize("version", [1, 101, 0x67])
def test_3_version_is_refused_on_the_second_byte(version: int) -> None:
    for _, book in (new_server(), new_client()):
        book >> b"\x7f"  # the two bytes come apart
        second = bytes([version])
        refused_bare(book, second, "bad_version", ErrorNumber.BAD_VERSION, offset=1)


@rule("magline.4")
def test_4_random_has_32_bytes() -> None:
    """Rows of 4 bytes, as the drawing shows them, are refused; our own SYN has 32."""
    frame = head(length=8) + bytes(8)
    refused_bare(new_server()[1], frame, "bad_length", ErrorNumber.BAD_FRAME)
    peer, _ = new_client()
    draw = dice("client")
    draw(32)
    body = decode_frame(peer.frames[0], 0, len(peer.frames[0]))[0].body
    assert isinstance(body, Syn)
    assert body.random == draw(32)


@rule("magline.5")
@pytest.mark.parametrize("size", [31, 33])
def test_5_public_key_has_32_raw_bytes(size: int) -> None:
    frame = head(length=32 + size) + bytes(32 + size)
    refused_bare(new_server()[1], frame, "bad_length", ErrorNumber.BAD_FRAME)
    peer, _ = new_client()
    body = decode_frame(peer.frames[0], 0, len(peer.frames[0]))[0].body
    assert isinstance(body, Syn)
    assert body.public_key == x25519_public(dice("client")(32))


@rule("magline.6")
def test_6_hmac_has_16_bytes_and_each_counts() -> None:
    frame = head(magic=0x7E, cmd=6, seq=2, length=19) + bytes(19)
    refused(open_server()[1], frame, "bad_length", ErrorNumber.BAD_FRAME)
    for at in range(20, 36):
        peer, book = open_server()
        sealed = bytearray(peer.encode(req(7, b"data")))
        sealed[at] ^= 1
        refused(book, bytes(sealed), "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.7")
def test_7_the_session_id_is_sealed_and_k_is_never_sent() -> None:
    peer, _ = open_server()
    assert peer.keys is not None
    ack = peer.frames[0]
    assert len(ack) == 16 + 96
    for secret in (peer.keys.k, peer.keys.nk, peer.keys.prk, peer.sid):
        assert secret not in ack


@rule("magline.8")
def test_8_the_servers_random_is_in_clear() -> None:
    peer, _ = open_server()
    body = decode_frame(peer.frames[0], 0, 112)[0].body
    draw = dice("server")
    draw(32)
    assert isinstance(body, Ack)
    assert body.random == draw(32)


@rule("magline.9")
def test_9_the_session_id_is_16_random_bytes() -> None:
    peer, _ = open_server()
    draw = dice("server")
    draw(32)
    draw(32)
    assert peer.sid == draw(16)
    assert open_server(seed="other")[0].sid != peer.sid


@rule("magline.10")
def test_10_head_length_is_the_size_of_the_options() -> None:
    """Neither the head itself (16) nor the fixed part of a body (20) belongs to it."""
    frame = head(cmd=4, head_length=16, seq=2, length=4) + bytes(4)
    refused(open_server()[1], frame, "bad_header", ErrorNumber.BAD_FRAME)
    frame = head(magic=0x7E, cmd=6, head_length=20, seq=2, length=20) + bytes(20)
    refused(open_server()[1], frame, "bad_header", ErrorNumber.BAD_FRAME)
    peer, book = open_client()
    book >> (lambda s: s.send(Request(1))) << req(1)
    assert peer.frames[-1][6:8] == b"\0\0"


@rule("magline.11")
def test_11_message_length_includes_the_options() -> None:
    peer, book = open_client()
    book >> (lambda s: s.ping()) << Pin(ping_number=1)
    pin = peer.frames[-1]
    assert int.from_bytes(pin[12:16], "big") == len(pin) - 16 == 2 + 16 + 4
    assert int.from_bytes(pin[6:8], "big") == 2 + 16


@rule("magline.12")
def test_12_replies_have_their_own_seq_and_name_the_request() -> None:
    peer, book = open_server()
    book >> req(1, b"a") << Emits(Requested(2, 1, b"a"))
    book >> req(1, b"b") << Emits(Requested(3, 1, b"b"))
    book >> (lambda s: s.send(Reply(3, b"B"))) << To(3, rep(1, b"B"))
    book >> (lambda s: s.send(Reply(2, b"A"))) << To(2, rep(1, b"A"))
    book.done()
    assert [int.from_bytes(frame[8:12], "big") for frame in peer.frames] == [1, 2, 3]


@rule("magline.12")
def test_12_reply_to_decides_else_first_in_first_out_per_command() -> None:
    _, book = open_client()
    for cmd in (1, 2, 1, 2):
        book >> (lambda s, cmd=cmd: s.send(Request(cmd))) << req(cmd)
    book >> To(4, rep(1, b"second")) << Emits(Replied(4, 1, b"second"))
    book >> rep(2, b"first of 2") << Emits(Replied(3, 2, b"first of 2"))
    book >> rep(1, b"first of 1") << Emits(Replied(2, 1, b"first of 1"))
    book >> err(ErrorNumber.BUSINESS, 2)
    book << Emits(RequestFailed(5, 2, ErrorNumber.BUSINESS))
    book.done()


@rule("magline.12")
def test_12_an_answer_to_nothing_is_a_fault_and_no_more() -> None:
    _, book = open_client()
    book >> (lambda s: s.send(Request(1))) << req(1)
    for answer in (rep(9), To(77, rep(1)), To(2, rep(9)), To(77, err(15, 1)), err(15, 9)):
        book >> answer << EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
    book >> To(2, rep(1)) << Emits(Replied(2, 1, b""))
    book >> To(2, rep(1)) << EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
    assert book.done().state == "open"


@rule("magline.12")
def test_12_a_late_answer_is_not_taken_for_the_next_one() -> None:
    _, book = open_client()
    book >> (lambda s: s.send(Request(1, timeout_s=5))) << req(1)
    book >> At(5) << Emits(RequestLost(2, 1, "timeout"))
    book >> (lambda s: s.send(Request(1))) << req(1)
    book >> rep(1, b"late") << EmitsKind.of(Failed, code="unexpected_reply", fatal=False)
    book >> rep(1, b"mine") << Emits(Replied(3, 1, b"mine"))
    book.done()


@rule("magline.19")
def test_19_business_cmd_is_in_clear_and_authenticated() -> None:
    peer, book = open_client()
    book >> (lambda s: s.send(Request(0xCAFE, b"secret words"))) << req(0xCAFE, b"secret words")
    assert peer.frames[-1][16:20] == b"\0\0\xca\xfe"
    assert b"secret" not in peer.frames[-1]
    client, book = open_server()
    forged = bytearray(client.encode(req(0xCAFE, b"secret words")))
    forged[19] ^= 1
    refused(book, bytes(forged), "bad_record", ErrorNumber.BAD_RECORD)


# -- Seq (section 2) -------------------------------------------------------------------------


@rule("magline.seq")
@pytest.mark.parametrize("first", [0, 1, 2, 0x7FFF_FFFF])
def test_seq_the_first_is_taken_as_given_then_exactly_the_next(first: int) -> None:
    peer, book = new_server()
    peer.seq = first - 1
    book >> peer.syn() << an_ack << EmitsKind.of(Established)
    book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
    book >> req(5) << Emits(Requested(first + 2, 5, b""))
    book.done()


@rule("magline.seq")
def test_seq_a_first_value_from_2_to_the_31_on_is_refused() -> None:
    peer, book = new_server()
    peer.seq = (1 << 31) - 1
    refused_bare(book, peer.syn(), "bad_record", ErrorNumber.BAD_RECORD)


@rule("magline.seq")
@pytest.mark.parametrize("step", [-1, 1])
def test_seq_every_frame_counts(step: int) -> None:
    """A control frame that is skipped or repeated shows like any other."""
    peer, book = open_server()
    book >> Pin(ping_number=1) << Pon(ping_number=1) << Emits(Pinged(1))
    peer.seq += step
    refused(book, peer.encode(Pin(ping_number=2)), "bad_record", ErrorNumber.BAD_RECORD)
    server, book = open_client()
    server.seq += step
    refused(book, server.encode(Pon(ping_number=2)), "bad_record", ErrorNumber.BAD_RECORD)


# -- options (section 2) ---------------------------------------------------------------------


@rule("magline.options")
def test_options_unknown_low_bits_are_skipped() -> None:
    peer, book = open_server()
    option = b"\0\x03abc"
    frame = head(cmd=4, optional=0x10, head_length=5, seq=2, length=9) + option + b"\0\0\0\x05"
    peer.seq += 1
    book >> frame << Pon(ping_number=5) << Emits(Pinged(5, trusted=False))
    book.done()


@rule("magline.options")
def test_options_a_tag_is_checked_between_any_other_options() -> None:
    peer, book = open_client()
    assert peer.sealer is not None
    options = b"\0\x10" + NO_TAG + b"\0\x04\0\0\0\x09" + b"\0\x01x"
    frame = head(cmd=3, optional=0x0013, head_length=len(options), seq=2, length=27 + 8)
    frame += options + bytes(4) + b"\0\0\0\x10"
    book >> peer.sealer.seal_control(frame) << Emits(Refused(16))
    peer.seq += 1
    book >> fin(10) << Emits(Finished(10)) << Emits(Closed("internal", Side.REMOTE, clean=False))
    book.done()


@rule("magline.options")
@pytest.mark.parametrize(
    ("cmd", "optional"), [(4, 0x8000), (4, 0x0100), (4, 0x0200), (1, 0x0001), (1, 0x0400), (6, 1)]
)
def test_options_critical_or_misplaced_ones_are_refused(cmd: int, optional: int) -> None:
    magic = 0x7E if cmd == 6 else 0x7F
    frame = head(magic=magic, cmd=cmd, optional=optional, head_length=2, length=66) + bytes(66)
    refused_bare(new_server()[1], frame, "bad_option", ErrorNumber.BAD_OPTION)

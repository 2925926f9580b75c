"""Seed 003: the drawing of the head, the table of commands, the drawing of each body."""

from __future__ import annotations

import pytest

from wirelake.protocols.magline import layout
from wirelake.protocols.magline.layout import CONTROL, DATA, VERSION, Cmd, Frame
from wirelake.protocols.magline.protocol import PROTOCOL
from wirelake.wire.errors import DecodeError

HMAC = bytes(range(16))
RANDOM, KEY, SEALED = b"R" * 32, b"K" * 32, b"S" * 32

BODIES: dict[Cmd, tuple[int, layout.Frame, bytes]] = {
    Cmd.SYN: (
        0x1,
        Frame(seq=1, body=layout.Syn(random=RANDOM, public_key=KEY)),
        RANDOM + KEY,
    ),
    Cmd.ACK: (
        0x2,
        Frame(seq=1, body=layout.Ack(random=RANDOM, public_key=KEY, sealed_sid=SEALED)),
        RANDOM + KEY + SEALED,
    ),
    Cmd.ERR: (
        0x3,
        Frame(seq=1, body=layout.Err(business_cmd=5, error_number=6)),
        bytes([0, 0, 0, 5, 0, 0, 0, 6]),
    ),
    Cmd.PIN: (0x4, Frame(seq=1, body=layout.Pin(ping_number=258)), bytes([0, 0, 1, 2])),
    Cmd.PON: (0x5, Frame(seq=1, body=layout.Pon(ping_number=258)), bytes([0, 0, 1, 2])),
    Cmd.REQ: (
        0x6,
        Frame(seq=1, body=layout.Req(business_cmd=7, hmac=HMAC, data=b"data")),
        bytes([0, 0, 0, 7]) + HMAC + b"data",
    ),
    Cmd.REP: (
        0x7,
        Frame(seq=1, body=layout.Rep(business_cmd=7, hmac=HMAC, data=b"data")),
        bytes([0, 0, 0, 7]) + HMAC + b"data",
    ),
    Cmd.PSH: (
        0x8,
        Frame(seq=1, body=layout.Psh(business_cmd=7, hmac=HMAC, data=b"data")),
        bytes([0, 0, 0, 7]) + HMAC + b"data",
    ),
    Cmd.FIN: (0x9, Frame(seq=1, body=layout.Fin(reason_number=3)), bytes([0, 0, 0, 3])),
}


@pytest.mark.parametrize("cmd", list(Cmd), ids=lambda cmd: cmd.name)
def test_command_number_and_body(cmd: Cmd) -> None:
    number, frame, body = BODIES[cmd]
    data = PROTOCOL.encode(frame)
    assert cmd == number == int.from_bytes(data[2:4], "big")
    assert data[16:] == body
    assert PROTOCOL.decode(data) == (frame, len(data))


@pytest.mark.parametrize("cmd", list(Cmd), ids=lambda cmd: cmd.name)
def test_the_magic_distinguishes_control_from_data(cmd: Cmd) -> None:
    data = PROTOCOL.encode(BODIES[cmd][1])
    wanted = DATA if cmd in (Cmd.REQ, Cmd.REP, Cmd.PSH) else CONTROL
    assert data[0] == wanted
    with pytest.raises(DecodeError, match="magic_mismatch"):
        PROTOCOL.decode(bytes([CONTROL + DATA - wanted]) + data[1:])


def test_there_are_nine_commands() -> None:
    names = ["SYN", "ACK", "ERR", "PIN", "PON", "REQ", "REP", "PSH", "FIN"]
    assert [cmd.name for cmd in Cmd] == names


@pytest.mark.parametrize("number", [0, 10, 0x0100])
def test_no_other_command(number: int) -> None:
    data = PROTOCOL.encode(BODIES[Cmd.PIN][1])
    with pytest.raises(DecodeError, match="unknown_type"):
        PROTOCOL.decode(data[:2] + number.to_bytes(2, "big") + data[4:])


# -- frame head: the drawing ------------------------------------------------------------------


def head() -> bytes:
    frame = Frame(seq=0x01020304, reply_to=9, body=layout.Err(business_cmd=1, error_number=2))
    return PROTOCOL.encode(frame)[:16]


@pytest.mark.parametrize(
    ("field", "start", "stop", "value"),
    [
        ("Magic", 0, 1, CONTROL),
        ("Version", 1, 2, VERSION),
        ("CMD", 2, 4, Cmd.ERR),
        ("Head Optional", 4, 6, 0x0002),
        ("Head Length", 6, 8, 6),
        ("Seq", 8, 12, 0x01020304),
        ("Message Length", 12, 16, 6 + 8),
    ],
)
def test_head_field_where_the_drawing_has_it(field: str, start: int, stop: int, value: int) -> None:
    del field
    assert int.from_bytes(head()[start:stop], "big") == value


def test_the_head_has_16_bytes() -> None:
    bare = PROTOCOL.encode(BODIES[Cmd.PIN][1])
    assert len(bare) == 16 + 4


def test_msg_header_is_between_head_and_body() -> None:
    frame = Frame(seq=1, reply_to=9, body=layout.Err(business_cmd=1, error_number=2))
    data = PROTOCOL.encode(frame)
    assert data[16:22] == bytes([0, 4, 0, 0, 0, 9])
    assert data[22:] == bytes([0, 0, 0, 1, 0, 0, 0, 2])


# -- bodies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cmd", "size"), [("SYN", 64), ("ACK", 96), ("ERR", 8), ("PIN", 4), ("PON", 4), ("FIN", 4)]
)
def test_fixed_body_has_its_size_and_no_other(cmd: str, size: int) -> None:
    data = PROTOCOL.encode(BODIES[Cmd[cmd]][1])
    assert len(data) == 16 + size
    for other in (size - 1, size + 1):
        cut = data[:12] + other.to_bytes(4, "big") + data[16:]
        with pytest.raises(DecodeError, match="bad_length"):
            PROTOCOL.decode(cut + bytes(4))


@pytest.mark.parametrize("cmd", ["REQ", "REP", "PSH"])
def test_data_may_be_empty_and_business_cmd_and_hmac_may_not(cmd: str) -> None:
    data = PROTOCOL.encode(BODIES[Cmd[cmd]][1])[:16]
    empty = data[:12] + (20).to_bytes(4, "big") + bytes(20)
    assert PROTOCOL.decode(empty).message.body.data == b""
    with pytest.raises(DecodeError, match="bad_length"):
        PROTOCOL.decode(data[:12] + (19).to_bytes(4, "big") + bytes(19))


def test_pong_carries_the_number_of_the_ping() -> None:
    ping, pong = (PROTOCOL.encode(BODIES[cmd][1])[16:] for cmd in (Cmd.PIN, Cmd.PON))
    assert ping == pong

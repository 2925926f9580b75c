"""A protocol as a whole: dialects, directions, limits, and what escapes from it."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.protocols.comet.layout import Auth, ErrorCode, Heartbeat, Notification, Ok
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.layout import Data, Message, Payload, Var, VarType
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.layout import Frame, Pin, Syn
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.protocols.tny.layout import Envelope, Packet, Ping
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import Decoded, DecodeError, EncodeError, Layout, NeedMore, Protocol
from wirelake.wire.types import U8, Bytes4Fixed, Length16, Only, Rest


class Small(Layout):
    length: ClassVar[Length16]
    n: U8
    old: Annotated[U8, Only("old")] = 0
    rest: Rest = b""


SMALL = Protocol(
    name="throwaway-protocol",
    title="Two dialects",
    frame=Small,
    dialects=("new", "old"),
    port=1,
)


def test_a_protocol_describes_itself() -> None:
    assert repr(COMET) == "<Protocol comet>"
    assert COMET.title == "comet: mobile push"
    assert COMET.doc.startswith("comet, mobile push")
    assert (SMALL.name, SMALL.port, SMALL.more) == ("throwaway-protocol", 1, ())


def test_the_first_dialect_is_the_default() -> None:
    assert SMALL.dialect(None) == "new"
    assert SMALL.dialect("old") == "old"
    assert SMALL.encode(Small(n=1)) == b"\0\1\1"
    assert SMALL.encode(Small(n=1, old=2), dialect="old") == b"\0\2\1\2"
    with pytest.raises(EncodeError) as caught:
        SMALL.encode(Small(n=1, old=2))
    assert (caught.value.code, caught.value.field) == ("bad_value", "small.old")
    assert SMALL.decode(b"\0\2\1\2").message == Small(n=1, rest=b"\2")
    assert SMALL.decode(b"\0\2\1\2", dialect="old").message == Small(n=1, old=2)


@pytest.mark.parametrize(
    "ask",
    [
        SMALL.dialect,
        SMALL.model,
        SMALL.layouts,
        SMALL.codec,
        lambda name: SMALL.decode(b"", dialect=name),
        lambda name: SMALL.encode(Small(n=1), dialect=name),
        lambda name: SMALL.scan(b"", dialect=name),
    ],
)
def test_an_unknown_dialect_names_the_others(ask: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown dialect 'x' of .*; expected one of new, old"):
        ask("x")


def test_layouts_begin_with_the_frame() -> None:
    names = [layout.name for layout in COMET.layouts()]
    assert names[0] == COMET.model().name == "frame"
    assert "message" in names
    assert len(names) == len(set(names))


def test_a_codec_is_loaded_once() -> None:
    assert SMALL.codec() is SMALL.codec("new")
    assert SMALL.codec("old") is not SMALL.codec("new")


@pytest.mark.parametrize("name", BUILT_IN)
def test_which_protocols_need_a_direction(name: str) -> None:
    assert find(name).directed == (name == "comet")


def test_the_direction_is_required_where_it_matters() -> None:
    data = b"\0\1\0"
    assert COMET.decode(data, direction="s2c") == Decoded(Ok(), 3)
    with pytest.raises(DecodeError):
        COMET.decode(data, direction="c2s")
    for direction in (None, "up", ""):
        with pytest.raises(ValueError, match="requires a direction: c2s"):
            COMET.decode(data, direction=direction)  # type: ignore[arg-type]


def test_the_direction_is_accepted_where_it_does_not_matter() -> None:
    data = TNY.encode(Packet(body=Ping()))
    assert TNY.decode(data, direction="c2s") == TNY.decode(data)


def test_decoding_starts_at_the_given_position() -> None:
    data = COMET.encode(Heartbeat())
    message, stop = COMET.decode(b"junk" + data + b"more", 4, direction="c2s")
    assert (message, stop) == (Heartbeat(), 4 + len(data))
    assert COMET.scan(b"junk" + data + b"more", 4) == stop
    with pytest.raises(NeedMore):
        COMET.decode(data, len(data), direction="c2s")


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_bytes_are_taken(kind: Any) -> None:
    data = COMET.encode(Auth(client_id="c", token="t"))
    message = COMET.decode(kind(data), direction="c2s").message
    assert message == Auth(client_id="c", token="t")
    assert COMET.scan(kind(data)) == len(data)


def test_a_limit_is_the_callers() -> None:
    data = TNY.encode(Packet(body=Envelope(access_id=1, number=1, content=bytes(100))))
    assert TNY.decode(data, limit=102).stop == len(data)
    with pytest.raises(DecodeError) as caught:
        TNY.decode(data, limit=101)
    assert caught.value.code == "too_large"
    with pytest.raises(DecodeError):
        TNY.scan(data, limit=101)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (COMET, None),
        (COMET, 5),
        (COMET, ErrorCode.TOKEN_ILLEGAL),
        (COMET, Ping()),
        (COMET, Auth(client_id=5, token="")),  # type: ignore[arg-type]
        (COMET, Auth(client_id=b"x", token="")),  # type: ignore[arg-type]
        (COMET, Notification(msg_type="1", msg_id="")),  # type: ignore[arg-type]
        (COMET, Notification(msg_type=1, msg_id="", content="x")),  # type: ignore[arg-type]
        (TNY, Heartbeat()),
        (TNY, Packet(body=None)),  # type: ignore[arg-type]
        (TNY, Packet(reserved=None, body=Ping())),  # type: ignore[arg-type]
        (TNY, Packet(reserved=1.5, body=Ping())),  # type: ignore[arg-type]
        (TNY, Packet(body=Envelope(access_id="1", number=1, content=b""))),  # type: ignore[arg-type]
        (RELAY, Ping()),
        (MAGLINE, Frame(seq=1, body=Syn(random="x" * 32, public_key=bytes(32)))),  # type: ignore[arg-type]
        (MAGLINE, Frame(seq=1, body=Syn(random=None, public_key=bytes(32)))),  # type: ignore[arg-type]
        (MAGLINE, Frame(seq="1", body=Pin(ping_number=1))),  # type: ignore[arg-type]
        (MAGLINE, Frame(seq=1, unknown_options=5, body=Pin(ping_number=1))),  # type: ignore[arg-type]
        (ESNP, Message(rows=5)),  # type: ignore[arg-type]
        (ESNP, Message(rows=(Payload(data="x"),))),  # type: ignore[arg-type]
        (ESNP, Message(rows=(Data(name="n", value=None),))),  # type: ignore[arg-type]
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.LIST, value=5)),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.MAP, value=(1,))),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.LEN_BYTES, value=5)),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.FLOAT64, value="x")),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.FLOAT64, value=10**400)),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.FLOAT32, value=10**400)),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=VarType.INT8, value="x")),))),
        (ESNP, Message(rows=(Data(name="n", value=Var(type=[1])),))),  # type: ignore[arg-type]
    ],
)
def test_nothing_but_an_encode_error_escapes_an_encoder(protocol: Protocol, message: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        protocol.encode(message)
    assert caught.value.code in {"bad_value", "int_range"}
    assert caught.value.field


class Key(Layout):
    """One piece: what is given is what is written."""

    key: Bytes4Fixed


KEY = Protocol(name="throwaway-key", title="One field", frame=Key)


@pytest.mark.parametrize("given", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd")])
def test_the_result_is_always_bytes(given: Any) -> None:
    written = KEY.encode(Key(key=given))
    assert type(written) is bytes
    assert written == b"abcd"


@pytest.mark.parametrize("given", ["abcd", [1, 2, 3, 4], None, 4])
def test_the_result_is_bytes(given: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        KEY.encode(Key(key=given))
    assert caught.value.code == "bad_value"


def test_every_declared_layout_can_be_built_in_every_dialect() -> None:
    for name in BUILT_IN:
        protocol = find(name)
        for dialect in protocol.dialects:
            assert all(layout.dialect == dialect for layout in protocol.layouts(dialect))


def test_importing_a_protocol_is_cheap() -> None:
    """A layout module loads neither its codec, nor the generator, nor any view."""
    code = (
        "import sys, wirelake.protocols.comet.layout\n"
        "print([name for name in sys.modules if name.startswith('wirelake.wire.generate')"
        " or '.views' in name or 'codec' in name and 'wirelake' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Seed 002: each field, option bit and type of the Message packet and of the RelayPack."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wirelake.protocols.tny import layout
from wirelake.protocols.tny.layout import (
    Envelope,
    Message,
    Mode,
    Packet,
    PacketType,
    Ping,
    Pong,
    RelayPacket,
    RelayType,
)
from wirelake.protocols.tny.message import decode_message, encode_message
from wirelake.protocols.tny.protocol import PROTOCOL, RELAY
from wirelake.protocols.tny.transform import PacketContext, TransformConfig
from wirelake.wire.errors import DecodeError, EncodeError

MESSAGE = Message(id=1, protocol=1001, code=100, to_message=0, time=5, body=b"hi")
PLAIN = encode_message(MESSAGE)


def packet(**options: Any) -> Packet:
    return Packet(**options, body=Envelope(access_id=1, number=2, content=PLAIN))


def both_ways(value: Packet) -> bytes:
    data = PROTOCOL.encode(value)
    assert PROTOCOL.decode(data) == (value, len(data))
    return data


# -- 网络包封包 -------------------------------------------------------------------------------


def test_head_is_tny_dot_in_four_bytes() -> None:
    assert both_ways(packet())[:4] == b"tny."


def test_option_is_one_byte_and_payload_length_four() -> None:
    data = both_ways(packet())
    payload = data[9:]
    assert data[4] == 0
    assert int.from_bytes(data[5:9], "little") == len(payload) == 2 + len(PLAIN)


@pytest.mark.parametrize(
    ("name", "bit"), [("verify", 0b00100), ("encrypt", 0b01000), ("waste", 0b10000)]
)
def test_option_bit(name: str, bit: int) -> None:
    assert both_ways(packet(**{name: True}))[4] == bit
    assert both_ways(packet())[4] & bit == 0


def test_option_bits_5_to_7_are_zero_and_carried() -> None:
    assert both_ways(packet())[4] >> 5 == 0
    assert both_ways(packet(reserved=0b101))[4] >> 5 == 0b101


@pytest.mark.parametrize(
    ("number", "name", "body"), [(1, "PING", Ping()), (2, "PONG", Pong())], ids=["ping", "pong"]
)
def test_type_of_a_tick(number: int, name: str, body: Ping | Pong) -> None:
    assert PacketType[name] == number
    assert both_ways(Packet(body=body)) == b"tny." + bytes([number]) + bytes(4)


def test_type_0_is_a_message() -> None:
    assert PacketType.MESSAGE == 0
    assert isinstance(PROTOCOL.decode(both_ways(packet())).message.body, Envelope)


def test_type_3_is_not_defined() -> None:
    with pytest.raises(DecodeError, match="unknown_type"):
        PROTOCOL.decode(b"tny.\x03" + bytes(4))


# -- PayLoad编码 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access_id", "number", "data"),
    [(1, 1, "0101"), (300, 128, "ac028001"), (-1, 1, "ffffffffffffffffff0101")],
)
def test_access_id_and_number_take_as_many_bytes_as_they_need(
    access_id: int, number: int, data: str
) -> None:
    body = Envelope(access_id=access_id, number=number, content=b"")
    assert both_ways(Packet(body=body))[9:].hex() == data


def sealed(**options: bool) -> tuple[bytes, bytes]:
    """The content of a first packet with some options, and its message."""
    config = TransformConfig(("throw-away",), **options)
    content = PacketContext("seed", config).seal(1, PLAIN, random=lambda size: b"\xee" * size)
    opened = PacketContext("seed", config).open(1, 1, content.content, **_bits(options))
    assert opened == PLAIN
    return content.content, opened


def _bits(options: dict[str, bool]) -> dict[str, bool]:
    return {name: options.get(name, False) for name in ("waste", "encrypt", "verify")}


def test_check_code_is_four_bytes_after_the_message() -> None:
    content, _ = sealed(verify=True)
    assert content[:-4] == PLAIN
    assert len(content) == len(PLAIN) + 4


def test_waste_bytes_surround_the_message() -> None:
    content, _ = sealed(waste=True)
    assert PLAIN in content
    assert set(content.replace(PLAIN, b"")) == {0xEE}


def test_encrypted_message_is_not_the_message_but_as_long() -> None:
    content, _ = sealed(encrypt=True)
    assert content != PLAIN
    assert len(content) == len(PLAIN)


def test_number_starts_at_1_and_starts_again_on_a_new_connection() -> None:
    numbers = []
    for _ in range(2):
        context = PacketContext("seed")
        numbers += [context.seal(1, PLAIN, random=bytes).number for _ in range(3)]
    assert numbers == [1, 2, 3, 1, 2, 3]


# -- Message编码 ------------------------------------------------------------------------------


def test_fields_in_their_order() -> None:
    message = Message(
        id=1,
        mode=Mode.RESPONSE,
        protocol=2,
        code=3,
        to_message=4,
        time=5,
        forward_header=b"FF",
        body=b"B",
    )
    data = encode_message(message)
    assert data == bytes([1, 0b0100_0101, 2, 3, 4, 5, 2]) + b"FF" + bytes([1]) + b"B"
    assert decode_message(data) == message


@pytest.mark.parametrize(("number", "name"), [(0, "REQUEST"), (1, "RESPONSE"), (2, "PUSH")])
def test_mode(number: int, name: str) -> None:
    data = encode_message(msgspec.structs.replace(MESSAGE, mode=Mode[name]))
    assert data[1] & 0b11 == Mode[name] == number


def test_mode_3_is_not_defined() -> None:
    with pytest.raises(DecodeError, match="reserved_value"):
        decode_message(bytes([1, 3, 0, 0, 0, 0]))
    with pytest.raises(EncodeError):
        encode_message(msgspec.structs.replace(MESSAGE, mode=3))


@pytest.mark.parametrize("line", range(8))
def test_line_has_three_bits(line: int) -> None:
    message = msgspec.structs.replace(MESSAGE, line=line)
    data = encode_message(message)
    assert data[1] >> 3 & 0b111 == line
    assert decode_message(data) == message


def test_line_8_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        encode_message(msgspec.structs.replace(MESSAGE, line=8))


@pytest.mark.parametrize(
    ("body", "bit", "tail"), [(None, 0, b""), (b"", 4, b"\x00"), (b"hi", 4, b"\x02hi")]
)
def test_exist_body(body: bytes | None, bit: int, tail: bytes) -> None:
    message = Message(id=0, code=0, body=body)
    data = encode_message(message)
    assert data == bytes([0, bit, 0, 0, 0, 0]) + tail
    assert decode_message(data) == message


@pytest.mark.parametrize(
    ("header", "bit", "tail"), [(None, 0, b""), (b"", 64, b"\x00"), (b"hd", 64, b"\x02hd")]
)
def test_exist_forward_header(header: bytes | None, bit: int, tail: bytes) -> None:
    message = Message(id=0, code=0, forward_header=header)
    data = encode_message(message)
    assert data == bytes([0, bit, 0, 0, 0, 0]) + tail
    assert decode_message(data) == message


@pytest.mark.parametrize(
    ("field", "width"),
    [("id", 64), ("protocol", 32), ("code", 32), ("to_message", 64), ("time", 64)],
)
def test_varint_of_its_width(field: str, width: int) -> None:
    for value in (-(1 << (width - 1)), -1, 0, 127, 128, (1 << (width - 1)) - 1):
        message = msgspec.structs.replace(MESSAGE, **{field: value})
        assert decode_message(encode_message(message)) == message
    with pytest.raises(EncodeError, match="int_range"):
        encode_message(msgspec.structs.replace(MESSAGE, **{field: 1 << (width - 1)}))


# -- RelayPack 封包 ---------------------------------------------------------------------------

IDS = {"instance_id": 11, "tunnel_id": 22}
RELAYED: dict[int, layout.Arguments] = {
    RelayType.LINK_OPEN: layout.LinkOpen(service="s", instance=1, key="k", service_type=2),
    RelayType.LINK_OPENED: layout.LinkOpened(result=True),
    RelayType.LINK_CLOSE: layout.LinkClose(),
    RelayType.LINK_PING: layout.LinkPing(),
    RelayType.LINK_PONG: layout.LinkPong(),
    RelayType.TUNNEL_CONNECT: layout.TunnelConnect(ip=bytes(4), port=80, **IDS),
    RelayType.TUNNEL_CONNECTED: layout.TunnelConnected(result=True, **IDS),
    RelayType.TUNNEL_DISCONNECT: layout.TunnelDisconnect(**IDS),
    RelayType.TUNNEL_SWITCH_LINK: layout.TunnelSwitchLink(**IDS),
    RelayType.TUNNEL_RELAY: layout.TunnelRelay(message=MESSAGE, **IDS),
}


@pytest.mark.parametrize("kind", list(RelayType), ids=lambda kind: kind.name)
def test_relay_packet(kind: RelayType) -> None:
    value = RelayPacket(id=7, time=9, arguments=RELAYED[kind])
    data = RELAY.encode(value)
    assert RELAY.decode(data) == (value, len(data))
    assert data[:3] == b"rpk"
    assert int.from_bytes(data[3:7], "little") == len(data) - 7
    assert int.from_bytes(data[7:11], "little") == 7
    assert data[11] == kind
    assert data[11] >> 4 == (1 if kind.name.startswith("TUNNEL") else 0)
    assert int.from_bytes(data[12:20], "little") == 9


def test_relay_sizes_head_3_length_4_id_4_option_1_time_8() -> None:
    assert len(RELAY.encode(RelayPacket(arguments=layout.LinkPing()))) == 3 + 4 + 4 + 1 + 8


def test_relay_option_bits_5_to_7_are_zero() -> None:
    assert RELAY.encode(RelayPacket(arguments=layout.LinkPing()))[11] >> 5 == 0


def test_relay_arguments_are_protobuf() -> None:
    data = RELAY.encode(RelayPacket(arguments=layout.TunnelDisconnect(**IDS)))
    tagged = bytes([1 << 3 | 1]) + (11).to_bytes(8, "little")
    assert data[20:] == tagged + bytes([2 << 3 | 1]) + (22).to_bytes(8, "little")

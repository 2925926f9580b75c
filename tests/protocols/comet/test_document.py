"""Seed 004: each basic type, the frame, and each command of both directions."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.protocols.comet import layout
from wirelake.protocols.comet.arguments import check_arguments
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.generate.module import compile_layout
from wirelake.wire.model import Direction
from wirelake.wire.types import I16, I32, I64, U8, Boolean, Layout, String16

# -- 基础类型 ---------------------------------------------------------------------------------


class ByteValue(Layout):
    """byte."""

    value: U8


class ShortValue(Layout):
    """short."""

    value: I16


class IntegerValue(Layout):
    """integer."""

    value: I32


class LongValue(Layout):
    """long."""

    value: I64


class BooleanValue(Layout):
    """boolean."""

    value: Boolean


class StringValue(Layout):
    """string."""

    value: String16


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (ByteValue(value=200), "c8"),
        (ShortValue(value=258), "0102"),
        (IntegerValue(value=-2), "fffffffe"),
        (LongValue(value=258), "0000000000000102"),
        (BooleanValue(value=False), "00"),
        (BooleanValue(value=True), "01"),
        (StringValue(value="通知"), "0006e9809ae79fa5"),
        (StringValue(value=""), "0000"),
    ],
    ids=["byte", "short", "integer", "long", "boolean false", "boolean true", "string", "empty"],
)
def test_basic_type(value: Layout, data: str) -> None:
    codec = compile_layout(type(value))
    assert codec.write(value).hex() == data
    assert codec.read(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("cls", "size"),
    [(ByteValue, 1), (ShortValue, 2), (IntegerValue, 4), (LongValue, 8), (BooleanValue, 1)],
)
def test_size_of_a_basic_type(cls: type[Layout], size: int) -> None:
    assert compile_layout(cls).read(bytes(size)) == cls(value=0)
    with pytest.raises(DecodeError, match="short"):
        compile_layout(cls).read(bytes(size - 1))


@pytest.mark.parametrize("byte", [2, 0x80, 0xFF])
def test_a_boolean_is_0_or_1(byte: int) -> None:
    with pytest.raises(DecodeError, match="bad_bool"):
        compile_layout(BooleanValue).read(bytes([byte]))


# -- 协议指令 ---------------------------------------------------------------------------------


def test_length_counts_type_and_body_but_not_itself() -> None:
    data = PROTOCOL.encode(layout.Subscribe(topics=("@a",)))
    assert int.from_bytes(data[:2], "big") == len(data) - 2
    assert data[2] == 3
    assert data[3:] == bytes([1, 0, 2]) + b"@a"


def string(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


NOTE = layout.Notification(msg_type=1, msg_id="m", content="通知".encode(), ts=-2)
NOTE_BYTES = bytes([1]) + string("m") + string("通知") + (-2).to_bytes(8, "big", signed=True)

C2S: list[tuple[str, int, Any, bytes]] = [
    ("auth", 0, layout.Auth(client_id="c", token="t"), string("c") + string("t")),
    ("exchange_key", 1, layout.ExchangeKey(secret_key=b"\xff\x00"), b"\x00\x02\xff\x00"),
    ("get_topic_list", 2, layout.GetTopicList(), b""),
    ("subscribe", 3, layout.Subscribe(topics=("@a", "@b")), b"\x02" + string("@a") + string("@b")),
    ("unsubscribe", 4, layout.Unsubscribe(topics=("@a",)), b"\x01" + string("@a")),
    ("get_message_list", 5, layout.GetMessageList(), b""),
    ("heartbeat", 6, layout.Heartbeat(), b""),
    (
        "message_ack",
        7,
        layout.MessageAck(msg_ids=("m1", "m2")),
        b"\x02" + string("m1") + string("m2"),
    ),
    (
        "report_environ",
        8,
        layout.ReportEnviron(network_type=3, isp=1, phone_type="p", extra=("k=v",)),
        b"\x03\x01" + string("p") + b"\x01" + string("k=v"),
    ),
]
S2C: list[tuple[str, int, Any, bytes]] = [
    ("ok", 0, layout.Ok(), b""),
    ("error", 1, layout.Error(error_code=4, reason="r"), b"\x04" + string("r")),
    ("auth_success", 2, layout.AuthSuccess(encrypt_key=b"key"), b"\x00\x03key"),
    ("topic_list", 3, layout.TopicList(topics=("@a",)), b"\x01" + string("@a")),
    ("message_list", 4, layout.MessageList(messages=(NOTE, NOTE)), b"\x02" + NOTE_BYTES * 2),
    ("message", 5, NOTE, NOTE_BYTES),
]


def check(direction: Direction, number: int, message: Any, body: bytes) -> None:
    data = PROTOCOL.encode(message)
    assert data == (1 + len(body)).to_bytes(2, "big") + bytes([number]) + body
    assert PROTOCOL.decode(data, direction=direction) == (message, len(data))


@pytest.mark.parametrize(("name", "number", "message", "body"), C2S, ids=[row[0] for row in C2S])
def test_command_of_a_client(name: str, number: int, message: Any, body: bytes) -> None:
    del name
    check("c2s", number, message, body)


@pytest.mark.parametrize(("name", "number", "message", "body"), S2C, ids=[row[0] for row in S2C])
def test_command_of_a_server(name: str, number: int, message: Any, body: bytes) -> None:
    del name
    check("s2c", number, message, body)


def test_the_two_directions_number_their_commands_apart() -> None:
    assert [row[1] for row in C2S] == list(range(9))
    assert [row[1] for row in S2C] == list(range(6))
    for direction, number in (("c2s", 9), ("s2c", 6)):
        with pytest.raises(DecodeError, match="unknown_type"):
            PROTOCOL.decode(bytes([0, 1, number]), direction=direction)


# -- 通知结构体, 主题名称 ---------------------------------------------------------------------


def test_a_notification_is_type_id_content_and_timestamp() -> None:
    assert [f for f in NOTE.__struct_fields__ if f != "job_id"] == [
        "msg_type",
        "msg_id",
        "content",
        "ts",
    ]


def test_a_topic_begins_with_at() -> None:
    check_arguments(layout.Subscribe(topics=("@news",)))
    with pytest.raises(DecodeError, match="bad_args"):
        check_arguments(layout.Subscribe(topics=("news",)))


@pytest.mark.parametrize(
    "message",
    [
        layout.Error(error_code=256, reason=""),
        layout.MessageAck(msg_ids=("m",) * 256),
        layout.ExchangeKey(secret_key=bytes(65_536)),
        layout.AuthSuccess(encrypt_key=bytes(65_534)),
    ],
    ids=["byte", "count", "bytes", "frame"],
)
def test_what_does_not_fit_is_refused(message: Any) -> None:
    with pytest.raises(EncodeError):
        PROTOCOL.encode(message)

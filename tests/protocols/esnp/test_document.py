"""Seeds 000 (frames) and 001 (lines): each worked example, basic type, row, flag and address kind.

The documents give two encodings as code; that code is written down here, line by line, and compared
with ours over values of every size.
"""

from __future__ import annotations

import struct
from typing import Any, get_args

import pytest

from wirelake.protocols.esnp import layout, message
from wirelake.protocols.esnp.address import Address, format_url, parse_url
from wirelake.protocols.esnp.layout import (
    AddressKind,
    FlagType,
    Message,
    OpaqueRow,
    Row,
    RowType,
    Var,
    VarType,
)
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.values import BASIC
from wirelake.wire.errors import DecodeError

END = bytes([0, 0, 0, 0])


def written(*rows: Row) -> bytes:
    """The bytes of a message, which must read back as the same rows."""
    data = PROTOCOL.encode(Message(rows=rows))
    assert PROTOCOL.decode(data) == (Message(rows=rows), len(data))
    return data


# -- 帧结构, 行结构 ---------------------------------------------------------------------------


def test_example_type_1_length_1000_is_1_0_3_232() -> None:
    data = written(OpaqueRow(type=1, data=b"\xab" * 1000))
    assert data[:4] == bytes([1, 0, 3, 232])
    assert data == bytes([1, 0, 3, 232]) + b"\xab" * 1000 + END


def test_head_is_one_byte_of_type_and_three_of_size() -> None:
    assert written(OpaqueRow(type=0x80, data=bytes(0x010203)))[:4] == bytes([0x80, 1, 2, 3])


def test_end_is_four_zeros() -> None:
    assert written() == END


def test_end_carries_no_data() -> None:
    with pytest.raises(DecodeError, match="bad_end"):
        PROTOCOL.decode(bytes([0, 0, 0, 1, 0]))


def test_message_is_rows_up_to_end_and_the_next_begins_there() -> None:
    one = written(layout.Flag(value=4), layout.Payload(data=b"a"))
    two = written(layout.Flag(value=6))
    first = PROTOCOL.decode(one + two)
    assert first.stop == len(one)
    assert PROTOCOL.decode(one + two, first.stop).message.rows == (layout.Flag(value=6),)


def test_frames_have_no_order() -> None:
    rows = (layout.Payload(data=b""), layout.MessageId(value=1))
    assert message.check(Message(rows=rows), "frames") == ()


def test_lines_want_head_rows_before_body_rows() -> None:
    rows = (layout.Payload(data=b""), layout.MessageId(value=1))
    with pytest.raises(DecodeError, match="row_order"):
        message.check(Message(rows=rows), "lines")
    assert message.ordered(Message(rows=rows)).rows == rows[::-1]


# -- 基础数据编码说明 -------------------------------------------------------------------------


def document_uint_encoder(v: int) -> bytes:
    """UintXEncoder as the documents have it."""
    buf = bytearray()
    while v >= 0x80:
        buf.append((v & 0xFF) | 0x80)
        v >>= 7
    buf.append(v)
    return bytes(buf)


def document_uint_decoder(buf: bytes) -> tuple[int, int]:
    """UintXDecoder as the documents have it: (value, bytes taken), below 0 on overflow."""
    x = s = 0
    for i, b in enumerate(buf):
        if b < 0x80:
            if i > 9 or (i == 9 and b > 1):
                return 0, -(i + 1)
            return x | b << s, i + 1
        x |= (b & 0x7F) << s
        s += 7
    return 0, 0


def document_int_encoder(v: int) -> bytes:
    """IntXEncoder as the documents have it, in 64 bits."""
    uv = (v << 1) % (1 << 64)
    if v < 0:
        uv ^= (1 << 64) - 1
    return document_uint_encoder(uv)


EDGES = sorted({n + d for bits in range(0, 65, 7) for n in (1 << bits,) for d in (-1, 0, 1)})


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_uint_is_encoded_as_the_document_says(bits: int) -> None:
    for value in [n for n in [*EDGES, (1 << bits) - 1] if n < 1 << bits]:
        data = document_uint_encoder(value)
        assert BASIC[f"UInt{bits}"].encode(value) == data
        assert (
            BASIC[f"UInt{bits}"].decode(data) == document_uint_decoder(data) == (value, len(data))
        )


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_int_is_encoded_as_the_document_says(bits: int) -> None:
    top = 1 << (bits - 1)
    for size in [n for n in [*EDGES, top] if n <= top]:
        for value in (-size, size - 1):
            data = document_int_encoder(value)
            assert BASIC[f"Int{bits}"].encode(value) == data
            assert BASIC[f"Int{bits}"].decode(data) == (value, len(data))


@pytest.mark.parametrize("tail", [b"\x01", b"\x00"])
def test_ten_bytes_whose_last_is_at_most_1_are_read(tail: bytes) -> None:
    data = b"\x80" * 9 + tail
    assert BASIC["UInt64"].decode(data) == document_uint_decoder(data)


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01"])
def test_what_the_document_calls_overflow_is_refused(data: bytes) -> None:
    assert document_uint_decoder(data)[1] < 0
    with pytest.raises(DecodeError, match="varint_overflow"):
        BASIC["UInt64"].decode(data)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9])
def test_what_the_document_gives_up_on_is_refused(data: bytes) -> None:
    assert document_uint_decoder(data) == (0, 0)
    with pytest.raises(DecodeError, match="varint_truncated"):
        BASIC["UInt64"].decode(data)


def test_bool_0_is_false_and_anything_else_true() -> None:
    assert BASIC["Bool"].encode(False) == b"\x00"
    assert BASIC["Bool"].encode(True) == b"\x01"
    assert BASIC["Bool"].decode(b"\x00") == (False, 1)
    assert all(BASIC["Bool"].decode(bytes([n])) == (True, 1) for n in range(1, 256))


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("Int8", -1, "ff"),
        ("UInt8", 255, "ff"),
        ("Byte", 7, "07"),
        ("Int", -3, "05"),
        ("Int16", -32768, "ffff03"),
        ("Int32", 2147483647, "feffffff0f"),
        ("Int64", -9223372036854775808, "ffffffffffffffffff01"),
        ("UInt", 300, "ac02"),
        ("UInt16", 65535, "ffff03"),
        ("UInt32", 4294967295, "ffffffff0f"),
        ("UInt64", 18446744073709551615, "ffffffffffffffffff01"),
        ("FixInt16", -2, "fffe"),
        ("FixInt32", 258, "00000102"),
        ("FixInt64", -1, "ffffffffffffffff"),
        ("FixUInt16", 0x0102, "0102"),
        ("FixUInt32", 0x01020304, "01020304"),
        ("FixUInt64", 0x0102030405060708, "0102030405060708"),
        ("Float32", 1.5, "3fc00000"),
        ("Float64", -0.5, "bfe0000000000000"),
        ("Bytes", b"\x00\xff", "00ff"),
        ("String", "你好", "e4bda0e5a5bd"),
        ("LenBytes", b"abc", "06616263"),
        ("LenString", "你好", "0ce4bda0e5a5bd"),
    ],
)
def test_basic_type(name: str, value: object, data: str) -> None:
    assert BASIC[name].encode(value).hex() == data
    assert BASIC[name].decode(bytes.fromhex(data)) == (value, len(data) // 2)


def test_int_is_int32_and_uint_is_uint32() -> None:
    assert BASIC["Int"] is BASIC["Int32"]
    assert BASIC["UInt"] is BASIC["UInt32"]
    assert BASIC["Byte"] is BASIC["UInt8"]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 0.1, float("inf"), 1e-45])
def test_floats_are_the_fixed_uint_of_their_ieee_bits(value: float) -> None:
    for bits, form in ((32, ">f"), (64, ">d")):
        number = int.from_bytes(struct.pack(form, value), "big")
        assert BASIC[f"Float{bits}"].encode(value) == BASIC[f"FixUInt{bits}"].encode(number)


VARS: list[tuple[int, str, Any, str]] = [
    (0, "Null", None, ""),
    (1, "Bool", True, "01"),
    (2, "Int", -1, "01"),
    (3, "Int8", -1, "ff"),
    (4, "Int16", 300, "d804"),
    (5, "Int32", -300, "d704"),
    (6, "Int64", 1 << 40, "808080808040"),
    (7, "Uint", 300, "ac02"),
    (8, "Uint8", 200, "c8"),
    (9, "Uint16", 300, "ac02"),
    (10, "Uint32", 300, "ac02"),
    (11, "Uint64", 1 << 40, "808080808020"),
    (13, "Float32", 1.5, "3fc00000"),
    (14, "Float64", 1.5, "3ff8000000000000"),
    (17, "LenBytes", b"\x01\x02", "040102"),
    (21, "Map", (("k", Var(type=1, value=False)),), "02026b0100"),
    (23, "List", (Var(type=0), Var(type=8, value=1)), "04000801"),
    (24, "LenString", "é", "04c3a9"),
]


@pytest.mark.parametrize(("number", "name", "value", "data"), VARS, ids=[v[1] for v in VARS])
def test_var_type(number: int, name: str, value: object, data: str) -> None:
    del name
    encoded = bytes([number]) + bytes.fromhex(data)
    assert BASIC["Var"].encode(Var(type=number, value=value)) == encoded
    assert BASIC["Var"].decode(encoded) == (Var(type=number, value=value), len(encoded))


def test_every_var_type_of_the_documents_is_tested() -> None:
    assert [v[0] for v in VARS] == [int(number) for number in VarType]


# -- 帧类型说明, 行类型说明 -------------------------------------------------------------------

TEXT = Var(type=24, value="v")
ROWS: list[tuple[str, int, Row, str]] = [
    ("SESSION_INFO", 0x10, layout.SessionInfo(name="n", value=TEXT), "026e180276"),
    ("MESSAGE_ID", 0x11, layout.MessageId(value=258), "0000000000000102"),
    ("SOURCE_MESSAGE_ID", 0x12, layout.SourceMessageId(value=1), "0000000000000001"),
    ("MESSAGE_KIND", 0x13, OpaqueRow(type=0x13, data=b"\x01"), "01"),
    ("HEADER", 0x14, layout.Header(name="n", value=TEXT), "026e180276"),
    ("DATA", 0x15, layout.Data(name="n", value=TEXT), "026e180276"),
    ("PAYLOAD", 0x16, layout.Payload(data=b"raw"), "726177"),
    ("ADDRESS", 0x17, layout.Address(kind=30, value="test"), "3c0874657374"),
    ("SOURCE_ADDRESS", 0x18, layout.SourceAddress(kind=40, value="h"), "500268"),
    ("TRACE", 0x19, OpaqueRow(type=0x19), ""),
    ("TRACE_RESP", 0x1A, OpaqueRow(type=0x1A), ""),
    ("SEQ_NO", 0x1B, layout.SeqNo(current=1, maximum=3), "0206"),
    ("XDATA", 0x1C, layout.XData(id=2, data=b"x"), "0478"),
    ("ERROR", 0x1D, layout.Error(value="错"), "e99499"),
    ("FLAG", 0x1E, layout.Flag(value=4), "08"),
    ("VERSION", 0x1F, layout.Version(major=1, minor=2, branch=3, variant=4), "01020304"),
]


@pytest.mark.parametrize(("name", "number", "row", "body"), ROWS, ids=[row[0] for row in ROWS])
def test_row_type(name: str, number: int, row: Row, body: str) -> None:
    assert RowType[name] == number
    data = bytes.fromhex(body)
    assert written(row) == bytes([number, 0, 0, len(data)]) + data + END


def test_every_row_type_of_the_documents_is_tested() -> None:
    assert [row[1] for row in ROWS] == [int(number) for number in RowType if number != RowType.END]


HEAD = ["MESSAGE_ID", "SOURCE_MESSAGE_ID", "ADDRESS", "SOURCE_ADDRESS"]
HEAD += ["SEQ_NO", "ERROR", "FLAG", "VERSION"]
BODY = ["SESSION_INFO", "HEADER", "DATA", "PAYLOAD", "XDATA"]


def test_which_rows_are_head_rows_and_which_body_rows() -> None:
    assert {RowType(number).name for number in message.HEAD_ROWS} == set(HEAD)
    assert {RowType(number).name for number in message.BODY_ROWS} == set(BODY)


@pytest.mark.parametrize("number", [0x01, 0x0F, 0x80, 0xFF])
def test_reserved_and_application_rows_are_carried(number: int) -> None:
    assert written(OpaqueRow(type=number, data=b"kept")) == (
        bytes([number, 0, 0, 4]) + b"kept" + END
    )


@pytest.mark.parametrize(
    "row",
    [
        layout.SessionInfo(name="n", value=TEXT),
        layout.Header(name="n", value=TEXT),
        layout.Data(name="n", value=TEXT),
        layout.Payload(data=b"p"),
        layout.Address(kind=10, value="a"),
        layout.XData(id=1),
        layout.Flag(value=1),
    ],
    ids=lambda row: type(row).__name__,
)
def test_several_of_it_may_occur(row: Row) -> None:
    twice = Message(rows=(row, row))
    assert PROTOCOL.decode(PROTOCOL.encode(twice)).message == twice
    assert message.check(twice, "lines") == ()


@pytest.mark.parametrize(
    ("name", "number", "data"),
    [
        ("TRACE", 1, "02"),
        ("TRACE_INFO", 2, "04"),
        ("RESP", 3, "06"),
        ("REQUEST", 4, "08"),
        ("INFO", 5, "0a"),
        ("EVENT", 6, "0c"),
        ("ASYNC", 7, "0e"),
    ],
)
def test_flag(name: str, number: int, data: str) -> None:
    assert FlagType[name] == number
    assert written(layout.Flag(value=number))[4:5].hex() == data
    assert message.flag_name(number) == name


def test_flag_7_has_no_name_in_frames() -> None:
    assert message.flag_name(7, "frames") is None


def test_flags_from_128_are_the_application_s() -> None:
    assert written(layout.Flag(value=128))[4:6].hex() == "8002"
    assert message.flag_name(128) is None


@pytest.mark.parametrize(
    ("name", "number"),
    [("GROUP", 50), ("HOST", 40), ("SERVICE", 30), ("OP", 20), ("OBJECT", 10)],
)
def test_address_kind(name: str, number: int) -> None:
    assert AddressKind[name] == number
    found = message.address(Message(rows=(layout.Address(kind=number, value="v"),)))
    assert found == Address(**{name.lower(): "v"})


def test_seq_no_counts_from_1_and_the_last_equals_the_maximum() -> None:
    parts = [
        Message(rows=(layout.SeqNo(current=n, maximum=m),)) for n, m in ((1, 0), (2, 3), (3, 3))
    ]
    assert [message.is_last(part) for part in parts] == [False, False, True]
    with pytest.raises(DecodeError, match="seq_range"):
        message.check(Message(rows=(layout.SeqNo(current=0),)), "lines")


def test_a_response_copies_the_session_info() -> None:
    session = layout.SessionInfo(name="sid", value=TEXT)
    assert session in message.reply(Message(rows=(session,))).rows


def test_a_response_names_its_source_message() -> None:
    answer = message.reply(Message(rows=(layout.Flag(value=4), layout.MessageId(value=9))))
    assert message.source_message_id(answer) == 9


def test_an_error_on_a_response_means_that_the_request_failed() -> None:
    answer = message.reply(Message(rows=(layout.Flag(value=4),)), error="")
    assert message.error_text(answer) == ""
    assert message.error_text(message.reply(Message(rows=()))) is None


# -- 地址的URL表示方式 (seed 001) -------------------------------------------------------------


def test_url_form() -> None:
    address = parse_url("esnp://HOST/SERVICE/OP?o=OBJECT&g=GROUP")
    assert address == Address(
        host="HOST", service="SERVICE", op="OP", object="OBJECT", group="GROUP"
    )


def test_url_example_add() -> None:
    url = "esnp://127.0.0.1:1080/test/add"
    address = Address(host="127.0.0.1:1080", service="test", op="add")
    assert parse_url(url) == address
    assert format_url(address) == url


def test_url_example_without_op() -> None:
    url = "esnp://127.0.0.1:1080/test/_"
    address = Address(host="127.0.0.1:1080", service="test")
    assert parse_url(url) == address
    assert format_url(address) == url


@pytest.mark.parametrize("url", ["esnp://_/s/o", "esnp://h/_/o", "esnp://h/s/_"])
def test_underscore_means_none(url: str) -> None:
    address = parse_url(url)
    assert [address.host, address.service, address.op].count(None) == 1
    assert format_url(address) == url


def test_to_is_the_timeout_in_milliseconds() -> None:
    assert parse_url("esnp://h/s/o?to=1234").timeout_ms == 1234


def test_the_union_of_rows_is_what_a_message_may_hold() -> None:
    known = {type(row[2]) for row in ROWS}
    assert known | {layout.BrokenRow} == set(get_args(Row))

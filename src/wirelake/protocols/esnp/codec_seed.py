"""Codec of esnp, dialect seed. Generated from wirelake.protocols.esnp.layout: do not edit.

Regenerate it with `python -m wirelake.wire.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

import struct
from typing import Any, NoReturn

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore
from wirelake.protocols.esnp.layout import (
    Address,
    BrokenRow,
    Data,
    Error,
    Flag,
    Header,
    Message,
    MessageId,
    OpaqueRow,
    Payload,
    SeqNo,
    SessionInfo,
    SourceAddress,
    SourceMessageId,
    Var,
    Version,
    XData,
)

_BYTE = rt.BYTE
_ZIGZAG = rt.ZIGZAG

_pack_BBBB_be = struct.Struct(">BBBB").pack
_pack_I_be = struct.Struct(">I").pack
_pack_Q_be = struct.Struct(">Q").pack
_pack_d_be = struct.Struct(">d").pack
_unpack_BBBB_be = struct.Struct(">BBBB").unpack_from
_unpack_I_be = struct.Struct(">I").unpack_from
_unpack_Q_be = struct.Struct(">Q").unpack_from
_unpack_b_be = struct.Struct(">b").unpack_from
_unpack_d_be = struct.Struct(">d").unpack_from
_unpack_f_be = struct.Struct(">f").unpack_from



_VAR_TAGS = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 17, 21, 23, 24})


def read_var(buf: bytes, pos: int, end: int, depth: int, budget: list[int]) -> tuple[Var, int]:
    if pos >= end:
        raise rt.refuse("short", "var.type", pos)
    tag = buf[pos]
    pos += 1
    value: Any
    if tag not in _VAR_TAGS:
        raise rt.refuse("unknown_var_type", "var.type", pos - 1, str(tag))
    if tag < 9:
        if tag < 4:
            if tag < 2:
                if tag < 1:
                    # null
                    value = None
                else:
                    # bool
                    if pos >= end:
                        raise rt.short("var", pos, end, ("bool", 1))
                    value = buf[pos]
                    value = value != 0
                    pos += 1
            else:
                if tag < 3:
                    # int
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.int", pos)
                    value = buf[pos]
                    if value < 0x80:
                        value = value >> 1 ^ -(value & 1)
                        pos += 1
                    else:
                        value, pos = rt.zigzag32(buf, pos, end, "var.int")
                else:
                    # int8
                    if pos >= end:
                        raise rt.short("var", pos, end, ("int8", 1))
                    value, = _unpack_b_be(buf, pos)
                    pos += 1
        else:
            if tag < 6:
                if tag < 5:
                    # int16
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.int16", pos)
                    value = buf[pos]
                    if value < 0x80:
                        value = value >> 1 ^ -(value & 1)
                        pos += 1
                    else:
                        value, pos = rt.zigzag16(buf, pos, end, "var.int16")
                else:
                    # int32
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.int32", pos)
                    value = buf[pos]
                    if value < 0x80:
                        value = value >> 1 ^ -(value & 1)
                        pos += 1
                    else:
                        value, pos = rt.zigzag32(buf, pos, end, "var.int32")
            else:
                if tag < 7:
                    # int64
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.int64", pos)
                    value = buf[pos]
                    if value < 0x80:
                        value = value >> 1 ^ -(value & 1)
                        pos += 1
                    else:
                        value, pos = rt.zigzag64(buf, pos, end, "var.int64")
                else:
                    if tag < 8:
                        # uint
                        if pos >= end:
                            raise rt.refuse("varint_truncated", "var.uint", pos)
                        value = buf[pos]
                        if value < 0x80:
                            pos += 1
                        else:
                            value, pos = rt.uvarint32(buf, pos, end, "var.uint")
                    else:
                        # uint8
                        if pos >= end:
                            raise rt.short("var", pos, end, ("uint8", 1))
                        value = buf[pos]
                        pos += 1
    else:
        if tag < 14:
            if tag < 11:
                if tag < 10:
                    # uint16
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.uint16", pos)
                    value = buf[pos]
                    if value < 0x80:
                        pos += 1
                    else:
                        value, pos = rt.uvarint16(buf, pos, end, "var.uint16")
                else:
                    # uint32
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.uint32", pos)
                    value = buf[pos]
                    if value < 0x80:
                        pos += 1
                    else:
                        value, pos = rt.uvarint32(buf, pos, end, "var.uint32")
            else:
                if tag < 13:
                    # uint64
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.uint64", pos)
                    value = buf[pos]
                    if value < 0x80:
                        pos += 1
                    else:
                        value, pos = rt.uvarint(buf, pos, end, "var.uint64")
                else:
                    # float32
                    if pos + 4 > end:
                        raise rt.short("var", pos, end, ("float32", 4))
                    value, = _unpack_f_be(buf, pos)
                    if value != value:
                        value = rt.nan32(buf, pos, "big")
                    pos += 4
        else:
            if tag < 21:
                if tag < 17:
                    # float64
                    if pos + 8 > end:
                        raise rt.short("var", pos, end, ("float64", 8))
                    value, = _unpack_d_be(buf, pos)
                    pos += 8
                else:
                    # len_bytes
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.len_bytes", pos)
                    size = buf[pos]
                    if size < 0x80:
                        size = size >> 1 ^ -(size & 1)
                        pos += 1
                    else:
                        size, pos = rt.zigzag32(buf, pos, end, "var.len_bytes")
                    start = pos
                    pos += size
                    if size < 0 or pos > end:
                        raise rt.overrun("var.len_bytes", start, size, end)
                    value = buf[start:pos]
            else:
                if tag < 23:
                    # map
                    if depth >= 64:
                        raise rt.refuse("too_deep", "var.map", pos)
                    if pos >= end:
                        raise rt.refuse("varint_truncated", "var.map", pos)
                    size = buf[pos]
                    if size < 0x80:
                        size = size >> 1 ^ -(size & 1)
                        pos += 1
                    else:
                        size, pos = rt.zigzag32(buf, pos, end, "var.map")
                    if size < 0 or size * 2 > end - pos:
                        raise rt.overrun("var.map", pos, size, end)
                    budget[0] -= size
                    if budget[0] < 0:
                        raise rt.refuse("too_many", "var.map", pos)
                    count = size
                    pairs = []
                    for _ in range(count):
                        if pos >= end:
                            raise rt.refuse("varint_truncated", "var.map.key", pos)
                        size = buf[pos]
                        if size < 0x80:
                            size = size >> 1 ^ -(size & 1)
                            pos += 1
                        else:
                            size, pos = rt.zigzag32(buf, pos, end, "var.map.key")
                        start = pos
                        pos += size
                        if size < 0 or pos > end:
                            raise rt.overrun("var.map.key", start, size, end)
                        try:
                            key = buf[start:pos].decode()
                        except UnicodeDecodeError as error:
                            raise rt.not_utf8("var.map.key", start, error) from None
                        item, pos = read_var(buf, pos, end, depth + 1, budget)
                        pairs.append((key, item))
                    value = tuple(pairs)
                else:
                    if tag < 24:
                        # list
                        if depth >= 64:
                            raise rt.refuse("too_deep", "var.list", pos)
                        if pos >= end:
                            raise rt.refuse("varint_truncated", "var.list", pos)
                        size = buf[pos]
                        if size < 0x80:
                            size = size >> 1 ^ -(size & 1)
                            pos += 1
                        else:
                            size, pos = rt.zigzag32(buf, pos, end, "var.list")
                        if size < 0 or size > end - pos:
                            raise rt.overrun("var.list", pos, size, end)
                        budget[0] -= size
                        if budget[0] < 0:
                            raise rt.refuse("too_many", "var.list", pos)
                        count = size
                        items = []
                        for _ in range(count):
                            item, pos = read_var(buf, pos, end, depth + 1, budget)
                            items.append(item)
                        value = tuple(items)
                    else:
                        # len_string
                        if pos >= end:
                            raise rt.refuse("varint_truncated", "var.len_string", pos)
                        size = buf[pos]
                        if size < 0x80:
                            size = size >> 1 ^ -(size & 1)
                            pos += 1
                        else:
                            size, pos = rt.zigzag32(buf, pos, end, "var.len_string")
                        start = pos
                        pos += size
                        if size < 0 or pos > end:
                            raise rt.overrun("var.len_string", start, size, end)
                        try:
                            value = buf[start:pos].decode()
                        except UnicodeDecodeError as error:
                            raise rt.not_utf8("var.len_string", start, error) from None
    return Var(type=tag, value=value), pos


def write_var(value: Var, depth: int, budget: list[int]) -> bytes:
    tag = value.type
    inner: Any = value.value
    data: bytes
    if depth > 64:
        raise EncodeError("too_deep", "var", None)
    if tag not in _VAR_TAGS:
        raise EncodeError("unknown_var_type", "var.type", None, str(tag))
    if tag < 9:
        if tag < 4:
            if tag < 2:
                if tag < 1:
                    # null
                    if inner is not None:
                        raise EncodeError("bad_value", "var.null", None, "it holds no value")
                    return b'\x00'
                else:
                    # bool
                    return b'\x01\x01' if inner else b'\x01\x00'
            else:
                if tag < 3:
                    # int
                    return b'\x02' + (_ZIGZAG[inner] if -64 <= inner < 64 else rt.put_zigzag32(inner, "var.int"))
                else:
                    # int8
                    return b'\x03' + rt.put_int_of(inner, 1, True, "var.int8", "big")
        else:
            if tag < 6:
                if tag < 5:
                    # int16
                    return b'\x04' + (_ZIGZAG[inner] if -64 <= inner < 64 else rt.put_zigzag16(inner, "var.int16"))
                else:
                    # int32
                    return b'\x05' + (_ZIGZAG[inner] if -64 <= inner < 64 else rt.put_zigzag32(inner, "var.int32"))
            else:
                if tag < 7:
                    # int64
                    return b'\x06' + (_ZIGZAG[inner] if -64 <= inner < 64 else rt.put_zigzag64(inner, "var.int64"))
                else:
                    if tag < 8:
                        # uint
                        return b'\x07' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_unsigned32(inner, "var.uint"))
                    else:
                        # uint8
                        return b'\x08' + rt.put_int_of(inner, 1, False, "var.uint8", "big")
    else:
        if tag < 14:
            if tag < 11:
                if tag < 10:
                    # uint16
                    return b'\t' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_unsigned16(inner, "var.uint16"))
                else:
                    # uint32
                    return b'\n' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_unsigned32(inner, "var.uint32"))
            else:
                if tag < 13:
                    # uint64
                    return b'\x0b' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_unsigned64(inner, "var.uint64"))
                else:
                    # float32
                    return b'\r' + rt.put_f32(inner, "big", "var.float32")
        else:
            if tag < 21:
                if tag < 17:
                    # float64
                    try:
                        return b'\x0e' + _pack_d_be(inner)
                    except (struct.error, OverflowError):
                        raise rt.unfit("var", ("float64", ">d", inner)) from None
                else:
                    # len_bytes
                    data = inner
                    size = len(data)
                    return b'\x11' + (_ZIGZAG[size] if size < 64 else rt.put_zigzag32(size, "var.len_bytes")) + data
            else:
                if tag < 23:
                    # map
                    if depth >= 64:
                        raise EncodeError("too_deep", "var.map", None)
                    size = len(inner)
                    budget[0] -= size
                    if budget[0] < 0:
                        raise EncodeError("too_many", "var.map", None)
                    parts = [b'\x15', (_ZIGZAG[size] if size < 64 else rt.put_zigzag32(size, "var.map"))]
                    for key, item in inner:
                        data = rt.put_text(key, "var.map.key")
                        size = len(data)
                        parts.append((_ZIGZAG[size] if size < 64 else rt.put_zigzag32(size, "var.map")))
                        parts.append(data)
                        parts.append(write_var(item, depth + 1, budget))
                    return b"".join(parts)
                else:
                    if tag < 24:
                        # list
                        if depth >= 64:
                            raise EncodeError("too_deep", "var.list", None)
                        size = len(inner)
                        budget[0] -= size
                        if budget[0] < 0:
                            raise EncodeError("too_many", "var.list", None)
                        parts = [b'\x17', (_ZIGZAG[size] if size < 64 else rt.put_zigzag32(size, "var.list"))]
                        for item in inner:
                            parts.append(write_var(item, depth + 1, budget))
                        return b"".join(parts)
                    else:
                        # len_string
                        data = rt.put_text(inner, "var.len_string")
                        size = len(data)
                        return b'\x18' + (_ZIGZAG[size] if size < 64 else rt.put_zigzag32(size, "var.len_string")) + data


def read_version(buf: bytes, pos: int, end: int) -> tuple[Version, int]:
    if end - pos != 4:
        raise rt.wrong_row_size("version", pos, end, 4)
    major, minor, branch, variant = _unpack_BBBB_be(buf, pos)
    pos += 4
    return Version(major=major, minor=minor, branch=branch, variant=variant), pos


def write_version(value: Version) -> bytes:
    try:
        return _pack_BBBB_be(value.major, value.minor, value.branch, value.variant)
    except (struct.error, OverflowError):
        raise rt.unfit("version", ("major", ">B", value.major), ("minor", ">B", value.minor), ("branch", ">B", value.branch), ("variant", ">B", value.variant)) from None


def read_flag(buf: bytes, pos: int, end: int) -> tuple[Flag, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "flag.value", pos)
    value_ = buf[pos]
    if value_ < 0x80:
        value_ = value_ >> 1 ^ -(value_ & 1)
        pos += 1
    else:
        value_, pos = rt.zigzag32(buf, pos, end, "flag.value")
    return Flag(value=value_), pos


def write_flag(value: Flag) -> bytes:
    v_value = value.value
    return (_ZIGZAG[v_value] if -64 <= v_value < 64 else rt.put_zigzag32(v_value, "flag.value"))


def read_error(buf: bytes, pos: int, end: int) -> tuple[Error, int]:
    try:
        value_ = buf[pos:end].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("error.value", pos, error) from None
    pos = end
    return Error(value=value_), pos


def write_error(value: Error) -> bytes:
    try:
        value_ = value.value.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("error.value", error) from None
    return value_


def read_xdata(buf: bytes, pos: int, end: int) -> tuple[XData, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "xdata.id", pos)
    id = buf[pos]
    if id < 0x80:
        id = id >> 1 ^ -(id & 1)
        pos += 1
    else:
        id, pos = rt.zigzag32(buf, pos, end, "xdata.id")
    data = buf[pos:end]
    pos = end
    return XData(id=id, data=data), pos


def write_xdata(value: XData) -> bytes:
    v_id = value.id
    data = value.data
    return (_ZIGZAG[v_id] if -64 <= v_id < 64 else rt.put_zigzag32(v_id, "xdata.id")) + data


def read_seq_no(buf: bytes, pos: int, end: int) -> tuple[SeqNo, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "seq_no.current", pos)
    current = buf[pos]
    if current < 0x80:
        current = current >> 1 ^ -(current & 1)
        pos += 1
    else:
        current, pos = rt.zigzag32(buf, pos, end, "seq_no.current")
    if pos >= end:
        raise rt.refuse("varint_truncated", "seq_no.maximum", pos)
    maximum = buf[pos]
    if maximum < 0x80:
        maximum = maximum >> 1 ^ -(maximum & 1)
        pos += 1
    else:
        maximum, pos = rt.zigzag32(buf, pos, end, "seq_no.maximum")
    return SeqNo(current=current, maximum=maximum), pos


def write_seq_no(value: SeqNo) -> bytes:
    v_current = value.current
    v_maximum = value.maximum
    return (_ZIGZAG[v_current] if -64 <= v_current < 64 else rt.put_zigzag32(v_current, "seq_no.current")) + (_ZIGZAG[v_maximum] if -64 <= v_maximum < 64 else rt.put_zigzag32(v_maximum, "seq_no.maximum"))


def read_source_address(buf: bytes, pos: int, end: int) -> tuple[SourceAddress, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "source_address.kind", pos)
    kind = buf[pos]
    if kind < 0x80:
        kind = kind >> 1 ^ -(kind & 1)
        pos += 1
    else:
        kind, pos = rt.zigzag32(buf, pos, end, "source_address.kind")
    if pos >= end:
        raise rt.refuse("varint_truncated", "source_address.value", pos)
    n_value_ = buf[pos]
    if n_value_ < 0x80:
        n_value_ = n_value_ >> 1 ^ -(n_value_ & 1)
        pos += 1
    else:
        n_value_, pos = rt.zigzag32(buf, pos, end, "source_address.value")
    start = pos
    pos += n_value_
    if n_value_ < 0 or pos > end:
        raise rt.overrun("source_address.value", start, n_value_, end)
    try:
        value_ = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("source_address.value", start, error) from None
    return SourceAddress(kind=kind, value=value_), pos


def write_source_address(value: SourceAddress) -> bytes:
    v_kind = value.kind
    try:
        value_ = value.value.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("source_address.value", error) from None
    n_value = len(value_)
    return (_ZIGZAG[v_kind] if -64 <= v_kind < 64 else rt.put_zigzag32(v_kind, "source_address.kind")) + (_ZIGZAG[n_value] if n_value < 64 else rt.put_zigzag32(n_value, "source_address.value")) + value_


def read_address(buf: bytes, pos: int, end: int) -> tuple[Address, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "address.kind", pos)
    kind = buf[pos]
    if kind < 0x80:
        kind = kind >> 1 ^ -(kind & 1)
        pos += 1
    else:
        kind, pos = rt.zigzag32(buf, pos, end, "address.kind")
    if pos >= end:
        raise rt.refuse("varint_truncated", "address.value", pos)
    n_value_ = buf[pos]
    if n_value_ < 0x80:
        n_value_ = n_value_ >> 1 ^ -(n_value_ & 1)
        pos += 1
    else:
        n_value_, pos = rt.zigzag32(buf, pos, end, "address.value")
    start = pos
    pos += n_value_
    if n_value_ < 0 or pos > end:
        raise rt.overrun("address.value", start, n_value_, end)
    try:
        value_ = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("address.value", start, error) from None
    return Address(kind=kind, value=value_), pos


def write_address(value: Address) -> bytes:
    v_kind = value.kind
    try:
        value_ = value.value.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("address.value", error) from None
    n_value = len(value_)
    return (_ZIGZAG[v_kind] if -64 <= v_kind < 64 else rt.put_zigzag32(v_kind, "address.kind")) + (_ZIGZAG[n_value] if n_value < 64 else rt.put_zigzag32(n_value, "address.value")) + value_


def read_payload(buf: bytes, pos: int, end: int) -> tuple[Payload, int]:
    data = buf[pos:end]
    pos = end
    return Payload(data=data), pos


def write_payload(value: Payload) -> bytes:
    data = value.data
    return data


def read_data(buf: bytes, pos: int, end: int) -> tuple[Data, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "data.name", pos)
    n_name = buf[pos]
    if n_name < 0x80:
        n_name = n_name >> 1 ^ -(n_name & 1)
        pos += 1
    else:
        n_name, pos = rt.zigzag32(buf, pos, end, "data.name")
    start = pos
    pos += n_name
    if n_name < 0 or pos > end:
        raise rt.overrun("data.name", start, n_name, end)
    try:
        name = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("data.name", start, error) from None
    value_, pos = read_var(buf, pos, end, 0, [65536])
    return Data(name=name, value=value_), pos


def write_data(value: Data) -> bytes:
    try:
        name = value.name.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("data.name", error) from None
    n_name = len(name)
    return (_ZIGZAG[n_name] if n_name < 64 else rt.put_zigzag32(n_name, "data.name")) + name + write_var(value.value, 0, [65536])


def read_header(buf: bytes, pos: int, end: int) -> tuple[Header, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "header.name", pos)
    n_name = buf[pos]
    if n_name < 0x80:
        n_name = n_name >> 1 ^ -(n_name & 1)
        pos += 1
    else:
        n_name, pos = rt.zigzag32(buf, pos, end, "header.name")
    start = pos
    pos += n_name
    if n_name < 0 or pos > end:
        raise rt.overrun("header.name", start, n_name, end)
    try:
        name = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("header.name", start, error) from None
    value_, pos = read_var(buf, pos, end, 0, [65536])
    return Header(name=name, value=value_), pos


def write_header(value: Header) -> bytes:
    try:
        name = value.name.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("header.name", error) from None
    n_name = len(name)
    return (_ZIGZAG[n_name] if n_name < 64 else rt.put_zigzag32(n_name, "header.name")) + name + write_var(value.value, 0, [65536])


def read_source_message_id(buf: bytes, pos: int, end: int) -> tuple[SourceMessageId, int]:
    if end - pos != 8:
        raise rt.wrong_row_size("source_message_id", pos, end, 8)
    value_, = _unpack_Q_be(buf, pos)
    pos += 8
    return SourceMessageId(value=value_), pos


def write_source_message_id(value: SourceMessageId) -> bytes:
    try:
        return _pack_Q_be(value.value)
    except (struct.error, OverflowError):
        raise rt.unfit("source_message_id", ("value", ">Q", value.value)) from None


def read_message_id(buf: bytes, pos: int, end: int) -> tuple[MessageId, int]:
    if end - pos != 8:
        raise rt.wrong_row_size("message_id", pos, end, 8)
    value_, = _unpack_Q_be(buf, pos)
    pos += 8
    return MessageId(value=value_), pos


def write_message_id(value: MessageId) -> bytes:
    try:
        return _pack_Q_be(value.value)
    except (struct.error, OverflowError):
        raise rt.unfit("message_id", ("value", ">Q", value.value)) from None


def read_session_info(buf: bytes, pos: int, end: int) -> tuple[SessionInfo, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "session_info.name", pos)
    n_name = buf[pos]
    if n_name < 0x80:
        n_name = n_name >> 1 ^ -(n_name & 1)
        pos += 1
    else:
        n_name, pos = rt.zigzag32(buf, pos, end, "session_info.name")
    start = pos
    pos += n_name
    if n_name < 0 or pos > end:
        raise rt.overrun("session_info.name", start, n_name, end)
    try:
        name = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("session_info.name", start, error) from None
    value_, pos = read_var(buf, pos, end, 0, [65536])
    return SessionInfo(name=name, value=value_), pos


def write_session_info(value: SessionInfo) -> bytes:
    try:
        name = value.name.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("session_info.name", error) from None
    n_name = len(name)
    return (_ZIGZAG[n_name] if n_name < 64 else rt.put_zigzag32(n_name, "session_info.name")) + name + write_var(value.value, 0, [65536])


_MESSAGE_READERS: dict[int, Any] = {
    0x10: read_session_info,
    0x11: read_message_id,
    0x12: read_source_message_id,
    0x14: read_header,
    0x15: read_data,
    0x16: read_payload,
    0x17: read_address,
    0x18: read_source_address,
    0x1b: read_seq_no,
    0x1c: read_xdata,
    0x1d: read_error,
    0x1e: read_flag,
    0x1f: read_version,
}
_MESSAGE_WRITERS: dict[type, tuple[int, Any]] = {
    SessionInfo: (0x10000000, write_session_info),
    MessageId: (0x11000000, write_message_id),
    SourceMessageId: (0x12000000, write_source_message_id),
    Header: (0x14000000, write_header),
    Data: (0x15000000, write_data),
    Payload: (0x16000000, write_payload),
    Address: (0x17000000, write_address),
    SourceAddress: (0x18000000, write_source_address),
    SeqNo: (0x1b000000, write_seq_no),
    XData: (0x1c000000, write_xdata),
    Error: (0x1d000000, write_error),
    Flag: (0x1e000000, write_flag),
    Version: (0x1f000000, write_version),
}
_MESSAGE_NAMES = {
    0x10: "session_info",
    0x11: "message_id",
    0x12: "source_message_id",
    0x14: "header",
    0x15: "data",
    0x16: "payload",
    0x17: "address",
    0x18: "source_address",
    0x1b: "seq_no",
    0x1c: "xdata",
    0x1d: "error",
    0x1e: "flag",
    0x1f: "version",
}


def scan_message(buf: bytes, pos: int, end: int, limit: int = 33554432, resume: int | None = None) -> int:
    most = pos + limit
    if resume is not None:
        pos = resume
    while True:
        at = pos + 4
        if at > end:
            raise NeedMore(at - end, pos)
        (head,) = _unpack_I_be(buf, pos)
        size = head & 0xFFFFFF
        stop = at + size
        if stop > most:
            raise rt.refuse("too_large", "message.rows", pos, f"over {limit} bytes")
        tag = head >> 24
        if tag == 0:
            if size:
                raise rt.refuse("bad_end", "message.rows", pos, f"{size} bytes")
            break
        if stop > end:
            raise NeedMore(stop - end, pos)
        pos = stop
    return at


def decode_message(buf: bytes, pos: int, end: int, limit: int = 33554432) -> tuple[Message, int]:
    most = pos + limit
    rows: list[Any] = []
    add = rows.append
    for _ in range(65537):
        at = pos + 4
        if at > end:
            raise NeedMore(at - end, pos)
        (head,) = _unpack_I_be(buf, pos)
        size = head & 0xFFFFFF
        stop = at + size
        if stop > most:
            raise rt.refuse("too_large", "message.rows", pos, f"over {limit} bytes")
        tag = head >> 24
        if tag == 0:
            if size:
                raise rt.refuse("bad_end", "message.rows", pos, f"{size} bytes")
            break
        if stop > end:
            raise NeedMore(stop - end, pos)
        read = _MESSAGE_READERS.get(tag)
        if read is None:
            add(OpaqueRow(type=tag, data=buf[at:stop]))
        else:
            try:
                row, pos = read(buf, at, stop)
                if pos != stop:
                    raise rt.trailing_row(_MESSAGE_NAMES[tag], tag, pos, stop)
                add(row)
            except DecodeError as error:
                offset = (error.offset or at) - at
                data = buf[at:stop]
                add(BrokenRow(type=tag, data=data, code=error.code, field=error.field, offset=offset))
        pos = stop
    else:
        raise rt.refuse("too_many", "message.rows", pos)
    return Message(rows=tuple(rows)), at


def encode_message(value: Message) -> bytes:
    if len(value.rows) > 65536:
        raise EncodeError("too_many", "message.rows", None, str(len(value.rows)))
    parts = []
    for row in value.rows:
        entry = _MESSAGE_WRITERS.get(type(row))
        if entry is not None:
            head, write = entry
            data = write(row)
        elif isinstance(row, OpaqueRow | BrokenRow):
            head, data = row.type << 24, row.data
            if not 0 <= row.type <= 255 or row.type == 0:
                raise rt.out_of_range("message.rows", row.type, "a row type")
        else:
            raise rt.no_layout("message.rows", row)
        if len(data) > 0xFFFFFF:
            raise EncodeError("too_large", "message.rows", None, f"{len(data)} bytes in a row")
        parts.append(_pack_I_be(head | len(data)))
        parts.append(data)
    parts.append(b'\x00\x00\x00\x00')
    return b"".join(parts)

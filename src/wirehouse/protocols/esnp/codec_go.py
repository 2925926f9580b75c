"""Codec of esnp, dialect go. Generated from wirehouse.protocols.esnp.layout: do not edit.

Make it anew with `python -m wirehouse.wire.generate`; a test fails when it is out of date.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

import struct
from typing import Any, NoReturn

from wirehouse.wire import runtime as rt
from wirehouse.wire.errors import DecodeError, EncodeError, NeedMore
from wirehouse.protocols.esnp.layout import (
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



def read_var(buf: bytes, pos: int, end: int, depth: int, budget: list[int]) -> tuple[Var, int]:
    if pos >= end:
        raise rt.refuse("short", "var.type", pos)
    tag = buf[pos]
    pos += 1
    value: Any
    if tag == 0:  # null
        value = None
    elif tag == 1:  # bool
        if pos >= end:
            raise rt.short("var", pos, end, ("bool", 1))
        value = buf[pos]
        value = value != 0
        pos += 1
    elif tag == 2:  # int
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.int", pos)
        value = buf[pos]
        if value < 0x80:
            value = value >> 1 ^ -(value & 1)
            pos += 1
        else:
            value, pos = rt.zigzag32(buf, pos, end, "var.int")
    elif tag == 3:  # int8
        if pos >= end:
            raise rt.short("var", pos, end, ("int8", 1))
        value, = _unpack_b_be(buf, pos)
        pos += 1
    elif tag == 4:  # int16
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.int16", pos)
        value = buf[pos]
        if value < 0x80:
            value = value >> 1 ^ -(value & 1)
            pos += 1
        else:
            value, pos = rt.zigzag16(buf, pos, end, "var.int16")
    elif tag == 5:  # int32
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.int32", pos)
        value = buf[pos]
        if value < 0x80:
            value = value >> 1 ^ -(value & 1)
            pos += 1
        else:
            value, pos = rt.zigzag32(buf, pos, end, "var.int32")
    elif tag == 6:  # int64
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.int64", pos)
        value = buf[pos]
        if value < 0x80:
            value = value >> 1 ^ -(value & 1)
            pos += 1
        else:
            value, pos = rt.zigzag64(buf, pos, end, "var.int64")
    elif tag == 7:  # uint
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.uint", pos)
        value = buf[pos]
        if value < 0x80:
            pos += 1
        else:
            value, pos = rt.uvarint32(buf, pos, end, "var.uint")
    elif tag == 8:  # uint8
        if pos >= end:
            raise rt.short("var", pos, end, ("uint8", 1))
        value = buf[pos]
        pos += 1
    elif tag == 9:  # uint16
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.uint16", pos)
        value = buf[pos]
        if value < 0x80:
            pos += 1
        else:
            value, pos = rt.uvarint16(buf, pos, end, "var.uint16")
    elif tag == 10:  # uint32
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.uint32", pos)
        value = buf[pos]
        if value < 0x80:
            pos += 1
        else:
            value, pos = rt.uvarint32(buf, pos, end, "var.uint32")
    elif tag == 11:  # uint64
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.uint64", pos)
        value = buf[pos]
        if value < 0x80:
            pos += 1
        else:
            value, pos = rt.uvarint(buf, pos, end, "var.uint64")
    elif tag == 13:  # float32
        if pos + 4 > end:
            raise rt.short("var", pos, end, ("float32", 4))
        value, = _unpack_f_be(buf, pos)
        if value != value:
            value = rt.nan32(buf, pos, "big")
        pos += 4
    elif tag == 14:  # float64
        if pos + 8 > end:
            raise rt.short("var", pos, end, ("float64", 8))
        value, = _unpack_d_be(buf, pos)
        pos += 8
    elif tag == 17:  # len_bytes
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.len_bytes", pos)
        size = buf[pos]
        if size < 0x80:
            size = size >> 1 ^ -(size & 1)
            pos += 1
        else:
            size, pos = rt.zigzag32(buf, pos, end, "var.len_bytes")
        if size < 0 or size > end - pos:
            raise rt.overrun("var.len_bytes", pos, size, end)
        start = pos
        pos += size
        value = buf[start:pos]
    elif tag == 21:  # map
        if depth >= 64:
            raise rt.refuse("too_deep", "var.map", pos)
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.map", pos)
        size = buf[pos]
        if size < 0x80:
            pos += 1
        else:
            size, pos = rt.uvarint32(buf, pos, end, "var.map")
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
            if size < 0 or size > end - pos:
                raise rt.overrun("var.map.key", pos, size, end)
            start = pos
            pos += size
            try:
                key = buf[start:pos].decode()
            except UnicodeDecodeError as error:
                raise rt.not_utf8("var.map.key", start, error) from None
            item, pos = read_var(buf, pos, end, depth + 1, budget)
            pairs.append((key, item))
        value = tuple(pairs)
    elif tag == 23:  # list
        if depth >= 64:
            raise rt.refuse("too_deep", "var.list", pos)
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.list", pos)
        size = buf[pos]
        if size < 0x80:
            pos += 1
        else:
            size, pos = rt.uvarint32(buf, pos, end, "var.list")
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
    elif tag == 24:  # len_string
        if pos >= end:
            raise rt.refuse("varint_truncated", "var.len_string", pos)
        size = buf[pos]
        if size < 0x80:
            size = size >> 1 ^ -(size & 1)
            pos += 1
        else:
            size, pos = rt.zigzag32(buf, pos, end, "var.len_string")
        if size < 0 or size > end - pos:
            raise rt.overrun("var.len_string", pos, size, end)
        start = pos
        pos += size
        try:
            value = buf[start:pos].decode()
        except UnicodeDecodeError as error:
            raise rt.not_utf8("var.len_string", start, error) from None
    else:
        raise rt.refuse("unknown_var_type", "var.type", pos - 1, str(tag))
    return Var(type=tag, value=value), pos


def write_var(value: Var, depth: int) -> bytes:
    tag = value.type
    inner: Any = value.value
    if depth > 64:
        raise EncodeError("too_deep", "var", None)
    if tag == 0:  # null
        return b'\x00'
    elif tag == 1:  # bool
        return b'\x01\x01' if inner else b'\x01\x00'
    elif tag == 2:  # int
        return b'\x02' + (_BYTE[inner << 1 if inner >= 0 else ~(inner << 1)] if -64 <= inner < 64 else rt.put_zigzag(inner, 32, "var.int"))
    elif tag == 3:  # int8
        return b'\x03' + rt.put_int_of(inner, 1, True, "var.int8")
    elif tag == 4:  # int16
        return b'\x04' + (_BYTE[inner << 1 if inner >= 0 else ~(inner << 1)] if -64 <= inner < 64 else rt.put_zigzag(inner, 16, "var.int16"))
    elif tag == 5:  # int32
        return b'\x05' + (_BYTE[inner << 1 if inner >= 0 else ~(inner << 1)] if -64 <= inner < 64 else rt.put_zigzag(inner, 32, "var.int32"))
    elif tag == 6:  # int64
        return b'\x06' + (_BYTE[inner << 1 if inner >= 0 else ~(inner << 1)] if -64 <= inner < 64 else rt.put_zigzag(inner, 64, "var.int64"))
    elif tag == 7:  # uint
        return b'\x07' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_uvarint(inner, 32, "var.uint"))
    elif tag == 8:  # uint8
        return b'\x08' + rt.put_int_of(inner, 1, False, "var.uint8")
    elif tag == 9:  # uint16
        return b'\t' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_uvarint(inner, 16, "var.uint16"))
    elif tag == 10:  # uint32
        return b'\n' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_uvarint(inner, 32, "var.uint32"))
    elif tag == 11:  # uint64
        return b'\x0b' + (_BYTE[inner] if 0 <= inner < 128 else rt.put_uvarint(inner, 64, "var.uint64"))
    elif tag == 13:  # float32
        return b'\r' + rt.put_f32(inner, "big", "var.float32")
    elif tag == 14:  # float64
        return b'\x0e' + _pack_d_be(inner)
    elif tag == 17:  # len_bytes
        data = bytes(inner)
        size = len(data)
        return b'\x11' + (_BYTE[size << 1 if size >= 0 else ~(size << 1)] if -64 <= size < 64 else rt.put_zigzag(size, 32, "var.len_bytes")) + data
    elif tag == 21:  # map
        if depth >= 64:
            raise EncodeError("too_deep", "var.map", None)
        size = len(inner)
        parts = [b'\x15', (_BYTE[size] if 0 <= size < 128 else rt.put_uvarint(size, 32, "var.map"))]
        for key, item in inner:
            data = rt.put_text(key, "var.map.key")
            size = len(data)
            parts.append((_BYTE[size << 1 if size >= 0 else ~(size << 1)] if -64 <= size < 64 else rt.put_zigzag(size, 32, "var.map")))
            parts.append(data)
            parts.append(write_var(item, depth + 1))
        return b"".join(parts)
    elif tag == 23:  # list
        if depth >= 64:
            raise EncodeError("too_deep", "var.list", None)
        size = len(inner)
        parts = [b'\x17', (_BYTE[size] if 0 <= size < 128 else rt.put_uvarint(size, 32, "var.list"))]
        for item in inner:
            parts.append(write_var(item, depth + 1))
        return b"".join(parts)
    elif tag == 24:  # len_string
        data = rt.put_text(inner, "var.len_string")
        size = len(data)
        return b'\x18' + (_BYTE[size << 1 if size >= 0 else ~(size << 1)] if -64 <= size < 64 else rt.put_zigzag(size, 32, "var.len_string")) + data
    raise EncodeError("unknown_var_type", "var.type", None, str(tag))


def read_version(buf: bytes, pos: int, end: int) -> tuple[Version, int]:
    if pos + 4 > end:
        raise rt.short("version", pos, end, ("major", 1), ("minor", 1), ("branch", 1), ("variant", 1))
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
    return (_BYTE[v_value << 1 if v_value >= 0 else ~(v_value << 1)] if -64 <= v_value < 64 else rt.put_zigzag(v_value, 32, "flag.value"))


def read_error(buf: bytes, pos: int, end: int) -> tuple[Error, int]:
    try:
        value_ = buf[pos:end].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("error.value", pos, error) from None
    pos = end
    return Error(value=value_), pos


def write_error(value: Error) -> bytes:
    value_ = rt.put_text(value.value, "error.value")
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
    return (_BYTE[v_id << 1 if v_id >= 0 else ~(v_id << 1)] if -64 <= v_id < 64 else rt.put_zigzag(v_id, 32, "xdata.id")) + data


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
    return (_BYTE[v_current << 1 if v_current >= 0 else ~(v_current << 1)] if -64 <= v_current < 64 else rt.put_zigzag(v_current, 32, "seq_no.current")) + (_BYTE[v_maximum << 1 if v_maximum >= 0 else ~(v_maximum << 1)] if -64 <= v_maximum < 64 else rt.put_zigzag(v_maximum, 32, "seq_no.maximum"))


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
    if n_value_ < 0 or n_value_ > end - pos:
        raise rt.overrun("source_address.value", pos, n_value_, end)
    start = pos
    pos += n_value_
    try:
        value_ = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("source_address.value", start, error) from None
    return SourceAddress(kind=kind, value=value_), pos


def write_source_address(value: SourceAddress) -> bytes:
    v_kind = value.kind
    value_ = rt.put_text(value.value, "source_address.value")
    n_value = len(value_)
    return (_BYTE[v_kind << 1 if v_kind >= 0 else ~(v_kind << 1)] if -64 <= v_kind < 64 else rt.put_zigzag(v_kind, 32, "source_address.kind")) + (_BYTE[n_value << 1 if n_value >= 0 else ~(n_value << 1)] if -64 <= n_value < 64 else rt.put_zigzag(n_value, 32, "source_address.value")) + value_


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
    if n_value_ < 0 or n_value_ > end - pos:
        raise rt.overrun("address.value", pos, n_value_, end)
    start = pos
    pos += n_value_
    try:
        value_ = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("address.value", start, error) from None
    return Address(kind=kind, value=value_), pos


def write_address(value: Address) -> bytes:
    v_kind = value.kind
    value_ = rt.put_text(value.value, "address.value")
    n_value = len(value_)
    return (_BYTE[v_kind << 1 if v_kind >= 0 else ~(v_kind << 1)] if -64 <= v_kind < 64 else rt.put_zigzag(v_kind, 32, "address.kind")) + (_BYTE[n_value << 1 if n_value >= 0 else ~(n_value << 1)] if -64 <= n_value < 64 else rt.put_zigzag(n_value, 32, "address.value")) + value_


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
    if n_name < 0 or n_name > end - pos:
        raise rt.overrun("data.name", pos, n_name, end)
    start = pos
    pos += n_name
    try:
        name = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("data.name", start, error) from None
    value_, pos = read_var(buf, pos, end, 0, [65536])
    return Data(name=name, value=value_), pos


def write_data(value: Data) -> bytes:
    name = rt.put_text(value.name, "data.name")
    n_name = len(name)
    return (_BYTE[n_name << 1 if n_name >= 0 else ~(n_name << 1)] if -64 <= n_name < 64 else rt.put_zigzag(n_name, 32, "data.name")) + name + write_var(value.value, 0)


def read_header(buf: bytes, pos: int, end: int) -> tuple[Header, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "header.name", pos)
    n_name = buf[pos]
    if n_name < 0x80:
        n_name = n_name >> 1 ^ -(n_name & 1)
        pos += 1
    else:
        n_name, pos = rt.zigzag32(buf, pos, end, "header.name")
    if n_name < 0 or n_name > end - pos:
        raise rt.overrun("header.name", pos, n_name, end)
    start = pos
    pos += n_name
    try:
        name = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("header.name", start, error) from None
    value_, pos = read_var(buf, pos, end, 0, [65536])
    return Header(name=name, value=value_), pos


def write_header(value: Header) -> bytes:
    name = rt.put_text(value.name, "header.name")
    n_name = len(name)
    return (_BYTE[n_name << 1 if n_name >= 0 else ~(n_name << 1)] if -64 <= n_name < 64 else rt.put_zigzag(n_name, 32, "header.name")) + name + write_var(value.value, 0)


def read_source_message_id(buf: bytes, pos: int, end: int) -> tuple[SourceMessageId, int]:
    if pos + 8 > end:
        raise rt.short("source_message_id", pos, end, ("value", 8))
    value_, = _unpack_Q_be(buf, pos)
    pos += 8
    return SourceMessageId(value=value_), pos


def write_source_message_id(value: SourceMessageId) -> bytes:
    try:
        return _pack_Q_be(value.value)
    except (struct.error, OverflowError):
        raise rt.unfit("source_message_id", ("value", ">Q", value.value)) from None


def read_message_id(buf: bytes, pos: int, end: int) -> tuple[MessageId, int]:
    if pos + 8 > end:
        raise rt.short("message_id", pos, end, ("value", 8))
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
    if n_name < 0 or n_name > end - pos:
        raise rt.overrun("session_info.name", pos, n_name, end)
    start = pos
    pos += n_name
    try:
        name = buf[start:pos].decode()
    except UnicodeDecodeError as error:
        raise rt.not_utf8("session_info.name", start, error) from None
    value_, pos = read_var(buf, pos, end, 0, [65536])
    return SessionInfo(name=name, value=value_), pos


def write_session_info(value: SessionInfo) -> bytes:
    name = rt.put_text(value.name, "session_info.name")
    n_name = len(name)
    return (_BYTE[n_name << 1 if n_name >= 0 else ~(n_name << 1)] if -64 <= n_name < 64 else rt.put_zigzag(n_name, 32, "session_info.name")) + name + write_var(value.value, 0)


_MESSAGE_READERS: dict[int, tuple[Any, int, str]] = {
    0x10: (read_session_info, -1, "session_info"),
    0x11: (read_message_id, 8, "message_id"),
    0x12: (read_source_message_id, 8, "source_message_id"),
    0x14: (read_header, -1, "header"),
    0x15: (read_data, -1, "data"),
    0x16: (read_payload, -1, "payload"),
    0x17: (read_address, -1, "address"),
    0x18: (read_source_address, -1, "source_address"),
    0x1b: (read_seq_no, -1, "seq_no"),
    0x1c: (read_xdata, -1, "xdata"),
    0x1d: (read_error, -1, "error"),
    0x1e: (read_flag, -1, "flag"),
    0x1f: (read_version, 4, "version"),
}
_MESSAGE_WRITERS: dict[type, tuple[int, Any]] = {
    SessionInfo: (0x10, write_session_info),
    MessageId: (0x11, write_message_id),
    SourceMessageId: (0x12, write_source_message_id),
    Header: (0x14, write_header),
    Data: (0x15, write_data),
    Payload: (0x16, write_payload),
    Address: (0x17, write_address),
    SourceAddress: (0x18, write_source_address),
    SeqNo: (0x1b, write_seq_no),
    XData: (0x1c, write_xdata),
    Error: (0x1d, write_error),
    Flag: (0x1e, write_flag),
    Version: (0x1f, write_version),
}


def scan_message(buf: bytes, pos: int, end: int, limit: int = 33554432) -> int:
    start = pos
    while True:
        at = pos + 4
        if at > end:
            raise NeedMore(at - end)
        (head,) = _unpack_I_be(buf, pos)
        size = head & 0xFFFFFF
        stop = at + size
        if stop - start > limit:
            raise rt.refuse("too_large", "message.rows", pos, f"over {limit} bytes")
        tag = head >> 24
        if tag == 0:
            if size:
                raise rt.refuse("bad_end", "message.rows", pos, f"{size} bytes")
            break
        if stop > end:
            raise NeedMore(stop - end)
        pos = stop
    return at


def decode_message(buf: bytes, pos: int, end: int, limit: int = 33554432) -> tuple[Message, int]:
    start = pos
    rows: list[Any] = []
    add = rows.append
    while True:
        at = pos + 4
        if at > end:
            raise NeedMore(at - end)
        (head,) = _unpack_I_be(buf, pos)
        size = head & 0xFFFFFF
        stop = at + size
        if stop - start > limit:
            raise rt.refuse("too_large", "message.rows", pos, f"over {limit} bytes")
        tag = head >> 24
        if tag == 0:
            if size:
                raise rt.refuse("bad_end", "message.rows", pos, f"{size} bytes")
            break
        if stop > end:
            raise NeedMore(stop - end)
        entry = _MESSAGE_READERS.get(tag)
        if entry is None:
            add(OpaqueRow(type=tag, data=buf[at:stop]))
        else:
            read, exact, name = entry
            try:
                if size != exact and exact >= 0:
                    raise rt.refuse("bad_length", name, at, f"{exact} bytes wanted, {size} given")
                row, pos = read(buf, at, stop)
                if pos != stop:
                    raise rt.refuse("trailing_bytes", name, pos, f"{stop - pos} left")
                add(row)
            except DecodeError as error:
                offset = (error.offset or at) - at
                data = buf[at:stop]
                add(BrokenRow(type=tag, data=data, code=error.code, field=error.field, offset=offset))
        pos = stop
        if len(rows) > 65536:
            raise rt.refuse("too_many", "message.rows", pos)
    return Message(rows=tuple(rows)), at


def encode_message(value: Message) -> bytes:
    parts = []
    for row in value.rows:
        entry = _MESSAGE_WRITERS.get(type(row))
        if entry is not None:
            tag, write = entry
            data = write(row)
        elif isinstance(row, OpaqueRow | BrokenRow):
            tag, data = row.type, row.data
            if not 0 <= tag <= 255 or tag == 0:
                raise rt.out_of_range("message.rows", tag, "a row type")
        else:
            raise rt.no_layout("message.rows", row)
        if len(data) > 0xFFFFFF:
            raise EncodeError("too_large", "message.rows", None, f"{len(data)} bytes in a row")
        parts.append(_pack_I_be(tag << 24 | len(data)))
        parts.append(data)
    parts.append(b'\x00\x00\x00\x00')
    return b"".join(parts)

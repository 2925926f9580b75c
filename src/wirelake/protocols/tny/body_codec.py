"""The optional body codec TypeProtobuf of tny's original: one value, or the parameters of a call.

Implements the body codec of §2 of the tny rules. The protocol itself carries bodies as bytes; peers
that use this codec put a tag before each value:

    bits 0-4   type: null, byte, short, int, long, float, double, bool, string, complex
    bit 7      the value is one of a parameter list

A body is one value without bit 7, or a list of values with it. An empty body is an empty list.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.types import Layout

__all__ = ["BodyType", "BodyValue", "Complex", "decode_body", "encode_body"]


class BodyType(IntEnum):
    """The types of a value."""

    NULL = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    BOOL = 7
    STRING = 8
    COMPLEX = 9


class Complex(Layout):
    """A protobuf message whose class a number names."""

    type_id: int
    """Which class, a signed number."""
    protobuf: bytes = b""
    """The message."""


class BodyValue(Layout):
    """A value and its type, so that it can be written back as it was."""

    type: int
    """A `BodyType`."""
    value: bool | int | float | str | Complex | None = None
    """The value."""


_LISTED: Final = 0x80
_TYPE_MASK: Final = 0x1F
_WIDTHS: Final = {BodyType.SHORT: 16, BodyType.INT: 32, BodyType.LONG: 64}
_FLOATS: Final = {BodyType.FLOAT: ("<f", "<I", 32), BodyType.DOUBLE: ("<d", "<Q", 64)}


def decode_body(data: bytes) -> BodyValue | tuple[BodyValue, ...]:
    """One value, or the parameters of a call. Raises DecodeError only."""
    values: list[BodyValue] = []
    pos, end = 0, len(data)
    while pos < end:
        tag = data[pos]
        if tag & ~(_LISTED | _TYPE_MASK):
            raise DecodeError("reserved_value", "body.tag", pos, f"{tag:#04x}")
        listed = bool(tag & _LISTED)
        if values and not listed:
            raise DecodeError("bad_value", "body.tag", pos, "a lone value after parameters")
        value, stop = _read(tag & _TYPE_MASK, data, pos + 1, end)
        if not listed:
            if stop != end:
                raise DecodeError("trailing_bytes", "body", stop, f"{end - stop} left")
            return value
        values.append(value)
        pos = stop
    return tuple(values)


def _read(number: int, data: bytes, pos: int, end: int) -> tuple[BodyValue, int]:
    try:
        kind = BodyType(number)
    except ValueError:
        raise DecodeError("unknown_type", "body.tag", pos - 1, str(number)) from None
    value, pos = _read_value(kind, data, pos, end, f"body.{kind.name.lower()}")
    return BodyValue(type=kind, value=value), pos


def _read_value(kind: BodyType, data: bytes, pos: int, end: int, field: str) -> tuple[Any, int]:
    match kind:
        case BodyType.NULL:
            return None, pos
        case BodyType.BYTE:
            if pos >= end:
                raise DecodeError("short", field, pos)
            return int.from_bytes(data[pos : pos + 1], "big", signed=True), pos + 1
        case BodyType.SHORT | BodyType.INT | BodyType.LONG:
            return _read_int(_WIDTHS[kind], data, pos, end, field)
        case BodyType.FLOAT | BodyType.DOUBLE:
            form, bits_form, width = _FLOATS[kind]
            bits, pos = _read_int(width, data, pos, end, field)
            raw = struct.pack(bits_form, bits % (1 << width))
            if kind is BodyType.FLOAT and bits & 0x7F800000 == 0x7F800000 and bits & 0x7FFFFF:
                return rt.nan32(raw, 0, "little"), pos
            return struct.unpack(form, raw)[0], pos
        case BodyType.BOOL:
            number, pos = rt.loose_twos32(data, pos, end, field)
            return number != 0, pos
        case BodyType.STRING:
            text, start, pos = _read_bytes(data, pos, end, field)
            try:
                return text.decode(), pos
            except UnicodeDecodeError as error:
                raise rt.not_utf8(field, start, error) from None
        case BodyType.COMPLEX:
            blob, start, pos = _read_bytes(data, pos, end, field)
            if len(blob) < 4:
                raise DecodeError("short", f"{field}.type_id", start, f"4 wanted, {len(blob)} left")
            type_id = int.from_bytes(blob[:4], "little", signed=True)
            return Complex(type_id=type_id, protobuf=blob[4:]), pos


def _read_int(width: int, data: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    if width == 64:
        return rt.loose_twos64(data, pos, end, field)
    number, stop = rt.loose_twos32(data, pos, end, field)
    if width == 16 and not -(1 << 15) <= number < 1 << 15:
        raise DecodeError("int_range", field, pos, f"{number} needs more than 16 bits")
    return number, stop


def _read_bytes(data: bytes, pos: int, end: int, field: str) -> tuple[bytes, int, int]:
    size, start = rt.loose_twos32(data, pos, end, field)
    if size < 0 or size > end - start:
        raise rt.overrun(field, start, size, end)
    return data[start : start + size], start, start + size


def encode_body(body: BodyValue | tuple[BodyValue, ...]) -> bytes:
    """Return the bytes of a value, or of the parameters of a call. Raises EncodeError only."""
    try:
        if isinstance(body, BodyValue):
            return bytes([BodyType(body.type)]) + _write(body)
        return b"".join(bytes([_LISTED | BodyType(v.type)]) + _write(v) for v in body)
    except (AttributeError, TypeError, ValueError) as error:
        raise EncodeError("bad_value", "body", None, str(error)) from error


def _write(body: BodyValue) -> bytes:
    kind, value = BodyType(body.type), body.value
    field = f"body.{kind.name.lower()}"
    match kind, value:
        case BodyType.NULL, None:
            return b""
        case BodyType.BOOL, bool():
            return b"\x01" if value else b"\x00"
        case _, bool():
            raise rt.no_layout(field, value)
        case BodyType.BYTE, int():
            return rt.put_int_of(value, 1, True, field)
        case ((BodyType.SHORT | BodyType.INT | BodyType.LONG), int()):
            return _write_int(kind, value, field)
        case ((BodyType.FLOAT | BodyType.DOUBLE), int() | float()):
            return _write_float(kind, float(value), field)
        case BodyType.STRING, str():
            return _sized(rt.put_text(value, field), field)
        case BodyType.COMPLEX, Complex():
            type_id = value.type_id & 0xFFFFFFFF
            if value.type_id != rt.int32_of(type_id):
                raise rt.out_of_range(f"{field}.type_id", value.type_id, "an integer of 4 bytes")
            return _sized(type_id.to_bytes(4, "little") + value.protobuf, field)
        case _:
            raise rt.no_layout(field, value)


def _write_int(kind: BodyType, value: int, field: str) -> bytes:
    width = _WIDTHS[kind]
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise rt.out_of_range(field, value, f"a signed number of {width} bits")
    # A short travels as the int that it is widened to, so a negative one takes five bytes.
    return rt.put_twos64(value, field) if width == 64 else rt.put_twos32(value, field)


def _write_float(kind: BodyType, value: float, field: str) -> bytes:
    raw = rt.put_f32(value, "little", field) if kind is BodyType.FLOAT else struct.pack("<d", value)
    return rt.write_uvarint(int.from_bytes(raw, "little"))


def _sized(data: bytes, field: str) -> bytes:
    return rt.put_twos32(len(data), field) + data

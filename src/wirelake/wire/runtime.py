"""What generated codecs call outside of their straight-line code: long varints, NaNs, and errors.

The fast path is in the generated code. Every function here that reads takes the buffer, the
position, the end of the slice and the dotted name of the field, and raises `DecodeError` only.
"""

from __future__ import annotations

import math
import struct
from typing import Final, Literal

from .errors import DecodeError, EncodeError

BYTE: Final = tuple(bytes([n]) for n in range(256))
"""The 256 single bytes, created once."""

ZIGZAG: Final = tuple(bytes([2 * n]) for n in range(64)) + tuple(
    bytes([-2 * n - 1]) for n in range(-64, 0)
)
"""The single byte of each number from -64 to 63, found by that number as an index."""

_MASK64 = (1 << 64) - 1
_F32 = {"big": struct.Struct(">f"), "little": struct.Struct("<f")}
_F64_BITS = struct.Struct(">Q")
_F64 = struct.Struct(">d")


# -- errors of readers -----------------------------------------------------------------------


def refuse(code: str, field: str, offset: int, detail: str = "") -> DecodeError:
    """Return the error of a rule that is violated at an offset."""
    return DecodeError(code, field, offset, detail)


def short(layout: str, pos: int, end: int, *fields: tuple[str, int]) -> DecodeError:
    """Return the error of fixed-size fields that exceed the remaining bytes, naming the first."""
    for name, size in fields:
        if pos + size > end:
            return DecodeError(
                "short", f"{layout}.{name}", pos, f"expected {size} bytes, found {end - pos}"
            )
        pos += size
    return DecodeError("short", layout, pos)


def overrun(field: str, pos: int, length: int, end: int) -> DecodeError:
    """Return the error of a length that is negative or exceeds the remaining bytes."""
    if length < 0:
        return DecodeError("negative_length", field, pos, str(length))
    return DecodeError("length_overrun", field, pos, f"{length} declared, {end - pos} bytes left")


def not_utf8(field: str, start: int, error: UnicodeDecodeError) -> DecodeError:
    """Return the error of a string that is not UTF-8."""
    return DecodeError("invalid_utf8", field, start + error.start, error.reason)


def wrong_row_size(layout: str, pos: int, end: int, size: int) -> DecodeError:
    """Return the error of a row of another size than its fixed one."""
    return DecodeError("bad_length", layout, pos, f"expected {size} bytes, found {end - pos}")


def trailing_row(layout: str, tag: int, pos: int, stop: int) -> DecodeError:
    """Return the error of bytes that remain in a row."""
    return DecodeError(
        "trailing_bytes", layout, pos, f"{stop - pos} left in a row of type {tag:#x}"
    )


# -- varints ---------------------------------------------------------------------------------


def uvarint(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return an unsigned LEB128 number of at most 64 bits.

    Unrolled to six bytes, which hold a timestamp in milliseconds. The continuation bits are not
    masked one by one but subtracted. The buffer may be longer than the slice: the end is checked
    once, when the last byte is known.
    """
    # No loop, no shift counter and no mask per byte. Generated code reads a single byte in line, so
    # ids, numbers and times come here; longer numbers are rare and go to the loop below.
    try:
        value = buf[pos]
        stop = pos + 1
        if value >= 0x80:
            byte = buf[pos + 1]
            value += (byte << 7) - 0x80
            stop = pos + 2
            if byte >= 0x80:
                byte = buf[pos + 2]
                value += (byte << 14) - 0x4000
                stop = pos + 3
                if byte >= 0x80:
                    byte = buf[pos + 3]
                    value += (byte << 21) - 0x20_0000
                    stop = pos + 4
                    if byte >= 0x80:
                        byte = buf[pos + 4]
                        value += (byte << 28) - 0x1000_0000
                        stop = pos + 5
                        if byte >= 0x80:
                            byte = buf[pos + 5]
                            value += (byte << 35) - 0x8_0000_0000
                            stop = pos + 6
                            if byte >= 0x80:
                                return _long_uvarint(buf, pos, end, field)
    except IndexError:
        raise DecodeError("varint_truncated", field, pos) from None
    if stop > end:
        raise DecodeError("varint_truncated", field, pos)
    return value, stop


def _long_uvarint(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    value = shift = 0
    start = pos
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Longer forms than necessary are accepted (esnp, section 2; tny, section 1): only the
            # value has to fit.
            # The tenth byte may hold one bit only: 9 * 7 + 1 = 64.
            if value > _MASK64:
                break
            return value, pos
        shift += 7
        if shift == 70:
            break
    else:
        raise DecodeError("varint_truncated", field, start)
    raise DecodeError("varint_overflow", field, start)


def uvarint32(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return an unsigned number of at most 32 bits."""
    found = uvarint(buf, pos, end, field)
    if found[0] > 0xFFFFFFFF:
        raise DecodeError("int_range", field, pos, f"{found[0]} needs more than 32 bits")
    return found


def uvarint16(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return an unsigned number of at most 16 bits."""
    found = uvarint(buf, pos, end, field)
    if found[0] > 0xFFFF:
        raise DecodeError("int_range", field, pos, f"{found[0]} needs more than 16 bits")
    return found


def _zigzag(buf: bytes, pos: int, end: int, field: str, bits: int) -> tuple[int, int]:
    folded, stop = uvarint(buf, pos, end, field)
    # The original truncates silently, so that 65,536 reads as 0 (esnp, section 7).
    if folded >> bits:
        value = (folded >> 1) ^ -(folded & 1)
        raise DecodeError("int_range", field, pos, f"{value} needs more than {bits} bits")
    return (folded >> 1) ^ -(folded & 1), stop


def zigzag16(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return a signed number of 16 bits, sign folded into bit 0."""
    return _zigzag(buf, pos, end, field, 16)


def zigzag32(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return a signed number of 32 bits, sign folded into bit 0."""
    return _zigzag(buf, pos, end, field, 32)


def zigzag64(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return a signed number of 64 bits, sign folded into bit 0."""
    return _zigzag(buf, pos, end, field, 64)


def twos32(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return a signed number of 32 bits as the unsigned number of that width."""
    found = uvarint(buf, pos, end, field)
    if found[0] < 0x8000_0000:
        return found
    if found[0] > 0xFFFF_FFFF:
        raise DecodeError("int_range", field, pos, f"{found[0]} needs more than 32 bits")
    return found[0] - 0x1_0000_0000, found[1]


def twos64(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Return a signed number of 64 bits as the unsigned number of that width."""
    found = uvarint(buf, pos, end, field)
    if found[0] < 0x8000_0000_0000_0000:
        return found
    return found[0] - 0x1_0000_0000_0000_0000, found[1]


# tny's original reads up to ten bytes for any width and keeps the low bits, so that the ten-byte
# negative numbers of protobuf work; dialect `seed` refuses them (tny, section 1).
def _loose(buf: bytes, pos: int, end: int, field: str, bits: int) -> tuple[int, int]:
    value = shift = 0
    start = pos
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value - (1 << bits) if value >> (bits - 1) else value), pos
        if shift == 70:
            raise DecodeError("varint_overflow", field, start)
    raise DecodeError("varint_truncated", field, start)


def loose_twos32(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Like `twos32`; up to ten bytes, of which the low 32 bits count."""
    return _loose(buf, pos, end, field, 32)


def loose_twos64(buf: bytes, pos: int, end: int, field: str) -> tuple[int, int]:
    """Like `twos64`; surplus bits of the tenth byte are dropped."""
    return _loose(buf, pos, end, field, 64)


_LAST_TWO: list[bytes] = []
_NEXT_TWO: list[bytes] = []
"""Two bytes of a varint for each number of 14 bits, once as the last two and once with more to
come. Filled on first use: a timestamp takes three lookups instead of eighteen operations."""


def _fill_tables() -> None:
    """Fill the tables. Each is published in one assignment, the one that callers test last, so that
    concurrent threads never see a part of them."""
    numbers = range(1 << 14)
    _NEXT_TWO[:] = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in numbers]
    _LAST_TWO[:] = [bytes((number & 0x7F | 0x80, number >> 7)) for number in numbers]


def write_uvarint(value: int) -> bytes:
    """Return LEB128 of a number that is known to be in range."""
    if value < 0x80:
        return BYTE[value]
    if not _LAST_TWO:
        _fill_tables()
    if value < 0x4000:
        return _LAST_TWO[value]
    head = _NEXT_TWO[value & 0x3FFF]
    value >>= 14
    if value < 0x80:
        return head + BYTE[value]
    if value < 0x4000:
        return head + _LAST_TWO[value]
    head += _NEXT_TWO[value & 0x3FFF]
    value >>= 14
    if value < 0x80:
        return head + BYTE[value]
    if value < 0x4000:
        return head + _LAST_TWO[value]
    return head + write_uvarint(value)


def put_unsigned16(value: int, field: str) -> bytes:
    """Return LEB128 of an unsigned number of 16 bits."""
    if 0 <= value <= 0xFFFF:
        return write_uvarint(value)
    raise out_of_range(field, value, "an unsigned number of 16 bits")


def put_unsigned32(value: int, field: str) -> bytes:
    """Return LEB128 of an unsigned number of 32 bits."""
    if 0 <= value <= 0xFFFFFFFF:
        return write_uvarint(value)
    raise out_of_range(field, value, "an unsigned number of 32 bits")


def put_unsigned64(value: int, field: str) -> bytes:
    """Return LEB128 of an unsigned number of 64 bits."""
    if 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        return write_uvarint(value)
    raise out_of_range(field, value, "an unsigned number of 64 bits")


def put_zigzag16(value: int, field: str) -> bytes:
    """Return zigzag LEB128 of a signed number of 16 bits."""
    if -0x8000 <= value < 0x8000:
        return write_uvarint(value << 1 if value >= 0 else ~(value << 1))
    raise out_of_range(field, value, "a signed number of 16 bits")


def put_zigzag32(value: int, field: str) -> bytes:
    """Return zigzag LEB128 of a signed number of 32 bits."""
    if -0x80000000 <= value < 0x80000000:
        return write_uvarint(value << 1 if value >= 0 else ~(value << 1))
    raise out_of_range(field, value, "a signed number of 32 bits")


def put_zigzag64(value: int, field: str) -> bytes:
    """Return zigzag LEB128 of a signed number of 64 bits."""
    if -0x8000000000000000 <= value < 0x8000000000000000:
        return write_uvarint(value << 1 if value >= 0 else ~(value << 1))
    raise out_of_range(field, value, "a signed number of 64 bits")


def put_twos32(value: int, field: str) -> bytes:
    """Return LEB128 of the two's complement of a signed number of 32 bits."""
    if 0 <= value < 0x80000000:
        return write_uvarint(value)
    if -0x80000000 <= value < 0:
        return write_uvarint(value + 0x100000000)
    raise out_of_range(field, value, "a signed number of 32 bits")


def put_twos64(value: int, field: str) -> bytes:
    """Return LEB128 of the two's complement of a signed number of 64 bits."""
    if 0 <= value < 0x8000000000000000:
        return write_uvarint(value)
    if -0x8000000000000000 <= value < 0:
        return write_uvarint(value + 0x10000000000000000)
    raise out_of_range(field, value, "a signed number of 64 bits")


def put_int_of(
    value: int, size: int, signed: bool, field: str, order: Literal["big", "little"] = "big"
) -> bytes:
    """Return an integer of a size."""
    try:
        return value.to_bytes(size, order, signed=signed)
    except OverflowError:
        raise out_of_range(field, value, f"an integer of {size} bytes") from None


def put_size_of(value: int, size: int, field: str, order: Literal["big", "little"]) -> bytes:
    """Return a length or a count as an unsigned integer of a size."""
    return fitting(value, (1 << 8 * size) - 1, field).to_bytes(size, order)


def fitting(value: int, most: int, field: str) -> int:
    """Return a length or a count; EncodeError if it exceeds the range of its type."""
    if value > most:
        raise EncodeError("too_large", field, None, f"{value} is over {most}")
    return value


# -- floats ----------------------------------------------------------------------------------


def nan32(buf: bytes, pos: int, order: str) -> float:
    """Return the NaN at a position, with its 23 bits of payload and its quiet bit kept.

    Converting a signalling NaN to a double in hardware would set its quiet bit.
    """
    bits = int.from_bytes(buf[pos : pos + 4], "big" if order == "big" else "little")
    wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    return float(_F64.unpack(_F64_BITS.pack(wide))[0])


def put_f32(value: float, order: str, field: str) -> bytes:
    """Return the four bytes of a float; EncodeError if it has no finite 32-bit form."""
    try:
        if not math.isnan(value):
            return _F32[order].pack(value)
        (wide,) = _F64_BITS.unpack(_F64.pack(value))
        bits = (wide >> 63) << 31 | 0xFF << 23 | (wide >> 29 & 0x7FFFFF or 0x400000)
        return int(bits).to_bytes(4, "big" if order == "big" else "little")
    except (OverflowError, struct.error) as error:
        raise EncodeError("int_range", field, None, str(error)) from None


# -- protobuf --------------------------------------------------------------------------------


def skip_field(buf: bytes, key: int, pos: int, end: int, field: str, depth: int = 0) -> int:
    """Return where an unknown protobuf field stops."""
    wire = key & 7
    if key >> 3 == 0:
        raise DecodeError("reserved_value", field, pos, "field number 0")
    if wire == 0:
        return uvarint(buf, pos, end, field)[1]
    if wire in {1, 5}:
        size = 8 if wire == 1 else 4
        if pos + size > end:
            raise DecodeError("short", field, pos, f"expected {size} bytes, found {end - pos}")
        return pos + size
    if wire == 2:
        length, start = uvarint(buf, pos, end, field)
        if length > end - start:
            raise overrun(field, start, length, end)
        return start + length
    if wire == 3:
        return _skip_group(buf, key, pos, end, field, depth)
    raise DecodeError("reserved_value", field, pos, f"wire type {wire}")


def _skip_group(buf: bytes, key: int, pos: int, end: int, field: str, depth: int) -> int:
    # Groups exist only in unknown fields. They nest without a length, so the depth must be limited.
    if depth >= 32:
        raise DecodeError("too_deep", field, pos)
    while True:
        inner, pos = uvarint(buf, pos, end, field)
        if inner & 7 == 4:
            if inner >> 3 != key >> 3:
                raise DecodeError("reserved_value", field, pos, "unmatched end of group")
            return pos
        pos = skip_field(buf, inner, pos, end, field, depth + 1)


def int32_of(value: int) -> int:
    """Return the low 32 bits of a protobuf varint as a signed number."""
    value &= 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def int64_of(value: int) -> int:
    """Return 64 bits, of a protobuf varint for example, as a signed number."""
    return value - (1 << 64) if value >> 63 == 1 else value


def put_int(value: int, bits: int, field: str) -> bytes:
    """Return a signed protobuf varint: negative numbers take ten bytes whatever their width."""
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise out_of_range(field, value, f"a signed number of {bits} bits")
    return write_uvarint(value & _MASK64)


# -- text ------------------------------------------------------------------------------------


def put_text(value: str, field: str) -> bytes:
    """Return a text as UTF-8; EncodeError for lone surrogates."""
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise not_text(field, error) from None


def not_text(field: str, error: UnicodeEncodeError) -> EncodeError:
    """Return the error of text that cannot be encoded as UTF-8."""
    return EncodeError("invalid_utf8", field, None, error.reason)


def put_loose(value: str, field: str) -> bytes:
    """Return a text as UTF-8, with surrogate escapes as the invalid bytes that they represent."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise not_text(field, error) from None


# -- errors of writers -----------------------------------------------------------------------


def out_of_range(field: str, value: object, wanted: str) -> EncodeError:
    """Return the error of a number that does not fit."""
    return EncodeError("int_range", field, None, f"{value!r} is not {wanted}")


def wrong_size(field: str, wanted: str, size: int) -> EncodeError:
    """Return the error of bytes of a wrong length."""
    return EncodeError("bad_length", field, None, f"expected {wanted} bytes, found {size}")


def unfit(layout: str, *values: tuple[str, str, object]) -> EncodeError:
    """Find which of the (name, struct format, value) does not pack; lengths begin with #."""
    for name, form, value in values:
        try:
            struct.pack(form, value)
        except (struct.error, OverflowError, TypeError) as error:
            field = f"{layout}.{name.lstrip('#')}"
            if not isinstance(value, int):
                return EncodeError("bad_value", field, None, str(error))
            code = "too_large" if name.startswith("#") else "int_range"
            return EncodeError(code, field, None, f"{value}: {error}")
    return EncodeError("bad_value", layout)


def not_in_dialect(field: str, dialect: str) -> EncodeError:
    """Return the error of a field that the dialect does not have."""
    return EncodeError("bad_value", field, None, f"dialect {dialect} has no such field")


def no_layout(field: str, value: object) -> EncodeError:
    """Return the error of a value whose class is not allowed here."""
    return EncodeError("bad_value", field, None, f"unexpected {type(value).__name__}")


# -- options ---------------------------------------------------------------------------------


# An entry that does not fit its area is an error of the head, one of a wrong size an error of the
# option: magline, section 2, has different codes for the two.
def option(buf: bytes, pos: int, end: int, size: int, field: str) -> tuple[int, int]:
    """Return where the value of a known option begins and stops."""
    if pos + 2 > end:
        raise DecodeError("bad_header", field, pos, "no room for an option length")
    length = buf[pos] << 8 | buf[pos + 1]
    if pos + 2 + length > end:
        raise DecodeError("bad_header", field, pos, "the option runs past the header")
    if length != size:
        raise DecodeError("bad_option", field, pos, f"expected {size} bytes, found {length}")
    return pos + 2, pos + 2 + length


def unknown_options(
    buf: bytes, pos: int, end: int, bits: int, field: str
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Read the options of unknown bits, ascending, as (bit, bytes)."""
    found = []
    for shift in range(16):
        if not bits >> shift & 1:
            continue
        if pos + 2 > end:
            raise DecodeError("bad_header", field, pos, "no room for an option length")
        stop = pos + 2 + (buf[pos] << 8 | buf[pos + 1])
        if stop > end:
            raise DecodeError("bad_header", field, pos, "the option runs past the header")
        found.append((1 << shift, buf[pos + 2 : stop]))
        pos = stop
    return tuple(found), pos


def add_unknown_options(
    found: dict[int, bytes], unknown: tuple[tuple[int, bytes], ...], allowed: int
) -> None:
    """Add carried options to the known ones."""
    for bit, data in unknown:
        if bit & allowed != bit or bit & (bit - 1) or not bit or bit in found:
            raise EncodeError("bad_option", "unknown_options", None, f"{bit:#06x}")
        found[bit] = data


def option_area(found: dict[int, bytes]) -> tuple[bytes, int]:
    """Return the bytes of options by ascending bit, and the bitmap."""
    area, bitmap = [], 0
    for bit in sorted(found):
        data = found[bit]
        if len(data) > 0xFFFF:
            raise EncodeError("too_large", "options", None, f"{len(data)} bytes")
        area.append(len(data).to_bytes(2, "big") + data)
        bitmap |= bit
    return b"".join(area), bitmap


def misplaced(field: str, tag: int) -> EncodeError:
    """Return the error of an option that this command cannot have."""
    return EncodeError("bad_option", field, None, f"not with command {tag}")

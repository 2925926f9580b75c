"""What kernels share: loading numbers from bytes, and validating UTF-8.

Nothing here checks bounds: the kernel that calls has checked that the bytes are there, once for a
whole header instead of once for each field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .options import Int, S, U, inline, kernel

__all__ = [
    "be16",
    "be32",
    "be64",
    "le16",
    "le32",
    "le64",
    "u8",
    "u16",
    "u32",
    "utf8",
]

Bytes = NDArray[np.uint8]

# -- numbers ---------------------------------------------------------------------------------
#
# Fields of captures have any alignment and either byte order, so numbers are put together from
# single bytes. That costs nothing: LLVM turns the shifts into one unaligned load with a byte swap
# (`movbe` on x86-64; 0.5 ns per number in a loop). A view with another dtype would be an unaligned
# array, a second signature of each kernel. Bytes are widened to int64 first, because a shifted
# uint8 overflows, and mixing uint64 with int64 makes a float in Numba.


@inline
def u8(data: Bytes, at: Int) -> Int:
    """Load one byte."""
    return S(data[U(at)])


@inline
def be16(data: Bytes, at: Int) -> Int:
    """Load two bytes, big-endian."""
    i = U(at)
    return S(data[i]) << 8 | S(data[i + U(1)])


@inline
def le16(data: Bytes, at: Int) -> Int:
    """Load two bytes, little-endian."""
    i = U(at)
    return S(data[i]) | S(data[i + U(1)]) << 8


@inline
def be32(data: Bytes, at: Int) -> Int:
    """Load four bytes, big-endian."""
    i = U(at)
    return S(data[i]) << 24 | S(data[i + U(1)]) << 16 | S(data[i + U(2)]) << 8 | S(data[i + U(3)])


@inline
def le32(data: Bytes, at: Int) -> Int:
    """Load four bytes, little-endian."""
    i = U(at)
    return S(data[i]) | S(data[i + U(1)]) << 8 | S(data[i + U(2)]) << 16 | S(data[i + U(3)]) << 24


@inline
def be64(data: Bytes, at: Int) -> Int:
    """Load eight bytes, big-endian, as the int64 of the same bits."""
    return be32(data, at) << 32 | be32(data, at + 4)


@inline
def le64(data: Bytes, at: Int) -> Int:
    """Load eight bytes, little-endian, as the int64 of the same bits."""
    return le32(data, at) | le32(data, at + 4) << 32


@inline
def u16(data: Bytes, at: Int, big: bool) -> Int:
    """Load two bytes in the byte order of the file."""
    return be16(data, at) if big else le16(data, at)


@inline
def u32(data: Bytes, at: Int, big: bool) -> Int:
    """Load four bytes in the byte order of the file."""
    return be32(data, at) if big else le32(data, at)


# -- UTF-8 -----------------------------------------------------------------------------------

_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(number) for number in range(1, 9))


@inline
def utf8(buf: Any, pos: Any, end: Any) -> Any:
    """Return whether buf[pos:end] is UTF-8 as Python's strict decoder defines it (RFC 3629): no
    surrogates, nothing beyond U+10FFFF, no overlong forms.

    Most texts in messages are short and ASCII. They are checked inline, eight bytes at a time; only
    the others pay for a call. Inlining the rest too would repeat it for every text field of a
    layout and make the kernels much larger.
    """
    while end - pos >= _8:
        if _any_of_eight(buf, pos) >= 0x80:
            return _beyond_ascii(buf, pos, end)
        pos += _8
    while pos < end:
        if buf[pos] >= 0x80:
            return _beyond_ascii(buf, pos, end)
        pos += _1
    return True


@inline
def _any_of_eight(buf: Any, pos: Any) -> Any:
    """Return eight bytes combined by OR: below 0x80 when all are ASCII."""
    return (
        buf[pos]
        | buf[pos + _1]
        | buf[pos + _2]
        | buf[pos + _3]
        | buf[pos + _4]
        | buf[pos + _5]
        | buf[pos + _6]
        | buf[pos + _7]
    )


@kernel
def _beyond_ascii(buf: Any, pos: Any, end: Any) -> Any:
    """Return the same as `utf8` for bytes that are not all ASCII."""
    while pos < end:
        if end - pos >= _8 and _any_of_eight(buf, pos) < 0x80:
            pos += _8
            continue
        first = buf[pos]
        if first < 0x80:
            pos += _1
            continue
        left = end - pos
        if first < 0xC2:  # a continuation byte, or an overlong form of ASCII
            return False
        if first < 0xE0:
            if left < _2 or buf[pos + _1] & 0xC0 != 0x80:
                return False
            pos += _2
        elif first < 0xF0:
            if left < _3 or buf[pos + _1] & 0xC0 != 0x80 or buf[pos + _2] & 0xC0 != 0x80:
                return False
            if first == 0xE0 and buf[pos + _1] < 0xA0:  # overlong
                return False
            if first == 0xED and buf[pos + _1] > 0x9F:  # U+D800 to U+DFFF, surrogates
                return False
            pos += _3
        elif first < 0xF5:
            if left < _4 or buf[pos + _1] & 0xC0 != 0x80:
                return False
            if buf[pos + _2] & 0xC0 != 0x80 or buf[pos + _3] & 0xC0 != 0x80:
                return False
            if first == 0xF0 and buf[pos + _1] < 0x90:  # overlong
                return False
            if first == 0xF4 and buf[pos + _1] > 0x8F:  # beyond U+10FFFF
                return False
            pos += _4
        else:
            return False
    return True

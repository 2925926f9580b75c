"""The headers of every packet: link, IP and TCP, down to the payload (captures.md, Packets).

One row for each packet, in arrays that the caller brings, one array for each width of column:

    places[PAYLOAD | MISSING]                        int64
    sizes[SRC_PORT | DST_PORT | PAYLOAD_BYTES]       int32
    numbers[SEQ | ACK]                               uint32
    octets[FLAGS | NOTE | FAMILY]                    uint8
    addresses[SRC_HIGH | SRC_LOW | DST_HIGH | DST_LOW]   uint64: an address as a number

A packet that is no TCP segment has a note, which indexes `NOTES`, and zeros elsewhere. The rules
are those of `capture.links`, which the tests hold this kernel to.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format import constants as fmt

from ..jit.intrinsics import be16, be32, be64, le32, u8
from ..jit.options import Int, U, inline, kernel
from .blocks import CAPTURED, DATA, LINK, ORIGINAL

__all__ = [
    "ACK",
    "DST_HIGH",
    "DST_LOW",
    "DST_PORT",
    "FAMILY",
    "FLAGS",
    "MISSING",
    "NOTE",
    "NOTES",
    "PAYLOAD",
    "PAYLOAD_BYTES",
    "SEQ",
    "SRC_HIGH",
    "SRC_LOW",
    "SRC_PORT",
    "extract",
]

PAYLOAD, MISSING = range(2)
"""Rows of `places`: where the payload begins in the buffer, bytes of it that were not captured."""
SRC_PORT, DST_PORT, PAYLOAD_BYTES = range(3)
"""Rows of `sizes`."""
SEQ, ACK = range(2)
"""Rows of `numbers`."""
FLAGS, NOTE, FAMILY = range(3)
"""Rows of `octets`: TCP flags, why it is no segment, 4 or 6."""
SRC_HIGH, SRC_LOW, DST_HIGH, DST_LOW = range(4)
"""Rows of `addresses`: halves of a 128-bit number; an IPv4 address is all in the lower one."""

NOTES: Final = ("", "not_ip", "not_tcp", "fragment", "short", "bad_header", "unknown_link")
"""What a packet is, by the code in row NOTE; empty for a segment."""
NOT_IP, NOT_TCP, FRAGMENT, SHORT_HEADER, BAD_HEADER, UNKNOWN_LINK = range(1, 7)

_ETHERNET: Final = fmt.LINK_ETHERNET
_COOKED: Final = fmt.LINK_COOKED
_COOKED2: Final = fmt.LINK_COOKED2
_NULL: Final = fmt.LINK_NULL
_LOOP: Final = fmt.LINK_LOOP
_RAW: Final = fmt.LINK_RAW
_RAW_BSD: Final = fmt.LINK_RAW_BSD
_RAW_OPENBSD: Final = fmt.LINK_RAW_OPENBSD
_IPV4_LINK: Final = fmt.LINK_IPV4
_IPV6_LINK: Final = fmt.LINK_IPV6
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_TCP: Final = 6
_AUTHENTICATION: Final = 51

Bytes = NDArray[np.uint8]


@kernel
def extract(
    data: Bytes,
    count: int,
    wide: NDArray[np.int64],
    narrow: NDArray[np.int32],
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: Bytes,
    addresses: NDArray[np.uint64],
) -> None:
    """Fill the rows of the first `count` packets."""
    for i in range(count):
        start = wide[DATA, i]
        end = start + wide[CAPTURED, i]
        wire = start + max(wide[CAPTURED, i], wide[ORIGINAL, i])
        note, family, at = _link(data, start, end, narrow[LINK, i])
        size = 0
        if note == 0 and family == 4:
            note, at, size = _ipv4(data, at, end, wire, i, addresses)
        elif note == 0:
            note, at, size = _ipv6(data, at, end, wire, i, addresses)
        if note == 0:
            note = _tcp(data, at, end, size, i, places, sizes, numbers, octets)
        octets[NOTE, i] = note
        octets[FAMILY, i] = family
        if note:
            _clear(i, places, sizes, numbers, octets, addresses)


@inline
def _clear(
    i: Int,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: Bytes,
    addresses: NDArray[np.uint64],
) -> None:
    """A packet with a note has nothing else."""
    places[PAYLOAD, i] = places[MISSING, i] = 0
    sizes[SRC_PORT, i] = sizes[DST_PORT, i] = sizes[PAYLOAD_BYTES, i] = 0
    numbers[SEQ, i] = numbers[ACK, i] = 0
    octets[FLAGS, i] = octets[FAMILY, i] = 0
    addresses[SRC_HIGH, i] = addresses[SRC_LOW, i] = 0
    addresses[DST_HIGH, i] = addresses[DST_LOW, i] = 0


@inline
def _link(data: Bytes, at: Int, end: Int, link: Int) -> tuple[Int, Int, Int]:
    """The note, the version of IP, and where it begins."""
    if link == _ETHERNET:
        return _tagged(data, at + 12, at + 14, end)
    if link in (_RAW, _RAW_BSD, _RAW_OPENBSD):
        return _raw(data, at, end)
    if link == _COOKED:
        return _tagged(data, at + 14, at + 16, end)
    if link == _COOKED2:
        return _tagged(data, at, at + 20, end)
    if link in (_NULL, _LOOP):
        return _loopback(data, at, end)
    if link == _IPV4_LINK:
        return 0, 4, at
    if link == _IPV6_LINK:
        return 0, 6, at
    return UNKNOWN_LINK, 0, at


@inline
def _tagged(data: Bytes, type_at: Int, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """Behind a link header with an EtherType, and behind any VLAN tags."""
    if end < at:
        return SHORT_HEADER, 0, at
    kind = be16(data, type_at)
    while kind in (0x8100, 0x88A8, 0x9100, 0x9200):
        if end < at + 4:
            return SHORT_HEADER, 0, at
        kind = be16(data, at + 2)
        at += 4
    if kind == _IPV4:
        return 0, 4, at
    if kind == _IPV6:
        return 0, 6, at
    return NOT_IP, 0, at


@inline
def _loopback(data: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """The address family comes in the byte order of whoever captured it."""
    if end < at + 4:
        return SHORT_HEADER, 0, at
    family = min(le32(data, at), be32(data, at))
    if family == 2:
        return 0, 4, at + 4
    if family in (10, 24, 28, 30):
        return 0, 6, at + 4
    return NOT_IP, 0, at


@inline
def _raw(data: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """The version tells which IP it is."""
    if end < at + 1:
        return SHORT_HEADER, 0, at
    version = u8(data, at) >> 4
    if version in (4, 6):
        return 0, version, at
    return NOT_IP, 0, at


@inline
def _ipv4(
    data: Bytes, at: Int, end: Int, wire: Int, i: Int, addresses: NDArray[np.uint64]
) -> tuple[Int, Int, Int]:
    """The note, where the content begins, and its size on the wire."""
    if end < at + 20:
        return SHORT_HEADER, at, 0
    header = (u8(data, at) & 15) * 4
    total = be16(data, at + 2)
    if total == 0:
        total = wire - at
    if u8(data, at) >> 4 != 4 or header < 20 or header > total or total > wire - at:
        return BAD_HEADER, at, 0
    if be16(data, at + 6) & 0x3FFF:
        return FRAGMENT, at, 0
    if u8(data, at + 9) != _TCP:
        return NOT_TCP, at, 0
    if end < at + header:
        return SHORT_HEADER, at, 0
    addresses[SRC_HIGH, i] = 0
    addresses[SRC_LOW, i] = be32(data, at + 12)
    addresses[DST_HIGH, i] = 0
    addresses[DST_LOW, i] = be32(data, at + 16)
    return 0, at + header, total - header


@inline
def _ipv6(
    data: Bytes, at: Int, end: Int, wire: Int, i: Int, addresses: NDArray[np.uint64]
) -> tuple[Int, Int, Int]:
    """As `_ipv4`, behind the extension headers."""
    if end < at + 40:
        return SHORT_HEADER, at, 0
    size = be16(data, at + 4)
    following = u8(data, at + 6)
    if u8(data, at) >> 4 != 6 or 40 + size > wire - at:
        return BAD_HEADER, at, 0
    addresses[SRC_HIGH, i] = U(be64(data, at + 8))
    addresses[SRC_LOW, i] = U(be64(data, at + 16))
    addresses[DST_HIGH, i] = U(be64(data, at + 24))
    addresses[DST_LOW, i] = U(be64(data, at + 32))
    at += 40
    while following in (0, 43, 60, _AUTHENTICATION, 135):
        if size < 8:
            return BAD_HEADER, at, 0
        if end < at + 8:
            return SHORT_HEADER, at, 0
        units = u8(data, at + 1)
        length = (units + 2) * 4 if following == _AUTHENTICATION else (units + 1) * 8
        if length > size:
            return BAD_HEADER, at, 0
        if end < at + length:
            return SHORT_HEADER, at, 0
        following = u8(data, at)
        at += length
        size -= length
    if following == 44:
        return FRAGMENT, at, 0
    if following != _TCP:
        return NOT_TCP, at, 0
    return 0, at, size


@inline
def _tcp(
    data: Bytes,
    at: Int,
    end: Int,
    size: Int,
    i: Int,
    places: NDArray[np.int64],
    sizes: NDArray[np.int32],
    numbers: NDArray[np.uint32],
    octets: Bytes,
) -> Int:
    """Fill what the TCP header says; the note."""
    if size < 20:
        return BAD_HEADER
    if end < at + 20:
        return SHORT_HEADER
    header = (u8(data, at + 12) >> 4) * 4
    if header < 20 or header > size:
        return BAD_HEADER
    if end < at + header:
        return SHORT_HEADER
    payload = min(size, end - at) - header
    places[PAYLOAD, i] = at + header
    places[MISSING, i] = size - header - payload
    sizes[SRC_PORT, i] = be16(data, at)
    sizes[DST_PORT, i] = be16(data, at + 2)
    sizes[PAYLOAD_BYTES, i] = payload
    numbers[SEQ, i] = be32(data, at + 4)
    numbers[ACK, i] = be32(data, at + 8)
    octets[FLAGS, i] = u8(data, at + 13)
    return 0

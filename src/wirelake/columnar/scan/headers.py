"""A kernel that parses the link, IP and TCP headers of every packet (captures.md, Packets).

One row for each packet, in arrays that the caller passes, one for each dtype:

    header_i64[PAYLOAD | MISSING]                        int64
    header_i32[SRC_PORT | DST_PORT | PAYLOAD_BYTES]      int32
    header_u32[SEQ | ACK]                                uint32
    header_u8[FLAGS | NOTE | FAMILY]                     uint8
    addresses[SRC_HIGH | SRC_LOW | DST_HIGH | DST_LOW]   uint64

A packet without a TCP segment has a note, an index into `NOTES`, and zeros elsewhere. The rules and
the order of the checks are those of `wirelake.capture.tcp.headers`; tests compare the two.
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
"""Rows of `header_i64`: offset of the payload in the buffer, payload bytes not captured."""
SRC_PORT, DST_PORT, PAYLOAD_BYTES = range(3)
"""Rows of `header_i32`."""
SEQ, ACK = range(2)
"""Rows of `header_u32`."""
FLAGS, NOTE, FAMILY = range(3)
"""Rows of `header_u8`: TCP flags, reason why the packet has no segment, IP version 4 or 6."""
SRC_HIGH, SRC_LOW, DST_HIGH, DST_LOW = range(4)
"""Rows of `addresses`: halves of a 128-bit number; an IPv4 address is in the lower half."""

NOTES: Final = ("", "not_ip", "not_tcp", "fragment", "short", "bad_header", "unknown_link")
"""Why a packet has no segment, by the code in row NOTE; empty for a segment."""
NOT_IP, NOT_TCP, FRAGMENT, SHORT_HEADER, BAD_HEADER, UNKNOWN_LINK = range(1, 7)

# Module globals, which are compile-time constants to Numba.
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
    packet_i64: NDArray[np.int64],
    packet_i32: NDArray[np.int32],
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: Bytes,
    addresses: NDArray[np.uint64],
) -> None:
    """Parse the headers of the first `count` packets."""
    for i in range(count):
        # Every check below is against `end`, the captured bytes, or `wire`, the bytes that were on
        # the wire: a packet cut by the snap length still tells where its payload would have ended,
        # and the difference (MISSING) becomes a gap in its stream.
        start = packet_i64[DATA, i]
        end = start + packet_i64[CAPTURED, i]
        wire = start + max(packet_i64[CAPTURED, i], packet_i64[ORIGINAL, i])
        note, family, at = _link(data, start, end, packet_i32[LINK, i])
        size = 0
        if note == 0 and family == 4:
            note, at, size = _ipv4(data, at, end, wire, i, addresses)
        elif note == 0:
            note, at, size = _ipv6(data, at, end, wire, i, addresses)
        if note == 0:
            note = _tcp(data, at, end, size, i, header_i64, header_i32, header_u32, header_u8)
        header_u8[NOTE, i] = note
        header_u8[FAMILY, i] = family
        if note:
            _clear_row(i, header_i64, header_i32, header_u32, header_u8, addresses)


@inline
def _clear_row(
    i: Int,
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: Bytes,
    addresses: NDArray[np.uint64],
) -> None:
    """Zero the row of a packet with a note: the arrays are not initialised."""
    header_i64[PAYLOAD, i] = header_i64[MISSING, i] = 0
    header_i32[SRC_PORT, i] = header_i32[DST_PORT, i] = header_i32[PAYLOAD_BYTES, i] = 0
    header_u32[SEQ, i] = header_u32[ACK, i] = 0
    header_u8[FLAGS, i] = header_u8[FAMILY, i] = 0
    addresses[SRC_HIGH, i] = addresses[SRC_LOW, i] = 0
    addresses[DST_HIGH, i] = addresses[DST_LOW, i] = 0


@inline
def _link(data: Bytes, at: Int, end: Int, link: Int) -> tuple[Int, Int, Int]:
    """Return the note, the IP version, and the offset of the IP header."""
    # The most frequent link types first.
    if link == _ETHERNET:
        return _ether_type(data, at + 12, at + 14, end)
    if link in (_RAW, _RAW_BSD, _RAW_OPENBSD):
        return _raw(data, at, end)
    if link == _COOKED:
        return _ether_type(data, at + 14, at + 16, end)
    if link == _COOKED2:
        return _ether_type(data, at, at + 20, end)
    if link in (_NULL, _LOOP):
        return _loopback(data, at, end)
    if link == _IPV4_LINK:
        return 0, 4, at
    if link == _IPV6_LINK:
        return 0, 6, at
    return UNKNOWN_LINK, 0, at


@inline
def _ether_type(data: Bytes, type_at: Int, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """Skip a link header that has an EtherType, and any VLAN tags."""
    if end < at:
        return SHORT_HEADER, 0, at
    kind = be16(data, type_at)
    while kind in (0x8100, 0x88A8, 0x9100, 0x9200):  # 802.1Q, 802.1ad, and older tag types
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
    """Skip a BSD loopback header: the address family in the byte order of the capturing host."""
    if end < at + 4:
        return SHORT_HEADER, 0, at
    # The byte order of the host is not recorded. Families are small, so the smaller reading is it.
    family = min(le32(data, at), be32(data, at))
    if family == 2:
        return 0, 4, at + 4
    if family in (10, 24, 28, 30):  # AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, macOS
        return 0, 6, at + 4
    return NOT_IP, 0, at


@inline
def _raw(data: Bytes, at: Int, end: Int) -> tuple[Int, Int, Int]:
    """Read the IP version of a packet without a link header."""
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
    """Return the note, the offset of the content, and its size on the wire."""
    if end < at + 20:
        return SHORT_HEADER, at, 0
    header = (u8(data, at) & 15) * 4
    total = be16(data, at + 2)
    if total == 0:  # TCP segmentation offload: the interface fills it in after the capture
        total = wire - at
    # A total length beyond the wire length is as bad as a header beyond the total: both would let
    # the payload reach into the next packet.
    if u8(data, at) >> 4 != 4 or header < 20 or header > total or total > wire - at:
        return BAD_HEADER, at, 0
    if be16(data, at + 6) & 0x3FFF:  # more fragments, or an offset
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
    """Parse an IPv6 packet, as `_ipv4` does, after the extension headers."""
    if end < at + 40:
        return SHORT_HEADER, at, 0
    size = be16(data, at + 4)
    following = u8(data, at + 6)
    # A payload length of 0 (a jumbogram) has no TCP header by this rule and is rejected below:
    # captures.md, Packets.
    if u8(data, at) >> 4 != 6 or 40 + size > wire - at:
        return BAD_HEADER, at, 0
    # be64 returns the int64 with the same bits; the cast makes it the uint64 that was meant.
    addresses[SRC_HIGH, i] = U(be64(data, at + 8))
    addresses[SRC_LOW, i] = U(be64(data, at + 16))
    addresses[DST_HIGH, i] = U(be64(data, at + 24))
    addresses[DST_LOW, i] = U(be64(data, at + 32))
    at += 40
    # Hop-by-hop, routing, destination, authentication, mobility. The length of the authentication
    # header alone counts in units of 4 bytes (RFC 4302, 2.2).
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
    header_i64: NDArray[np.int64],
    header_i32: NDArray[np.int32],
    header_u32: NDArray[np.uint32],
    header_u8: Bytes,
) -> Int:
    """Write the fields of the TCP header; return the note."""
    if size < 20:
        return BAD_HEADER
    if end < at + 20:
        return SHORT_HEADER
    # The data offset counts words of four bytes. Less than five words cannot hold the fixed header.
    header = (u8(data, at + 12) >> 4) * 4
    if header < 20 or header > size:
        return BAD_HEADER
    if end < at + header:
        return SHORT_HEADER
    # The IP length bounds the payload, not the captured bytes: Ethernet pads short frames.
    payload = min(size, end - at) - header
    header_i64[PAYLOAD, i] = at + header
    header_i64[MISSING, i] = size - header - payload
    header_i32[SRC_PORT, i] = be16(data, at)
    header_i32[DST_PORT, i] = be16(data, at + 2)
    header_i32[PAYLOAD_BYTES, i] = payload
    header_u32[SEQ, i] = be32(data, at + 4)
    header_u32[ACK, i] = be32(data, at + 8)
    header_u8[FLAGS, i] = u8(data, at + 13)
    return 0

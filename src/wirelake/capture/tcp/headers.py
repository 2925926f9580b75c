"""Link, IP and TCP headers: parsing packets, and building them.

`segment` returns a `Segment`, or a note that says why the packet has none:

    unknown_link    an unsupported link type
    short           headers cut off by the capture
    not_ip          another protocol than IP
    bad_header      lengths or versions that contradict each other
    fragment        a fragment of an IP packet; fragments are not reassembled
    not_tcp         another protocol than TCP

Checks are made in the order of the headers, and the first that fails decides: `columnar`'s kernel
must give the same note. Ethernet padding is not payload: the IP length says where a packet ends
(`docs/concepts/captures.md`, *Packets*).

The second half builds packets, for simulated traffic and tests. Checksums are 0: readers of
captures do not verify them, because offloading leaves them wrong in most captures of a sending
host.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ..format import constants as fmt
from ..format.items import Packet, Segment

__all__ = [
    "ACK",
    "FIN",
    "PSH",
    "RST",
    "SYN",
    "Headers",
    "Note",
    "ethernet",
    "headers",
    "ip",
    "ipv4",
    "ipv6",
    "segment",
    "tcp",
]


FIN: Final = 1
SYN: Final = 2
RST: Final = 4
PSH: Final = 8
ACK: Final = 16
"""Flags of TCP."""

Note: TypeAlias = str
"""Why a packet has no segment."""

_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_VLANS: Final = frozenset({0x8100, 0x88A8, 0x9100, 0x9200})
_VERSION: Final = {_IPV4: 4, _IPV6: 6}
_FAMILIES: Final = {2: _IPV4, 10: _IPV6, 24: _IPV6, 28: _IPV6, 30: _IPV6}
"""AF_INET is 2 everywhere; AF_INET6 depends on the system."""

_TCP: Final = 6
_FRAGMENT_HEADER: Final = 44
_AUTHENTICATION: Final = 51
_EXTENSIONS: Final = frozenset({0, 43, 60, _AUTHENTICATION, 135})
"""Hop-by-hop, routing, destination, authentication, mobility."""

_IPV4_HEAD: Final = struct.Struct(">BxHxxHxBxx4s4s")
_IPV6_HEAD: Final = struct.Struct(">BxxxHBx16s16s")
_TCP_HEAD: Final = struct.Struct(">HHIIBB")
_TCP_SIZE: Final = 20


class Headers(NamedTuple):
    """The offsets of a packet's headers."""

    version: int
    """Of IP."""
    ip: int
    tcp: int
    payload: int


class _NoSegmentError(Exception):
    """A packet without a TCP segment. The argument is the reason."""


def segment(packet: Packet) -> Segment | Note:
    """Return the TCP segment of a packet, or the reason why it has none."""
    try:
        kind, at = _link(packet.link, packet.data)
        # Some tools write an original length of 0, or less than captured: the larger one counts.
        wire = max(packet.original, len(packet.data)) - at
        if kind == _IPV4:
            src, dst, at, size = _ipv4(packet.data, at, wire)
        else:
            src, dst, at, size = _ipv6(packet.data, at, wire)
        return _tcp(packet, src, dst, at, size)
    except _NoSegmentError as note:
        return str(note)


def headers(packet: Packet) -> Headers | Note:
    """Return the offsets of the headers of a packet, or the reason why it has no segment."""
    try:
        kind, ip = _link(packet.link, packet.data)
        wire = max(packet.original, len(packet.data)) - ip
        src, dst, tcp, size = (_ipv4 if kind == _IPV4 else _ipv6)(packet.data, ip, wire)
        found = _tcp(packet, src, dst, tcp, size)
        return Headers(_VERSION[kind], ip, tcp, found.payload_offset - packet.data_offset)
    except _NoSegmentError as note:
        return str(note)


def _need(data: bytes, end: int) -> None:
    if len(data) < end:
        raise _NoSegmentError("short")


def _check(fits: bool) -> None:
    if not fits:
        raise _NoSegmentError("bad_header")


def _link(link: int, data: bytes) -> tuple[int, int]:
    """Return the IP version and the offset of the IP header."""
    if link == fmt.LINK_ETHERNET:
        return _tagged(data, 12, 14)
    if link == fmt.LINK_COOKED:
        return _tagged(data, 14, 16)
    if link == fmt.LINK_COOKED2:
        return _tagged(data, 0, 20)
    if link in (fmt.LINK_NULL, fmt.LINK_LOOP):
        return _loopback(data)
    if link in (fmt.LINK_RAW, fmt.LINK_RAW_BSD, fmt.LINK_RAW_OPENBSD):
        return _raw(data)
    if link == fmt.LINK_IPV4:
        return _IPV4, 0
    if link == fmt.LINK_IPV6:
        return _IPV6, 0
    raise _NoSegmentError("unknown_link")


def _tagged(data: bytes, type_at: int, at: int) -> tuple[int, int]:
    """Skip a link header with an EtherType and any VLAN tags."""
    _need(data, at)
    kind = data[type_at] << 8 | data[type_at + 1]
    # Any number of tags: provider bridges stack them.
    while kind in _VLANS:
        _need(data, at + 4)
        kind = data[at + 2] << 8 | data[at + 3]
        at += 4
    if kind not in _VERSION:
        raise _NoSegmentError("not_ip")
    return kind, at


def _loopback(data: bytes) -> tuple[int, int]:
    """Read the address family, which has the byte order of the capturing machine."""
    _need(data, 4)
    # The byte order is not recorded. Families are small numbers, so the smaller reading is right.
    family = min(int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big"))
    kind = _FAMILIES.get(family)
    if kind is None:
        raise _NoSegmentError("not_ip")
    return kind, 4


def _raw(data: bytes) -> tuple[int, int]:
    _need(data, 1)
    for kind, version in _VERSION.items():
        if data[0] >> 4 == version:
            return kind, 0
    raise _NoSegmentError("not_ip")


def _ipv4(data: bytes, at: int, wire: int) -> tuple[bytes, bytes, int, int]:
    """Return the addresses, the offset of the content, and its size on the wire."""
    _need(data, at + 20)
    first, total, fragment, protocol, src, dst = _IPV4_HEAD.unpack_from(data, at)
    header = (first & 15) * 4
    if total == 0:  # segmentation offload: the interface would have filled it in
        total = wire
    _check(first >> 4 == 4 and 20 <= header <= total <= wire)
    if fragment & 0x3FFF:  # more fragments, or not the first
        raise _NoSegmentError("fragment")
    if protocol != _TCP:
        raise _NoSegmentError("not_tcp")
    _need(data, at + header)
    return src, dst, at + header, total - header


def _ipv6(data: bytes, at: int, wire: int) -> tuple[bytes, bytes, int, int]:
    """Return the segment of an IPv6 packet, as `_ipv4` does, after the extension headers."""
    _need(data, at + 40)
    first, size, following, src, dst = _IPV6_HEAD.unpack_from(data, at)
    _check(first >> 4 == 6 and 40 + size <= wire)
    at += 40
    # Extension headers form a chain of next-header numbers that ends with TCP, or with something
    # else.
    while following in _EXTENSIONS:
        _check(size >= 8)
        _need(data, at + 8)
        units = data[at + 1]
        length = (units + 2) * 4 if following == _AUTHENTICATION else (units + 1) * 8
        _check(length <= size)
        _need(data, at + length)
        following = data[at]
        at += length
        size -= length
    if following == _FRAGMENT_HEADER:
        raise _NoSegmentError("fragment")
    if following != _TCP:
        raise _NoSegmentError("not_tcp")
    return src, dst, at, size


def _tcp(packet: Packet, src: bytes, dst: bytes, at: int, size: int) -> Segment:
    """Return the segment in `size` bytes that begin at `at`."""
    data = packet.data
    _check(size >= _TCP_SIZE)
    _need(data, at + _TCP_SIZE)
    src_port, dst_port, seq, ack, offset, flags = _TCP_HEAD.unpack_from(data, at)
    header = (offset >> 4) * 4
    _check(_TCP_SIZE <= header <= size)
    _need(data, at + header)
    # Up to the IP length, not to the end of the data, which may be Ethernet padding.
    payload = data[at + header : at + size]
    return Segment(
        packet,
        src,
        dst,
        src_port,
        dst_port,
        seq,
        ack,
        flags,
        payload,
        packet.data_offset + at + header,
        size - header - len(payload),
    )


# -- building packets ------------------------------------------------------------------------

_VLAN: Final = 0x8100
_TCP_FULL_HEAD: Final = struct.Struct(">HHIIBBHHH")
_IPV4_FULL_HEAD: Final = struct.Struct(">BBHHHBBH4s4s")
_IPV6_FULL_HEAD: Final = struct.Struct(">IHBB16s16s")


def tcp(
    src_port: int,
    dst_port: int,
    *,
    seq: int = 0,
    ack: int = 0,
    flags: int = PSH | ACK,
    payload: bytes = b"",
    options: bytes = b"",
) -> bytes:
    """Return a TCP segment; the size of `options` must be a multiple of four."""
    words = 5 + len(options) // 4
    head = _TCP_FULL_HEAD.pack(
        src_port, dst_port, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, words << 4, flags, 65_535, 0, 0
    )
    return head + options + payload


def ipv4(
    src: bytes,
    dst: bytes,
    content: bytes,
    *,
    protocol: int = _TCP,
    options: bytes = b"",
    fragment: int = 0x4000,
    total: int | None = None,
) -> bytes:
    """Return an IPv4 packet. `fragment` is the word of flags and fragment offset (default: do not
    fragment), `total` the total length in the header."""
    header = 20 + len(options)
    claimed = header + len(content) if total is None else total
    first = 0x40 | header // 4
    head = _IPV4_FULL_HEAD.pack(first, 0, claimed, 0, fragment, 64, protocol, 0, src, dst)
    return head + options + content


def ipv6(
    src: bytes,
    dst: bytes,
    content: bytes,
    *,
    extensions: Sequence[tuple[int, bytes]] = (),
    protocol: int = _TCP,
    size: int | None = None,
) -> bytes:
    """Return an IPv6 packet. `extensions` are header numbers with their bytes after the next-header
    byte, `size` the payload length in the header."""
    numbers = [number for number, _ in extensions] + [protocol]
    chain = b"".join(
        bytes([following]) + body
        for (_, body), following in zip(extensions, numbers[1:], strict=True)
    )
    claimed = len(chain) + len(content) if size is None else size
    return _IPV6_FULL_HEAD.pack(0x6000_0000, claimed, numbers[0], 64, src, dst) + chain + content


def ip(src: bytes, dst: bytes, content: bytes) -> bytes:
    """Return an IP packet of the version of its addresses."""
    return ipv4(src, dst, content) if len(src) == 4 else ipv6(src, dst, content)


def _ether_type(packet: bytes) -> int:
    return 0x0800 if packet[0] >> 4 == 4 else 0x86DD


def ethernet(packet: bytes, *, vlans: Sequence[int] = (), padded: bool = False) -> bytes:
    """Return an Ethernet frame, with optional VLAN tags, optionally padded to 60 bytes."""
    tags = b"".join(struct.pack(">HH", _VLAN, vlan) for vlan in vlans)
    frame = bytes(12) + tags + struct.pack(">H", _ether_type(packet)) + packet
    return frame.ljust(60, b"\xaa") if padded else frame

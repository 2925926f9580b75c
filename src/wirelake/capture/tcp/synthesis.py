"""Builds packets: TCP segments in IP, in whatever link layer a capture may have.

    ethernet(ipv4(client, server, tcp(51000, 7300, seq=1, payload=b"...")), vlans=[7])

For captures that are made up: by tests, by the simulator and, as a template, by the recorder.
Checksums are zero, which readers take for "computed by the interface".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ..format import constants as f

__all__ = [
    "ACK",
    "FIN",
    "PSH",
    "RST",
    "SYN",
    "cooked",
    "cooked2",
    "ethernet",
    "ip",
    "ipv4",
    "ipv6",
    "link_layer",
    "loopback",
    "tcp",
]

FIN: Final = 1
SYN: Final = 2
RST: Final = 4
PSH: Final = 8
ACK: Final = 16
"""Flags of TCP."""

_TCP: Final = 6
_VLAN: Final = 0x8100
_TCP_HEAD: Final = struct.Struct(">HHIIBBHHH")
_IPV4_HEAD: Final = struct.Struct(">BBHHHBBH4s4s")
_IPV6_HEAD: Final = struct.Struct(">IHBB16s16s")


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
    """A TCP segment; `options` must fill words of four bytes."""
    words = 5 + len(options) // 4
    head = _TCP_HEAD.pack(
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
    """An IPv4 packet. `fragment` is the word with the flags (by default: do not fragment), `total`
    the length that it claims."""
    header = 20 + len(options)
    claimed = header + len(content) if total is None else total
    first = 0x40 | header // 4
    head = _IPV4_HEAD.pack(first, 0, claimed, 0, fragment, 64, protocol, 0, src, dst)
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
    """An IPv6 packet; `extensions` are header numbers with their bytes behind the next-header
    byte, `size` the length that it claims."""
    numbers = [number for number, _ in extensions] + [protocol]
    chain = b"".join(
        bytes([following]) + body
        for (_, body), following in zip(extensions, numbers[1:], strict=True)
    )
    claimed = len(chain) + len(content) if size is None else size
    return _IPV6_HEAD.pack(0x6000_0000, claimed, numbers[0], 64, src, dst) + chain + content


def ip(src: bytes, dst: bytes, content: bytes) -> bytes:
    """An IP packet of the version of its addresses."""
    return ipv4(src, dst, content) if len(src) == 4 else ipv6(src, dst, content)


def _ether_type(packet: bytes) -> int:
    return 0x0800 if packet[0] >> 4 == 4 else 0x86DD


def ethernet(packet: bytes, *, vlans: Sequence[int] = (), padded: bool = False) -> bytes:
    """An Ethernet frame, with VLAN tags if wanted, padded to 60 bytes if wanted."""
    tags = b"".join(struct.pack(">HH", _VLAN, vlan) for vlan in vlans)
    frame = bytes(12) + tags + struct.pack(">H", _ether_type(packet)) + packet
    return frame.ljust(60, b"\xaa") if padded else frame


def cooked(packet: bytes) -> bytes:
    """Linux cooked capture, version 1."""
    return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), _ether_type(packet)) + packet


def cooked2(packet: bytes) -> bytes:
    """Linux cooked capture, version 2."""
    return struct.pack(">HHIHBB8s", _ether_type(packet), 0, 1, 1, 0, 6, bytes(8)) + packet


def loopback(packet: bytes, *, order: str = "<", family6: int = 30) -> bytes:
    """BSD null (in the order of a machine) or loopback (`order` ">") header."""
    family = 2 if packet[0] >> 4 == 4 else family6
    return struct.pack(order + "I", family) + packet


def link_layer(link: int, packet: bytes) -> bytes:
    """An IP packet in the plainest frame of a link type."""
    if link == f.LINK_ETHERNET:
        return ethernet(packet)
    if link == f.LINK_COOKED:
        return cooked(packet)
    if link == f.LINK_COOKED2:
        return cooked2(packet)
    if link in (f.LINK_NULL, f.LINK_LOOP):
        return loopback(packet, order="<" if link == f.LINK_NULL else ">")
    if link in (f.LINK_RAW, f.LINK_RAW_BSD, f.LINK_RAW_OPENBSD, f.LINK_IPV4, f.LINK_IPV6):
        return packet
    raise ValueError(f"unsupported link type {link}")

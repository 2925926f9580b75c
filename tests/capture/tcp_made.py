"""TCP connections that tests make up, as packets of a capture file."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wirelake.capture.format import constants as f
from wirelake.capture.format.items import Direction
from wirelake.capture.format.writer import PcapWriter
from wirelake.capture.tcp.headers import ACK, FIN, PSH, RST, SYN, ethernet, ip, tcp

__all__ = [
    "ACK",
    "FIN",
    "PSH",
    "RST",
    "SYN",
    "Call",
    "Made",
    "cooked",
    "cooked2",
    "link_layer",
    "loopback",
    "write",
]

T0 = 1_700_000_000_000_000_000
MS = 1_000_000


@dataclass
class Made:
    """A packet that is to be captured."""

    ts_ns: int
    data: bytes
    original: int | None = None


@dataclass
class Call:
    """A connection to a server, which makes packets of what is said on it."""

    server_port: int
    client_port: int = 50_000
    client: bytes = bytes((10, 0, 0, 9))
    server: bytes = bytes((10, 0, 0, 1))
    isn: dict[Direction, int] = field(default_factory=lambda: {"c2s": 1_000, "s2c": 5_000})
    sent: dict[Direction, int] = field(default_factory=lambda: {"c2s": 0, "s2c": 0})
    now_ns: int = T0
    packets: list[Made] = field(default_factory=list)

    def packet(
        self,
        way: Direction,
        at: int,
        payload: bytes = b"",
        flags: int = PSH | ACK,
        captured: int | None = None,
    ) -> Made:
        """A segment whose first byte has place `at` in its stream; nothing else is remembered.

        `captured` bytes of its payload are captured.
        """
        there: Direction = "s2c" if way == "c2s" else "c2s"
        ends = ((self.client, self.client_port), (self.server, self.server_port))
        (src, src_port), (dst, dst_port) = ends if way == "c2s" else ends[::-1]
        seq = self.isn[way] + (0 if flags & SYN else 1) + at
        ack = self.isn[there] + 1 + self.sent[there] if flags & ACK else 0
        segment = tcp(src_port, dst_port, seq=seq, ack=ack, flags=flags, payload=payload)
        data = ip(src, dst, segment)
        size = len(data) - (0 if captured is None else len(payload) - captured)
        self.now_ns += MS
        made = Made(self.now_ns, data[:size], len(data))
        self.packets.append(made)
        return made

    def open(self) -> Call:
        """SYN, SYN-ACK and ACK."""
        self.packet("c2s", 0, flags=SYN)
        self.packet("s2c", 0, flags=SYN | ACK)
        self.packet("c2s", 0, flags=ACK)
        return self

    def say(self, way: Direction, payload: bytes, size: int = 1_400) -> Call:
        """The next bytes of a direction, in segments of at most `size`."""
        for at in range(0, len(payload), size):
            piece = payload[at : at + size]
            self.packet(way, self.sent[way], piece)
            self.sent[way] += len(piece)
        return self

    def lose(self, way: Direction, size: int) -> Call:
        """So many bytes of a direction are not captured."""
        self.sent[way] += size
        return self

    def close(self) -> Call:
        """FIN of both ends."""
        self.packet("c2s", self.sent["c2s"], flags=FIN | ACK)
        self.packet("s2c", self.sent["s2c"], flags=FIN | ACK)
        return self


def write(path: Path, packets: Iterable[Made]) -> Path:
    """A pcap file of raw IP packets, in the order given."""
    with path.open("wb") as out:
        writer = PcapWriter(out, link=f.LINK_RAW, nano=True)
        for each in packets:
            writer.packet(each.ts_ns, each.data, each.original)
    return path


def _ether_type(packet: bytes) -> int:
    return 0x0800 if packet[0] >> 4 == 4 else 0x86DD


def cooked(packet: bytes) -> bytes:
    """Return a frame of Linux cooked capture, version 1."""
    return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), _ether_type(packet)) + packet


def cooked2(packet: bytes) -> bytes:
    """Return a frame of Linux cooked capture, version 2."""
    return struct.pack(">HHIHBB8s", _ether_type(packet), 0, 1, 1, 0, 6, bytes(8)) + packet


def loopback(packet: bytes, *, order: str = "<", family6: int = 30) -> bytes:
    """Return a frame with a BSD null header, or a loopback header (`order` ">")."""
    family = 2 if packet[0] >> 4 == 4 else family6
    return struct.pack(order + "I", family) + packet


def link_layer(link: int, packet: bytes) -> bytes:
    """Return an IP packet in the plainest frame of a link type."""
    if link == f.LINK_ETHERNET:
        return ethernet(packet)
    if link == f.LINK_COOKED:
        return cooked(packet)
    if link == f.LINK_COOKED2:
        return cooked2(packet)
    if link in (f.LINK_NULL, f.LINK_LOOP):
        return loopback(packet, order="<" if link == f.LINK_NULL else ">")
    assert link in (f.LINK_RAW, f.LINK_RAW_BSD, f.LINK_RAW_OPENBSD, f.LINK_IPV4, f.LINK_IPV6)
    return packet

"""Writes small classic pcap files: Ethernet, IPv4 and TCP around bytes that tests choose."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CLIENT = bytes((10, 0, 0, 1))
SERVER = bytes((10, 0, 0, 2))
LARGEST_SEGMENT = 16_000
"""Bytes of payload in one packet, unless a test cuts finer; an IPv4 packet has at most 65,535."""

_FIN_ACK, _SYN, _SYN_ACK, _PSH_ACK, _ACK = 0x11, 0x02, 0x12, 0x18, 0x10


@dataclass
class Connection:
    """A TCP connection: payloads in the order in which they cross, each ("c2s" or "s2c", bytes)."""

    server_port: int
    client_port: int
    payloads: list[tuple[str, bytes]] = field(default_factory=list)

    def packets(self) -> Iterator[bytes]:
        """Handshake, payloads and close, as Ethernet frames."""
        sent = {"c2s": 1000, "s2c": 5000}
        yield self._packet("c2s", _SYN, sent)
        sent["c2s"] += 1
        yield self._packet("s2c", _SYN_ACK, sent)
        sent["s2c"] += 1
        yield self._packet("c2s", _ACK, sent)
        for direction, payload in self.payloads:
            for piece in cut(payload, LARGEST_SEGMENT):
                yield self._packet(direction, _PSH_ACK, sent, piece)
                sent[direction] += len(piece)
        yield self._packet("c2s", _FIN_ACK, sent)
        sent["c2s"] += 1
        yield self._packet("s2c", _FIN_ACK, sent)

    def _packet(self, way: str, flags: int, sent: dict[str, int], payload: bytes = b"") -> bytes:
        other = "s2c" if way == "c2s" else "c2s"
        ports = (self.client_port, self.server_port)
        hosts = (CLIENT, SERVER)
        if way == "s2c":
            ports, hosts = ports[::-1], hosts[::-1]
        acked = 0 if flags == _SYN else sent[other]
        tcp = struct.pack(">HHIIBBHHH", *ports, sent[way], acked, 0x50, flags, 65535, 0, 0)
        pseudo = hosts[0] + hosts[1] + struct.pack(">BBH", 0, 6, len(tcp) + len(payload))
        total = _checksum(pseudo + tcp + payload)
        tcp = tcp[:16] + struct.pack(">H", total) + tcp[18:] + payload
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0)
        head += hosts[0] + hosts[1]
        head = head[:10] + struct.pack(">H", _checksum(head)) + head[12:]
        return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\x00" + head + tcp


def cut(data: bytes, size: int) -> list[bytes]:
    """Pieces of at most `size` bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def _checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def write_pcap(path: Path, connections: Iterable[Connection]) -> None:
    """One connection after the other, a millisecond between packets."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        number = 0
        for connection in connections:
            for packet in connection.packets():
                seconds, milliseconds = divmod(number, 1000)
                number += 1
                head = (1_700_000_000 + seconds, milliseconds * 1000, len(packet), len(packet))
                out.write(struct.pack("<IIII", *head) + packet)


def capture(
    folder: Path, port: int, payloads: list[tuple[str, bytes]], client: int = 50_000
) -> Path:
    """A file with one connection to a port."""
    path = folder / "capture.pcap"
    write_pcap(path, [Connection(port, client, payloads)])
    return path

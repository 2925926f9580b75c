"""The style of tcpdump: pcap, Ethernet, and TCP as it is on a wire (`segments.py`).

Casts differ in addresses, ports and initial sequence numbers, which therefore wrap now and then.
Checksums of IP headers are right; those of TCP are left to the interface, as on a machine whose
network card computes them.
"""

from __future__ import annotations

import random
import struct
from typing import Final

from wirelake.capture.format import constants as f
from wirelake.capture.tcp.synthesis import (
    SYN,
    ipv4,
    tcp,
)

from ..clock import SECOND_NS
from ..scenes.scene import C2S, Happening
from ..scenes.template import Connection, Mould
from .hosts import SERVER
from .numbers import Bytes
from .packet_template import Item, Plate
from .placement import engrave
from .recorded import server_port
from .segments import Segment, segments_of

__all__ = ["SniffedStyle"]

_LINKTYPE_ETHERNET: Final = 1
_SNAP: Final = 262_144
_SMALLEST: Final = 60
"""What arrives over Ethernet is at least so long; padding fills it."""
_LARGEST: Final = 16 << 20
"""No record is longer: a length beyond it is wrong."""
_ROUTER: Final = bytes.fromhex("02005e100001")
_CARD: Final = bytes.fromhex("02005e100009")
_NOBODY: Final = bytes(4)
_SYN_OPTIONS: Final = bytes.fromhex("020405a80103030701010402")


class SniffedStyle:
    """Makes plates and the heads of files; times have microseconds or nanoseconds."""

    suffix: str = ".pcap"
    numbered: bool = False

    def __init__(self, resolution_ns: int):
        self.resolution_ns = resolution_ns
        self._time = "ts_pcap_ns" if resolution_ns == 1 else "ts_pcap_us"

    def head(self, source: str, sequence: int) -> bytes:  # noqa: ARG002 - pcap has no room for it
        """What a file begins with."""
        magic = f.PCAP_MAGIC_NANO if self.resolution_ns == 1 else f.PCAP_MAGIC_MICRO
        return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, _SNAP, _LINKTYPE_ETHERNET)

    def plate(self, mould: Mould) -> Plate:
        """The packets of a mould."""
        rng = random.Random(f"{mould.seed}/tcp")
        by_line: dict[int, list[tuple[int, Happening]]] = {}
        items: list[Item] = []
        for n, happening in enumerate(mould.happenings):
            if happening.kind in {"fact", "keys"}:
                items.append(Item(happening.at, happening.text.encode(), happening=n, hidden=True))
            elif happening.line is not None:
                place = mould.places[happening.line.number]
                by_line.setdefault(place, []).append((n, happening))
        for place, happenings in by_line.items():
            items += self._connection(mould, place, happenings, rng)
        return engrave(mould, items)

    def introduction(
        self,
        connection: Connection,  # noqa: ARG002 - the same shape for every style
        address: str,  # noqa: ARG002
        port: int,  # noqa: ARG002
        number: int,  # noqa: ARG002
        ts_ns: int,  # noqa: ARG002
    ) -> bytes:
        """Nothing: what a capture holds of a connection is its packets."""
        return b""

    def can_shorten(self, item: Item) -> bool:
        """Whether no padding follows the payload."""
        return item.payload_at + item.payload[1] - item.payload[0] == len(item.data)

    def shortened(self, packet: bytes, size: int, *, on_wire: bool) -> bytes:
        """A record whose packet has so many bytes less."""
        captured, original = struct.unpack_from("<II", packet, 8)
        frame = bytearray(packet[f.PCAP_RECORD_SIZE : -size])
        if on_wire:
            original -= size
            at = 18 if frame[12:14] == b"\x81\x00" else 14
            head = frame[at : at + 20]
            head[2:4] = (int.from_bytes(head[2:4], "big") - size).to_bytes(2, "big")
            head[10:12] = b"\0\0"
            total = sum(struct.unpack(">10H", head))
            total = (total & 0xFFFF) + (total >> 16)
            total = (total & 0xFFFF) + (total >> 16)
            head[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
            frame[at : at + 20] = head
        return packet[:8] + struct.pack("<II", captured - size, original) + bytes(frame)

    def retimed(self, packet: bytes, ts_ns: int) -> bytes:
        """A packet that was captured at another time."""
        seconds, rest = divmod(ts_ns, SECOND_NS)
        return struct.pack("<II", seconds, rest // self.resolution_ns) + packet[8:]

    def damage(self, packet: Bytes) -> bool:
        """The captured length is beyond everything; the record must not hold what looks like the
        head of another one."""
        data = packet.tobytes()
        for at in range(1, len(data) - f.PCAP_RECORD_SIZE + 1):
            _, parts, captured, original = struct.unpack_from("<IIII", data, at)
            if parts < SECOND_NS // self.resolution_ns and 0 < captured <= original <= _LARGEST:
                return False
        packet[11] = 0x7F
        return True

    def damage_detail(self, packet: bytes) -> str:
        """What a reader says of it."""
        return f"a record of {int.from_bytes(packet[8:12], 'little')} bytes"

    def _connection(
        self,
        mould: Mould,
        place: int,
        happenings: list[tuple[int, Happening]],
        rng: random.Random,
    ) -> list[Item]:
        connection = mould.connections[place]
        vlan = rng.randint(2, 4000) if rng.random() < 0.1 else None
        found = segments_of(happenings, connection.line.round_trip_s, rng)
        return [self._item(connection, place, segment, vlan) for segment in found]

    def _item(self, connection: Connection, place: int, segment: Segment, vlan: int | None) -> Item:
        way = segment.direction
        port = server_port(connection.protocol)
        ports = (0, port) if way == C2S else (port, 0)
        ends = (_NOBODY, SERVER) if way == C2S else (SERVER, _NOBODY)
        data = connection.streams[way].data[max(0, segment.start) : max(0, segment.stop)]
        options = _SYN_OPTIONS if segment.flags & SYN else b""
        packet = ipv4(*ends, tcp(*ports, flags=segment.flags, payload=data, options=options))
        link = (_CARD + _ROUTER) if way == C2S else (_ROUTER + _CARD)
        link += struct.pack(">HH", 0x8100, vlan) if vlan is not None else b""
        frame = link + b"\x08\x00" + packet
        if way == C2S:
            frame = frame.ljust(_SMALLEST, b"\0")
        record = struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
        ip_at = f.PCAP_RECORD_SIZE + len(link) + 2
        columns = {
            self._time: 0,
            "checksum": ip_at + 10,
            "address": ip_at + (12 if way == C2S else 16),
            "port": ip_at + (20 if way == C2S else 22),
            "seq": ip_at + 24,
            "ack": ip_at + 28,
        }
        if not segment.ack and segment.flags == SYN:
            del columns["ack"]
        return Item(
            segment.at,
            record,
            place,
            way,
            (max(0, segment.start), max(0, segment.stop)),
            ip_at + 40 + len(options),
            segment.happening,
            segment.flags,
            columns,
            seq=segment.start,
            ack=segment.ack,
        )

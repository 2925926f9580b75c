"""Captures in the style of tcpdump: pcap, Ethernet, and TCP as on the wire (`segments.py`).

Instances differ in addresses, ports and initial sequence numbers, which therefore wrap sometimes.
IP header checksums are correct; TCP checksums are zero, as on a host whose network card computes
them.
"""

from __future__ import annotations

import random
import struct
from typing import Final

from wirelake.capture.format import constants as f
from wirelake.capture.tcp.headers import SYN, ipv4, tcp

from ..scenes.provider import Connection, SceneTemplate
from ..scenes.scene import C2S, SECOND_NS, SceneEvent
from .instances import Item, PacketTemplate
from .numbers import SERVER, Bytes
from .segments import Segment, build_packet_template, segments_of

__all__ = ["SniffedStyle"]

_LINKTYPE_ETHERNET: Final = 1
_SNAP: Final = 262_144
_SMALLEST: Final = 60
"""Minimum size of a received Ethernet frame; padding fills it."""
_LARGEST: Final = 16 << 20
"""Largest plausible record; readers reject longer ones."""
_ROUTER: Final = bytes.fromhex("02005e100001")
_CARD: Final = bytes.fromhex("02005e100009")
_NOBODY: Final = bytes(4)
_SYN_OPTIONS: Final = bytes.fromhex("020405a80103030701010402")


class SniffedStyle:
    """Makes packet templates and file headers."""

    suffix: str = ".pcap"
    numbered: bool = False

    def __init__(self, resolution_ns: int):
        self.resolution_ns = resolution_ns
        self._time = "ts_pcap_ns" if resolution_ns == 1 else "ts_pcap_us"

    def head(self, source: str, sequence: int) -> bytes:  # noqa: ARG002 - pcap has no room for it
        """Return the header of a file."""
        magic = f.PCAP_MAGIC_NANO if self.resolution_ns == 1 else f.PCAP_MAGIC_MICRO
        return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, _SNAP, _LINKTYPE_ETHERNET)

    def packets(self, template: SceneTemplate) -> PacketTemplate:
        """Return the packets of a template."""
        rng = random.Random(f"{template.seed}/tcp")
        by_connection: dict[int, list[tuple[int, SceneEvent]]] = {}
        items: list[Item] = []
        for n, event in enumerate(template.events):
            if event.kind in {"fact", "keys"}:
                items.append(Item(event.at, event.text.encode(), event=n, hidden=True))
            elif event.connection is not None:
                place = template.places[event.connection.number]
                by_connection.setdefault(place, []).append((n, event))
        for place, events in by_connection.items():
            items += self._connection(template, place, events, rng)
        return build_packet_template(template, items)

    def introduction(
        self,
        connection: Connection,  # noqa: ARG002 - the same shape for every style
        address: str,  # noqa: ARG002
        port: int,  # noqa: ARG002
        number: int,  # noqa: ARG002
        ts_ns: int,  # noqa: ARG002
    ) -> bytes:
        """Return nothing: pcap has no place for it."""
        return b""

    def can_shorten(self, item: Item) -> bool:
        """Return whether the payload is not followed by padding."""
        return item.payload_at + item.payload[1] - item.payload[0] == len(item.data)

    def shortened(self, packet: bytes, size: int, *, on_wire: bool) -> bytes:
        """Return a record whose packet is `size` bytes shorter."""
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
        """Return a packet with another timestamp."""
        seconds, rest = divmod(ts_ns, SECOND_NS)
        return struct.pack("<II", seconds, rest // self.resolution_ns) + packet[8:]

    def damage(self, packet: Bytes) -> bool:
        """Write an impossible captured length, unless the record holds what looks like the header
        of another one: a reader would resume there."""
        data = packet.tobytes()
        for at in range(1, len(data) - f.PCAP_RECORD_SIZE + 1):
            _, parts, captured, original = struct.unpack_from("<IIII", data, at)
            if parts < SECOND_NS // self.resolution_ns and 0 < captured <= original <= _LARGEST:
                return False
        packet[11] = 0x7F
        return True

    def damage_detail(self, packet: bytes) -> str:
        """Return the detail that a reader reports."""
        return f"a record of {int.from_bytes(packet[8:12], 'little')} bytes"

    def _connection(
        self,
        template: SceneTemplate,
        place: int,
        events: list[tuple[int, SceneEvent]],
        rng: random.Random,
    ) -> list[Item]:
        connection = template.connections[place]
        vlan = rng.randint(2, 4000) if rng.random() < 0.1 else None
        found = segments_of(events, connection.scene.round_trip_s, rng)
        return [self._item(connection, place, segment, vlan) for segment in found]

    def _item(self, connection: Connection, place: int, segment: Segment, vlan: int | None) -> Item:
        direction = segment.direction
        port = connection.scenes.server_port
        ports = (0, port) if direction == C2S else (port, 0)
        ends = (_NOBODY, SERVER) if direction == C2S else (SERVER, _NOBODY)
        data = connection.streams[direction].data[max(0, segment.start) : max(0, segment.stop)]
        options = _SYN_OPTIONS if segment.flags & SYN else b""
        packet = ipv4(*ends, tcp(*ports, flags=segment.flags, payload=data, options=options))
        link = (_CARD + _ROUTER) if direction == C2S else (_ROUTER + _CARD)
        link += struct.pack(">HH", 0x8100, vlan) if vlan is not None else b""
        frame = link + b"\x08\x00" + packet
        if direction == C2S:
            frame = frame.ljust(_SMALLEST, b"\0")
        record = struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
        ip_at = f.PCAP_RECORD_SIZE + len(link) + 2
        columns = {
            self._time: 0,
            "checksum": ip_at + 10,
            "address": ip_at + (12 if direction == C2S else 16),
            "port": ip_at + (20 if direction == C2S else 22),
            "seq": ip_at + 24,
            "ack": ip_at + 28,
        }
        if not segment.ack and segment.flags == SYN:
            del columns["ack"]
        return Item(
            segment.at,
            record,
            place,
            direction,
            (max(0, segment.start), max(0, segment.stop)),
            ip_at + 40 + len(options),
            segment.event,
            segment.flags,
            columns,
            seq=segment.start,
            ack=segment.ack,
        )

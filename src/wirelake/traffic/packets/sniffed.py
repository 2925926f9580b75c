"""Captures in the style of tcpdump: pcap, Ethernet, and TCP as on the wire.

Instances differ in addresses, ports and initial sequence numbers, which therefore wrap sometimes.
IP header checksums are correct; TCP checksums are zero, as on a host whose network card computes
them.

`segments_of` turns what the tap saw of one connection into packets. Writes in quick succession are
sent together and long ones are cut, so that frames cross segments and segments hold several frames.
Acknowledgements travel with data where they can and alone where they must. Occasionally a segment
is retransmitted although it arrived, or overtaken by its successor; an idle connection is probed.
Reassembly removes all of this.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wirelake.capture.format import constants as f
from wirelake.capture.tcp.headers import ACK, FIN, PSH, RST, SYN, ipv4, tcp

from ..scenes.provider import Connection, SceneTemplate
from ..scenes.scene import C2S, S2C, SECOND_NS, SceneEvent
from .numbers import SERVER, Bytes
from .packet_template import SPACING_S, Item, PacketTemplate, build_packet_template

__all__ = ["Segment", "SniffedStyle", "segments_of"]

_LINKTYPE_ETHERNET: Final = 1
_SNAP: Final = 262_144
_SMALLEST: Final = 60
"""Minimum size of a received Ethernet frame; padding fills it."""
_LARGEST: Final = 16 << 20
"""Largest plausible record; readers reject longer ones."""
_ROUTER: Final = bytes.fromhex("02005e100001")
_CARD: Final = bytes.fromhex("02005e100009")
_NO_ADDRESS: Final = bytes(4)
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
        ends = (_NO_ADDRESS, SERVER) if direction == C2S else (SERVER, _NO_ADDRESS)
        data = connection.streams[direction].data[max(0, segment.start) : max(0, segment.stop)]
        options = _SYN_OPTIONS if segment.flags & SYN else b""
        packet = ipv4(*ends, tcp(*ports, flags=segment.flags, payload=data, options=options))
        link = (_CARD + _ROUTER) if direction == C2S else (_ROUTER + _CARD)
        link += struct.pack(">HH", 0x8100, vlan) if vlan is not None else b""
        frame = link + b"\x08\x00" + packet
        if direction == C2S:
            # Received frames only: the card pads what is sent after the capture has seen it.
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


# -- TCP segments ------------------------------------------------------------------------------

_COALESCE_S: Final = 0.003
"""Writes within this time may share a segment."""
_DELAYED_ACK_S: Final = 0.04
_KEEP_ALIVE_S: Final = 45.0
_RETRANSMIT_S: Final = 0.21
"""Retransmission timeout."""
_RETRANSMIT_SHARE: Final = 0.004
"""Share of segments that are retransmitted."""
_SWAP_SHARE: Final = 0.08
"""Share of pairs within a burst that arrive in the other order."""
# Segments without payload get their sequence number at the end, when all are in order of time.
# Until then `start` has one of these. A SYN has -1, the number before the first byte.
_NEXT: Final = -2
"""The next number that its end would send."""
_PROBE: Final = -3
"""One below: a keep-alive probe repeats the last byte, so that the peer answers."""
_AFTER_FIN: Final = -4
"""One above: a FIN takes a number of its own."""
_UNKNOWN: Final = frozenset({_NEXT, _PROBE, _AFTER_FIN})


@dataclass(slots=True)
class Segment:
    """One packet of a connection; numbers are relative to the first byte after the SYN."""

    at: float
    direction: int
    flags: int
    start: int
    stop: int
    """Range of the stream that it carries; empty without payload."""
    ack: int = 0
    event: int = -1

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.stop - self.start


@dataclass(slots=True)
class _Write:
    at: float
    direction: int
    start: int
    stop: int
    event: int


def segments_of(
    events: list[tuple[int, SceneEvent]], round_trip_s: float, rng: random.Random
) -> list[Segment]:
    """Return the packets of one connection, in order of time."""
    mss = rng.choice((1448, 1448, 1380, 1220, 536))
    opened = next(each for _, each in events if each.kind == "open")
    closed = next((each for _, each in events if each.kind == "close"), None)
    found = [
        Segment(opened.at, C2S, SYN, -1, -1),
        Segment(opened.at + 0.000_03, S2C, SYN | ACK, -1, -1),
        Segment(opened.at + round_trip_s, C2S, ACK, 0, 0),
    ]
    clock = found[-1].at
    for write in _writes(events, rng):
        burst = list(_cut(write, mss))
        for segment in burst:
            clock = segment.at = max(segment.at, clock + SPACING_S)
        found += _swapped(burst, rng)
    data = found[3:]
    end = clock if closed is None else max(closed.at, clock + SPACING_S)
    found += _acknowledgements(data, round_trip_s, end)
    found += _retransmissions(data, rng, end)
    found += _probes(data, end)
    if closed is not None:
        found += _ending(closed, end, round_trip_s)
    found.sort(key=lambda each: each.at)
    _acknowledge(found, round_trip_s)
    return found


def _writes(events: list[tuple[int, SceneEvent]], rng: random.Random) -> Iterator[_Write]:
    """Yield what each end writes, joining writes in quick succession."""
    pending: _Write | None = None
    for n, each in events:
        if each.kind != "data":
            continue
        follows = (
            pending is not None
            and pending.direction == each.direction
            and each.at - pending.at < _COALESCE_S
            and rng.random() < 0.6
        )
        if pending is not None and follows:
            pending.at, pending.stop = each.at, each.stop
        else:
            if pending is not None:
                yield pending
            pending = _Write(each.at, each.direction, each.start, each.stop, n)
    if pending is not None:
        yield pending


def _cut(write: _Write, mss: int) -> Iterator[Segment]:
    for start in range(write.start, write.stop, mss):
        stop = min(start + mss, write.stop)
        flags = ACK | PSH if stop == write.stop else ACK
        yield Segment(write.at, write.direction, flags, start, stop, event=write.event)


def _swapped(burst: list[Segment], rng: random.Random) -> list[Segment]:
    """Swap some neighbours of a burst."""
    for one, two in pairwise(burst):
        if one.at < two.at and rng.random() < _SWAP_SHARE:
            one.at, two.at = two.at, one.at
    return sorted(burst, key=lambda each: each.at)


def _acknowledgements(data: list[Segment], round_trip_s: float, end: float) -> list[Segment]:
    """Return pure acknowledgements, where no data goes the other way in time."""
    found: list[Segment] = []
    for n, segment in enumerate(data):
        other = 1 - segment.direction
        due = segment.at + (_DELAYED_ACK_S if other == S2C else round_trip_s)
        following = data[n + 1] if n + 1 < len(data) else None
        in_time = following is not None and following.at <= due
        if not in_time and due < end:
            found.append(Segment(due, other, ACK, _NEXT, _NEXT))
    return found


def _retransmissions(data: list[Segment], rng: random.Random, end: float) -> list[Segment]:
    """Return spurious retransmissions, some of them joined with their successor."""
    found: list[Segment] = []
    for n, segment in enumerate(data):
        at = segment.at + _RETRANSMIT_S
        if at >= end or rng.random() >= _RETRANSMIT_SHARE:
            continue
        stop = segment.stop
        following = data[n + 1] if n + 1 < len(data) else None
        joins = (
            following is not None
            and following.start == stop
            and following.direction == segment.direction
            and following.size + segment.size < 1448
        )
        if following is not None and joins and rng.random() < 0.3:
            stop = following.stop
        found.append(Segment(at, segment.direction, ACK | PSH, segment.start, stop))
    return found


def _probes(data: list[Segment], end: float) -> list[Segment]:
    """Return keep-alive probes of idle connections, and their answers."""
    found: list[Segment] = []
    for one, two in pairwise(data):
        at = one.at + _KEEP_ALIVE_S
        if at < two.at - 1.0 and at < end - 1.0:
            found.append(Segment(at, S2C, ACK, _PROBE, _PROBE))
            found.append(Segment(at + 0.05, C2S, ACK, _NEXT, _NEXT))
    return found


def _ending(closed: SceneEvent, end: float, round_trip_s: float) -> list[Segment]:
    if closed.how == "reset":
        return [Segment(end, C2S, RST | ACK, _NEXT, _NEXT)]
    first = C2S if closed.how == "client" else S2C
    pause = 0.000_06 if first == C2S else round_trip_s
    return [
        Segment(end, first, FIN | ACK, _NEXT, _NEXT),
        Segment(end + pause, 1 - first, FIN | ACK, _NEXT, _NEXT),
        Segment(end + pause + 0.000_08 + round_trip_s, first, ACK, _AFTER_FIN, _AFTER_FIN),
    ]


def _acknowledge(found: list[Segment], round_trip_s: float) -> None:
    """Fill in sequence and acknowledgement numbers."""
    sent = [0, 0]
    arrived: list[list[tuple[float, int]]] = [[], []]
    fins = [0, 0]
    for segment in found:
        direction, other = segment.direction, 1 - segment.direction
        if segment.start in _UNKNOWN:
            number = sent[direction] + (fins[direction] if segment.start == _AFTER_FIN else 0)
            number -= 1 if segment.start == _PROBE else 0
            segment.start = segment.stop = number
        if segment.flags & FIN:
            fins[direction] = 1
        delay = round_trip_s if direction == C2S else 0.0
        known = [stop for at, stop in arrived[other][-64:] if at + delay <= segment.at]
        segment.ack = max(known, default=0) + (fins[other] if segment.flags & (FIN | RST) else 0)
        if segment.stop > sent[direction]:
            sent[direction] = segment.stop
            arrived[direction].append((segment.at, segment.stop))

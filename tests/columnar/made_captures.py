"""Captures made up at random: many small connections, and everything that can happen to them."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable, Iterator

from tests.capture.tcp_made import link_layer

from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.tcp import headers as make

PORTS = {7300: "comet", 7400: "tny"}
_LINKS = [
    f.LINK_ETHERNET,
    f.LINK_COOKED,
    f.LINK_COOKED2,
    f.LINK_NULL,
    f.LINK_LOOP,
    f.LINK_RAW,
    f.LINK_RAW_BSD,
]
_S = 1_000_000_000

Maker = Callable[[random.Random, "list[Timed]"], bytes]
Press = Callable[[bytes], bytes]
Timed = tuple[int, bytes, int | None, tuple[int, str] | None]
"""A time, an IP packet, its length on the wire if it was cut, and the recorder's word."""


class Talk:
    """One connection, as its packets are captured: in order, or not."""

    def __init__(self, rng: random.Random, trouble: float):
        self.rng = rng
        self.trouble = trouble
        version = rng.choice([4, 4, 6])
        size = 4 if version == 4 else 16
        # Few endpoints: ports are used again, and connections replace each other.
        self.ends = [
            (bytes([10] * (size - 1) + [rng.randrange(3)]), rng.choice([50_000, 50_001, 7400])),
            (bytes([11] * size), rng.choice([7300, 7400, 9999])),
        ]
        self.seq = [rng.choice([0, 2**32 - 200, rng.randrange(2**32)]) for _ in range(2)]
        self.base = list(self.seq)
        self.sent = [bytearray(), bytearray()]
        self.number = rng.randrange(1, 1 << 63)

    def trouble_now(self) -> bool:
        return self.rng.random() < self.trouble

    def segment(
        self, side: int, seq: int, flags: int, payload: bytes = b"", recorded: bool = False
    ) -> tuple[bytes, int | None, tuple[int, str] | None]:
        src, dst = self.ends[side], self.ends[1 - side]
        tcp = make.tcp(
            src[1],
            dst[1],
            seq=seq,
            ack=self.seq[1 - side],
            flags=flags,
            payload=payload,
            options=bytes(4 * self.rng.randrange(3)),
        )
        packet = self._ip(src[0], dst[0], tcp)
        original = None
        if self.trouble_now() and self.rng.random() < 0.3:
            original = len(packet)
            packet = packet[: self.rng.randrange(len(packet))]
        word = (self.number, "c2s" if side == 0 else "s2c") if recorded else None
        return packet, original, word

    def _ip(self, src: bytes, dst: bytes, content: bytes) -> bytes:
        rng = self.rng
        if len(src) == 4:
            options = bytes(4 * rng.choice([0, 0, 0, 1]))
            total = 0 if rng.random() < 0.1 else None
            return make.ipv4(src, dst, content, options=options, total=total)
        extensions = [(number, bytes([0]) + bytes(6)) for number in rng.choice([[], [0], [60, 43]])]
        return make.ipv6(src, dst, content, extensions=extensions)

    def packets(self, recorded: bool) -> Iterator[tuple[bytes, int | None, tuple[int, str] | None]]:
        rng = self.rng
        if rng.random() < 0.8:
            yield self.segment(0, self.seq[0], make.SYN, b"", recorded)
            if rng.random() < 0.9:
                yield self.segment(1, self.seq[1], make.SYN | make.ACK, b"", recorded)
            self.seq = [self.seq[0] + 1, self.seq[1] + 1]
        self.base = list(self.seq)
        for _ in range(rng.randrange(12)):
            side = rng.randrange(2)
            if rng.random() < 0.2:
                yield self.segment(side, self.seq[side], make.ACK, b"", recorded)
                continue
            payload = rng.randbytes(rng.choice([1, 5, 40, 300]))
            at = len(self.sent[side])
            self.sent[side] += payload
            if not (self.trouble_now() and rng.random() < 0.4):  # else it is lost
                yield self.segment(
                    side, self.base[side] + at, make.PSH | make.ACK, payload, recorded
                )
            self.seq[side] = self.base[side] + len(self.sent[side])
            if self.trouble_now():
                yield self._again(side, recorded)
        yield from self._goodbye(recorded)

    def _again(self, side: int, recorded: bool) -> tuple[bytes, int | None, tuple[int, str] | None]:
        """A second copy of something, the same or not, or beyond what was sent."""
        rng = self.rng
        size = len(self.sent[side])
        start = rng.randrange(-2, size + 3)
        stop = start + rng.randrange(0, 80)
        payload = bytes(self.sent[side][max(start, 0) : stop])
        if rng.random() < 0.3:
            payload = rng.randbytes(max(stop - max(start, 0), 0))
        flags = make.ACK | (make.FIN if rng.random() < 0.1 else 0)
        return self.segment(side, self.base[side] + max(start, 0), flags, payload, recorded)

    def _goodbye(
        self, recorded: bool
    ) -> Iterator[tuple[bytes, int | None, tuple[int, str] | None]]:
        rng = self.rng
        for side in rng.choice([[], [0], [0, 1], [1, 0]]):
            payload = b"bye" if rng.random() < 0.3 else b""
            yield self.segment(side, self.seq[side], make.FIN | make.ACK, payload, recorded)
            self.seq[side] += 1 + len(payload)
        if rng.random() < 0.2:
            side = rng.randrange(2)
            payload = b"reset" if rng.random() < 0.3 else b""
            yield self.segment(side, self.seq[side], make.RST, payload, recorded)
        for _ in range(rng.choice([0, 0, 1, 3])):
            side = rng.randrange(2)
            payload = rng.choice([b"", b"late"])
            yield self.segment(side, self.seq[side] - rng.randrange(5), make.ACK, payload, recorded)


def talks(rng: random.Random, count: int, trouble: float, *, recorded: bool = False) -> list[Timed]:
    """The packets of some connections, mixed; a little out of order where there is trouble."""
    queues = [list(Talk(rng, trouble).packets(recorded)) for _ in range(count)]
    now = 1_700_000_000 * _S
    found: list[Timed] = []
    live: list[list[tuple[bytes, int | None, tuple[int, str] | None]]] = []
    while queues or live:
        while queues and (not live or len(live) < 4):
            live.append(queues.pop())
        queue = rng.choice(live)
        if not queue:
            live.remove(queue)
            continue
        early = 1 if len(queue) > 1 and rng.random() < trouble * 0.5 else 0
        now += rng.choice([1000, 5_000_000, 30 * _S if rng.random() < 0.05 else 1000])
        when = now - rng.choice([0, 0, 0, 61 * _S]) if rng.random() < trouble * 0.1 else now
        found.append((when, *queue.pop(early)))
    return found


def pcap(rng: random.Random, packets: list[Timed]) -> bytes:
    """A pcap file of one link type."""
    stream = io.BytesIO()
    link = rng.choice(_LINKS)
    order = rng.choice(["little", "big"])
    writer = PcapWriter(stream, link=link, order=order, nano=rng.random() < 0.5)
    for ts_ns, packet, original, _ in packets:
        _write(rng, writer, ts_ns, link, packet, original)
    return stream.getvalue()


def pcapng(rng: random.Random, packets: list[Timed], damage: float = 0.0) -> bytes:
    """A pcapng file of several sections and interfaces, with everything between the packets."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream, order=rng.choice(["little", "big"]))
    links = _interfaces(rng, writer)
    for ts_ns, packet, original, word in packets:
        if rng.random() < 0.02:
            writer.section(rng.choice(["little", "big"]))
            links = _interfaces(rng, writer)
        if rng.random() < 0.05:
            _between(rng, writer)
        if rng.random() < damage:
            writer.raw(rng.randbytes(4 * rng.randrange(1, 30)))
        number = rng.randrange(len(links))
        _write(rng, writer, ts_ns, links[number], packet, original, number, word)
    return stream.getvalue()


def _interfaces(rng: random.Random, writer: PcapngWriter) -> list[int]:
    links = rng.sample(_LINKS, rng.randrange(1, 4))
    for link in links:
        resolution = rng.choice([9, 9, 6, 10, 0x80 | 20, 0x80 | 33, 0])
        writer.interface(link, resolution=resolution, shift_s=rng.choice([0, 0, 7, -7]))
    return links


def _between(rng: random.Random, writer: PcapngWriter) -> None:
    match rng.randrange(6):
        case 0:
            writer.fact("publish", rng.randrange(1 << 60), rng.choice([None, 5]), topic="a")
        case 1:
            writer.secrets('{"protocol": "magline"}')
        case 2:
            writer.custom(b"WHF1{not json")
        case 3:
            writer.custom(b"of others", pen=7)
        case 4:
            writer.block(0x0BAD_CAFE, bytes(8))
        case 5:
            writer.simple_packet(rng.randbytes(30))


def _write(
    rng: random.Random,
    writer: PcapWriter | PcapngWriter,
    ts_ns: int,
    link: int,
    packet: bytes,
    original: int | None,
    interface: int = 0,
    word: tuple[int, str] | None = None,
) -> None:
    if packet:
        framed = link_layer(link, packet)
    else:
        framed, original = b"", 1
    if link == f.LINK_ETHERNET and packet and rng.random() < 0.3:
        framed = make.ethernet(packet, vlans=[1] * rng.randrange(1, 3), padded=rng.random() < 0.5)
    if original is not None:
        original += len(framed) - len(packet)
    if rng.random() < 0.03:
        framed, original = rng.randbytes(rng.randrange(80)), None
    if isinstance(writer, PcapWriter):
        writer.packet(ts_ns, framed, original)
        return
    options = [] if word is None else list(writer.marks(*word, rng.randrange(4)))
    if rng.random() < 0.2:
        options.insert(rng.randrange(len(options) + 1), (1, b"a comment"))
    if not options and rng.random() < 0.1 and interface < 1 << 16:
        writer.obsolete_packet(ts_ns, framed, original=original, interface=interface)
    else:
        writer.packet(ts_ns, framed, original=original, interface=interface, options=options)


def chopped(rng: random.Random, data: bytes) -> bytes:
    """A file that something has happened to: bytes changed, lost, or put in."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[at:] = b""
            case 1:
                changed[at : at + 4] = struct.pack("<I", rng.choice([0, 3, 1 << 31, 12, 64]))
            case 2:
                del changed[at : at + rng.randrange(40)]
            case 3:
                changed[at:at] = rng.randbytes(rng.randrange(40))
    return bytes(changed)


def short_talk(rng: random.Random, number: int) -> list[tuple[bytes, None, None]]:
    """A whole connection of six packets, from an endpoint of its own."""
    client, server = (b"\x0a\x00" + number.to_bytes(2, "big"), 50_000), (b"\x0b\x00\x00\x01", 7300)

    def packet(src: tuple[bytes, int], dst: tuple[bytes, int], seq: int, flags: int, text: bytes):  # type: ignore[no-untyped-def]
        tcp = make.tcp(src[1], dst[1], seq=seq, flags=flags, payload=text)
        return make.ipv4(src[0], dst[0], tcp), None, None

    return [
        packet(client, server, 10, make.SYN, b""),
        packet(server, client, 20, make.SYN | make.ACK, b""),
        packet(client, server, 11, make.ACK, b"ask"),
        packet(server, client, 21, make.ACK, rng.randbytes(5)),
        packet(client, server, 14, make.FIN | make.ACK, b""),
        packet(server, client, 26, make.FIN | make.ACK, b""),
    ]

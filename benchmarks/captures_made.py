"""Captures for the benchmarks: simulated ones, and two shapes that no population has.

    simulated           what `wirelake simulate` makes, as one pcap file; `prefix` cuts it
    many_connections    connections of ten packets each, a thousand of them open at a time
    one_connection      a single connection, with a frame in each packet

The last two are made from a few templates by numpy, because there are tens of millions of packets.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirelake.capture.format.constants import Limits
from wirelake.columnar.scan.blocks import OFFSET
from wirelake.columnar.scan.scanner import Scanner
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.protocol import PROTOCOL as COMET_PROTOCOL
from wirelake.traffic import simulate

from .corpus import corpus

__all__ = ["many_connections", "one_connection", "prefix", "simulated"]

PCAP_HEAD = bytes.fromhex("d4c3b2a1 02000400 00000000 00000000 00000400 01000000")
_NANOSECONDS = bytes.fromhex("4d3cb2a1")
"""What pcap files with times in nanoseconds begin with, as those of one tap do."""
PORT = 9620
"""Of comet."""
CLIENT_PORT = 20_000
"""The first of 16,384 that each address uses."""
START_S = 1_767_225_600
PACKET_US = 10
"""Between two packets."""
TOGETHER = 1_000
"""Connections that are open at the same time."""
PACKETS = 10
"""Of each connection."""
CHUNK = 4_096
"""Packets of a single connection that are made at a time."""

_SYN, _ACK, _PSH, _FIN = 2, 16, 8, 1
_HEAD = 16 + 14 + 20 + 20
"""Record, Ethernet, IPv4 and TCP headers."""

Bytes = NDArray[np.uint8]


# -- simulated -------------------------------------------------------------------------------


def simulated(
    folder: Path, size: int, *, protocols: Sequence[str] | None = None, seed: int = 1
) -> Path:
    """A capture as tcpdump makes it, about so large.

    Every tap of a simulation sees the same hours. Here each comes after the other, because time
    does not go back in the capture of one machine.
    """
    simulate(folder, size=size, seed=seed, protocols=protocols, style="tcpdump", force=True)
    joined = folder.with_suffix(".pcap")
    with joined.open("wb") as out:
        out.write(PCAP_HEAD)
        shifts: dict[str, int] = {}
        last_s = 0
        for path in sorted(folder.glob("*.pcap")):
            data = np.fromfile(path, np.uint8)
            times = _places_of_times(path)
            first_s = _numbers(data, times[:1])[0]
            shift = shifts.setdefault(path.stem.rpartition("-")[0], max(last_s + 1 - first_s, 0))
            _scatter(data, times, (_numbers(data, times) + shift).astype("<u4"))
            if data[:4].tobytes() == _NANOSECONDS:
                _scatter(data, times + 4, (_numbers(data, times + 4) // 1_000).astype("<u4"))
            last_s = int(_numbers(data, times[-1:])[0])
            out.write(data[len(PCAP_HEAD) :].tobytes())
    shutil.rmtree(folder)
    return joined


def _places_of_times(path: Path) -> NDArray[np.int64]:
    """Return where the records of a pcap file begin, which is with their times in seconds."""
    scanner = Scanner(str(path), window_bytes=1 << 26, limits=Limits())
    found = [rows.packet_i64[OFFSET, : rows.count] for rows in scanner.windows()]
    scanner.close()
    return np.concatenate(found)


def _numbers(data: Bytes, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the 32-bit numbers at places of a buffer."""
    octets: Bytes = data[places[:, None] + np.arange(4)]
    return np.asarray(octets.view("<u4").ravel(), np.int64)


def prefix(capture: Path, size: int, path: Path) -> Path:
    """The first so many bytes of a pcap file, up to the end of a packet."""
    with capture.open("rb") as source, path.open("wb") as out:
        data = source.read(size)
        at = len(PCAP_HEAD)
        while at + 16 <= len(data):
            stop = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            if stop > len(data):
                break
            at = stop
        out.write(data[:at])
    return path


# -- templates ----------------------------------------------------------------------------------


def _packet(way: int, flags: int, payload: bytes) -> Bytes:
    """A packet between 10.0.0.0:20000 and the server, without times and sequence numbers."""
    size = _HEAD - 16 + len(payload)
    record = bytes(8) + size.to_bytes(4, "little") * 2
    ethernet = bytes(12) + b"\x08\x00"
    client, server = bytes((10, 0, 0, 0)), bytes((192, 168, 0, 1))
    ends = (client, server) if way == 0 else (server, client)
    ip = b"\x45\0" + (size - 14).to_bytes(2, "big") + bytes(4) + b"\x40\x06\0\0" + b"".join(ends)
    ports = [port.to_bytes(2, "big") for port in (CLIENT_PORT, PORT)]
    tcp = b"".join(ports[:: 1 - 2 * way]) + bytes(8) + bytes((5 << 4, flags)) + b"\xff\xff\0\0\0\0"
    return np.frombuffer(record + ethernet + ip + tcp + payload, np.uint8)


class _Template(NamedTuple):
    """Copies of one packet, and who sent it."""

    way: int
    copies: Bytes
    """A row for each."""

    def stamp(self, times_us: Any) -> None:
        """Sets the times, in microseconds since the start."""
        self._put(0, (START_S + times_us // 1_000_000).astype("<u4"))
        self._put(4, (times_us % 1_000_000).astype("<u4"))

    def clients(self, numbers: Any) -> None:
        """Sets the client: its address and port are its number."""
        at = 16 + 14 + (12 if self.way == 0 else 16)
        self._put(at, (0x0A000000 + (numbers >> 14)).astype(">u4"))
        self._put(16 + 14 + 20 + 2 * self.way, (CLIENT_PORT + (numbers & 0x3FFF)).astype(">u2"))

    def sequence(self, seq: Any, ack: Any) -> None:
        """Sets the numbers of TCP."""
        self._put(16 + 14 + 20 + 4, (seq & 0xFFFFFFFF).astype(">u4"))
        self._put(16 + 14 + 20 + 8, (ack & 0xFFFFFFFF).astype(">u4"))

    def _put(self, at: int, values: NDArray[Any]) -> None:
        width = values.dtype.itemsize
        self.copies[:, at : at + width] = values.view(np.uint8).reshape(-1, width)


def _template(way: int, flags: int, payload: bytes, copies: int) -> _Template:
    return _Template(way, np.tile(_packet(way, flags, payload), (copies, 1)))


# -- many connections ------------------------------------------------------------------------


def _conversation() -> list[tuple[int, int, bytes]]:
    """Ten packets of a phone that signs on and gets a notification: way, flags, payload."""
    write = COMET_PROTOCOL.encode
    note = comet.Notification(1, "00112233445566aa", content=b"x" * 90, ts=START_S * 1000)
    push = _PSH | _ACK
    return [
        (0, _SYN, b""),
        (1, _SYN | _ACK, b""),
        (0, push, write(comet.Auth("client-1234567", "t" * 48))),
        (1, push, write(comet.AuthSuccess(bytes(44)))),
        (0, push, write(comet.Subscribe(("@room/oslo", "@match/leeds")))),
        (1, push, write(comet.Ok())),
        (1, push, write(note)),
        (0, push, write(comet.MessageAck(("00112233445566aa",)))),
        (0, _FIN | _ACK, b""),
        (1, _FIN | _ACK, b""),
    ]


def many_connections(path: Path, connections: int) -> int:
    """Writes so many connections of ten packets; how many packets that are."""
    with path.open("wb") as out:
        out.write(PCAP_HEAD)
        for first in range(0, connections, TOGETHER):
            count = min(TOGETHER, connections - first)
            for copies in _round(first, count):
                out.write(copies.tobytes())
    return connections * PACKETS


def _round(first: int, count: int) -> Iterator[Bytes]:
    """The packets of some connections that live at the same time: each sends in turn."""
    numbers = np.arange(first, first + count)
    begun = numbers * 2_654_435_761  # somewhere, and not the same for all
    sent = [0, 0]
    for turn, (way, flags, payload) in enumerate(_conversation()):
        template = _template(way, flags, payload, count)
        template.clients(numbers)
        template.stamp((first * PACKETS + turn * TOGETHER + np.arange(count)) * PACKET_US)
        template.sequence(begun + sent[way], begun + sent[1 - way])
        sent[way] += len(payload) + (1 if flags & (_SYN | _FIN) else 0)
        yield template.copies


# -- one connection --------------------------------------------------------------------------


def one_connection(path: Path, size: int) -> int:
    """Writes a connection of about so many bytes, a frame in each packet; how many packets."""
    frames = [s.data for s in corpus("comet", 2_000).samples if s.direction == "s2c"]
    records = [_packet(1, _PSH | _ACK, data) for data in frames]
    lengths = np.array([len(record) for record in records])
    payloads = np.array([len(data) for data in frames])
    chosen = np.random.default_rng(5).integers(0, len(frames), CHUNK)
    data = np.concatenate([records[number] for number in chosen])
    starts = np.append(0, np.cumsum(lengths[chosen])[:-1])
    before = np.append(0, np.cumsum(payloads[chosen])[:-1])
    total = int(payloads[chosen].sum())
    packets = 0
    with path.open("wb") as out:
        out.write(PCAP_HEAD)
        for turn in range(max(1, size // len(data))):
            times = (turn * CHUNK + np.arange(CHUNK)) * PACKET_US
            _scatter(data, starts, (START_S + times // 1_000_000).astype("<u4"))
            _scatter(data, starts + 4, (times % 1_000_000).astype("<u4"))
            _scatter(data, starts + 54, ((1 + turn * total + before) & 0xFFFFFFFF).astype(">u4"))
            out.write(data.tobytes())
            packets += CHUNK
    return packets


def _scatter(data: Bytes, places: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Writes numbers at places of a buffer."""
    width = values.dtype.itemsize
    octets = values.view(np.uint8).reshape(-1, width)
    for place in range(width):
        data[places + place] = octets[:, place]

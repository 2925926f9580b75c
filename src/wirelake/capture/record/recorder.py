"""Records live traffic: whole frames, as they cross the edge, into pcapng (see `format.py`).

    recorder = Recorder(folder, source="edge-1")
    recorder.open(7, ("10.0.0.9", 51000), ("10.0.0.1", 7300), "comet", ts_ns)
    recorder.record(7, "c2s", frames, ts_ns)
    recorder.fact("published", ts_ns, 7, topic="news")
    recorder.close(7, ts_ns, "eof")
    recorder.stop()

A connection gets a SYN and a SYN-ACK when it opens, FINs when it closes, and in between packets
whose sequence numbers fit, so that any tool can follow it. Blocks are collected and handed to the
operating system when `flush_bytes` have come together or `flush_s` have passed: this much a crash
may cost. Time is that of the calls; whoever has a timer calls `tick`, so that a silent edge is
flushed and rotated too. Files are sealed in the background (`output.py`), and each can be read by
itself: the first block of a connection in a further file comes behind a fact `open` that
introduces it again, and its keys.

`record` is on the hot path of a busy edge: it appends a prepared header (`templates.py`) and the
frames to a list, which is joined when it is flushed.

When a call raises OSError, as it does while a disk is full, `suspend` leaves the file as it is, and
what crosses is counted, not kept. `resume` goes on in a new file: with what was not flushed yet, a
fact `lost` that says how much was not recorded, the connections that closed meanwhile, and sequence
numbers that show the gap in each stream.
"""

from __future__ import annotations

import functools
import io
import ipaddress
import os
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeAlias

from ..format import constants as f
from ..format.items import Direction
from ..format.writer import Output, PcapngWriter, Sealer, fact_text, next_sequence, origin_option
from ..tcp.headers import ACK, FIN, PSH, SYN

__all__ = [
    "Address",
    "Link",
    "Lost",
    "Recorder",
    "Way",
]


# Packet blocks of a recorder: headers that are prepared when a connection opens.


Address: TypeAlias = tuple[str, int]
"""Host, as numbers, and port."""

_FIRST_SEQ: Final = 1_000
"""Sequence number of the first byte of every stream."""
_MASK: Final = 0xFFFF_FFFF
_BLOCK_REST: Final = 28 + f.OPTIONS_SIZE + 4
"""What a block has around the data of its packet."""
_HEAD4: Final = struct.Struct("<7I2s2s20s4s4s8s")
_HEAD6: Final = struct.Struct("<7I4s2s38s4s4s8s")
"""Block head, then IP and TCP: first bytes, length, addresses and ports, seq, ack, the rest."""
_HEADERS4: Final = 20 + 20
_HEADERS6: Final = 40 + 20
_TAIL: Final = struct.Struct("<I")


def _tcp_rest(flags: int) -> bytes:
    """Return the TCP header after the sequence numbers: flags, window, and no checksum."""
    return bytes([5 << 4, flags, 0xFF, 0xFF, 0, 0, 0, 0])


_PUSH: Final = _tcp_rest(PSH | ACK)


class Way:
    """One direction of an open connection."""

    __slots__ = (
        *("_first", "_fixed", "_flag", "_headers", "_options", "_pack", "_seq"),
        *("ack", "link", "lost_bytes", "peer"),
    )

    peer: Way
    """The other direction."""

    def __init__(self, link: Link, src: bytes, dst: bytes, ports: bytes, flag: int):
        self.link = link
        self.ack = _FIRST_SEQ.to_bytes(4, "big")
        """The next sequence number, as the other direction acknowledges it."""
        self.lost_bytes = 0
        """What crossed during an outage, and is missing in the stream."""
        wide = len(src) == 16
        self._seq = _FIRST_SEQ
        self._flag = flag
        self._pack = (_HEAD6 if wide else _HEAD4).pack
        self._headers = _HEADERS6 if wide else _HEADERS4
        self._first = b"\x60\0\0\0" if wide else b"\x45\0"
        before = b"\x06\x40" if wide else b"\0\0\x40\0\x40\x06\0\0"
        self._fixed = before + src + dst + ports
        self._options = tuple(bytes(pad) + _options(flag, 0, link.number) for pad in range(4))

    def put(self, parts: list[bytes], frames: bytes, ts_ns: int) -> int:
        """Append a block of whole frames that fit a packet. Return its size."""
        size = len(frames)
        total, captured, ip_length, pad, tail = _shape(self._headers, size)
        seq = self.ack
        self._seq = following = (self._seq + size) & _MASK
        self.ack = following.to_bytes(4, "big")
        head = self._pack(
            6,
            total,
            0,
            ts_ns >> 32,
            ts_ns & _MASK,
            captured,
            captured,
            self._first,
            ip_length,
            self._fixed,
            seq,
            self.peer.ack,
            _PUSH,
        )
        parts += (head, frames, self._options[pad], tail)
        return total

    def put_marked(
        self, parts: list[bytes], data: bytes, ts_ns: int, flags: int, marks: int
    ) -> int:
        """Append a block with any flags and marks. Return its size."""
        total, captured, ip_length, pad, tail = _shape(self._headers, len(data))
        head = self._pack(
            *(f.BLOCK_EPB, total, 0, ts_ns >> 32, ts_ns & _MASK, captured, captured),
            *(self._first, ip_length, self._fixed),
            *(self.ack, self.peer.ack if flags & ACK else bytes(4), _tcp_rest(flags)),
        )
        options = bytes(pad) + _options(self._flag, marks, self.link.number)
        parts += (head, data, options, tail)
        self.advance(len(data))
        return total

    def advance(self, size: int) -> None:
        """Advance the stream by a number of bytes."""
        self._seq = (self._seq + size) & _MASK
        self.ack = self._seq.to_bytes(4, "big")


class Link:
    """An open connection: both directions, and the packets that open it."""

    __slots__ = ("c2s", "file", "keys", "number", "open_data", "s2c")

    def __init__(self, number: int, client: Address, server: Address, protocol: str | None):
        self.number = number
        """Its id."""
        self.file = -1
        """The number of the last file that introduces it."""
        self.keys: list[str] = []
        """Its lines of the key log."""
        src, dst = _addresses(client[0], server[0])
        self.c2s = Way(self, src, dst, struct.pack(">HH", client[1], server[1]), 1)
        self.s2c = Way(self, dst, src, struct.pack(">HH", server[1], client[1]), 2)
        self.c2s.peer, self.s2c.peer = self.s2c, self.c2s
        self.open_data: dict[str, object] = {
            "client": client[0],
            "client_port": client[1],
            "server": server[0],
            "server_port": server[1],
            "protocol": protocol,
        }
        """What the fact `open` says."""


@functools.lru_cache(maxsize=8_192)
def _shape(headers: int, size: int) -> tuple[int, int, bytes, int, bytes]:
    """All that the size of a payload decides: size of the block, of the packet, the IP length (of
    IPv6, it does not count its own header), padding, and the end of the block. Remembered, because
    most frames have one of few sizes."""
    captured = headers + size
    pad = -captured & 3
    total = _BLOCK_REST + captured + pad
    ip_length = captured if headers == _HEADERS4 else captured - 40
    return total, captured, ip_length.to_bytes(2, "big"), pad, _TAIL.pack(total)


def _options(flag: int, marks: int, number: int) -> bytes:
    return f.RECORDED_OPTIONS.pack(
        *(f.OPTION_FLAGS, 4, flag),
        *(f.OPTION_CUSTOM_BINARY, 16, f.PEN, f.MARK_MAGIC, f.MARK_VERSION, marks, number),
        *(f.OPTION_END, 0),
    )


def _addresses(client: str, server: str) -> tuple[bytes, bytes]:
    """Return both addresses packed to one size. IPv4 is mapped when the other address is IPv6."""
    ends = [ipaddress.ip_address(host.partition("%")[0]) for host in (client, server)]
    packed = [end.packed for end in ends]
    if {len(end) for end in packed} == {4, 16}:
        packed = [bytes(10) + b"\xff\xff" + end if len(end) == 4 else end for end in packed]
    return packed[0], packed[1]


_NS: Final = 1_000_000_000
_CUSTOM_HEAD: Final = struct.Struct("<III")
_SECRETS_HEAD: Final = struct.Struct("<IIII")
_NOWHERE: Final = -2
"""Instead of a file's number: nothing is written."""
_GAP_LIMIT: Final = 1 << 30
"""The longest gap that sequence numbers show: from twice as much on they would mean the past."""
_CLOSES_LIMIT: Final = 65_536
"""Connections whose close is remembered during an outage, a few hundred bytes each."""


@dataclass
class Lost:
    """What was not recorded."""

    frames: int = 0
    """Times that frames crossed."""
    bytes: int = 0
    """Bytes of these frames."""
    facts: int = 0


@dataclass(frozen=True)
class _Outage:
    """A time in which nothing could be written."""

    since_ns: int
    reason: str
    lost: Lost
    closes: list[tuple[Way, int, dict[str, object]]]


class Recorder:
    """Writes recordings of one source into a folder, one file at a time.

    `sequence` is the number of the first file; by default it continues the numbers in the folder.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        source: str,
        sequence: int | None = None,
        rotate_bytes: int = 64 << 20,
        rotate_s: float = 300.0,
        flush_bytes: int = 1 << 18,
        flush_s: float = 0.5,
        keys: bool = False,
    ):
        if not source or "/" in source or "\0" in source:
            raise ValueError(f"source {source!r} cannot be part of a file's name")
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._source = source
        self._rotate_bytes = rotate_bytes
        self._rotate_ns = int(rotate_s * _NS)
        self._flush_bytes = flush_bytes
        self._flush_ns = int(flush_s * _NS)
        self._keys = keys
        self._ways: dict[Direction, dict[int, Way]] = {"c2s": {}, "s2c": {}}
        self._parts: list[bytes] = []
        self._held = 0  # bytes not yet flushed
        self._written = 0  # bytes of this file that are
        self._due_ns = 0  # when to flush
        self._rotate_at_ns = 0  # when to rotate; 0 until something is recorded
        self._empty_size = 0
        self.sequence = next_sequence(self._folder, source) if sequence is None else sequence
        """The number of the file that is being written."""
        self.lost = Lost()
        """What was not recorded, in all outages so far."""
        self._current = self.sequence  # or nowhere
        self._outage: _Outage | None = None
        self._output = Output(self._folder, source, self.sequence)
        self._sealer = Sealer()
        self._begin()

    # -- what happens on the edge ------------------------------------------------------------

    def open(
        self,
        connection: int,
        client: Address,
        server: Address,
        protocol: str | None,
        ts_ns: int,
    ) -> None:
        """Open a connection. Its id is a positive 63-bit number that is never used again."""
        if connection in self._ways["c2s"]:
            raise ValueError(f"connection {connection} is already open")
        if not 0 < connection < 1 << 63:
            raise ValueError(f"invalid connection id {connection}; expected 1 to 2^63 - 1")
        link = Link(connection, client, server, protocol)
        self._ways["c2s"][connection] = link.c2s
        self._ways["s2c"][connection] = link.s2c
        if self._outage is not None:
            return
        self._introduce(link, ts_ns, continued=False)
        self._control(link.c2s, SYN, ts_ns)
        self._control(link.s2c, SYN | ACK, ts_ns)
        self._after(ts_ns)

    def record(self, connection: int, direction: Direction, frames: bytes, ts_ns: int) -> None:
        """Record complete frames of one direction. Raises KeyError when the connection is not
        open."""
        way = self._ways[direction][connection]
        size = len(frames)
        if way.link.file != self._current or not 0 < size <= f.PACKET_LIMIT:
            self._record_unusual(way, frames, ts_ns)
            return
        self._held += way.put(self._parts, frames, ts_ns)
        if self._held >= self._flush_bytes or ts_ns >= self._due_ns:
            self._after(ts_ns)

    def fact(self, kind: str, ts_ns: int, connection: int | None = None, **data: object) -> None:
        """Record a fact that the wire does not carry, as JSON values."""
        if self._outage is not None:
            self._outage.lost.facts += 1
            return
        way = self._ways["c2s"].get(connection) if connection is not None else None
        if way is not None and way.link.file != self._current:
            self._introduce(way.link, ts_ns, continued=True)
        self._fact(kind, ts_ns, connection, data)
        self._after(ts_ns)

    def secrets(self, line: str, connection: int | None = None) -> None:
        """Record a line of a key log, if the recorder was created with `keys`.

        The line of a connection is written into every file that has frames of it.
        """
        if not self._keys:
            return
        way = self._ways["c2s"].get(connection) if connection is not None else None
        if way is not None:
            way.link.keys.append(line)
            if way.link.file != self._current:
                return  # it will stand behind the introduction
        if self._outage is None:
            self._secrets([line])

    def close(self, connection: int, ts_ns: int, reason: str, side: str | None = None) -> None:
        """Close a connection. `side` is who ended it, `client` or `server`, if known."""
        way = self._ways["c2s"].pop(connection)
        del self._ways["s2c"][connection]
        said: dict[str, object] = {"reason": reason, **({} if side is None else {"side": side})}
        if self._outage is None:
            self._close(way, ts_ns, said)
            self._after(ts_ns)
        elif len(self._outage.closes) < _CLOSES_LIMIT:
            self._outage.closes.append((way, ts_ns, said))

    # -- outages -----------------------------------------------------------------------------

    def suspend(self, ts_ns: int, reason: str) -> None:
        """Stop writing after an OSError, until `resume`, and count what is lost.

        The current file is sealed if possible; otherwise it stays open.
        """
        if self._outage is not None:
            return
        self._outage = _Outage(ts_ns, reason, Lost(), [])
        self._current = _NOWHERE
        with suppress(OSError):
            if self._written:
                self._sealer.seal(self._output)
            else:
                self._output.discard()

    def resume(self, ts_ns: int) -> None:
        """Continue in a new file. If that raises OSError too, call `suspend` again."""
        outage = self._outage
        if outage is None:
            return
        with suppress(OSError):
            self._sealer.wait()
        used = next_sequence(self._folder, self._source)
        sequence = max(used, self.sequence + (self._written > 0))
        head = self._head(sequence)
        held = b"".join(self._parts)[0 if self._written else self._empty_size :]
        following = Output(self._folder, self._source, sequence)
        try:
            following.write(head + held)
        except OSError:
            with suppress(OSError):
                following.discard()
            raise
        self._outage, self._output = None, following
        self.sequence = self._current = sequence
        self._parts, self._held, self._written = [], 0, len(head + held)
        self._empty_size, self._rotate_at_ns = len(head), 0
        self._tell(outage, ts_ns)
        self._after(ts_ns)

    def _tell(self, outage: _Outage, ts_ns: int) -> None:
        """Write the fact `lost` and the state of connections after an outage."""
        lost, total = outage.lost, self.lost
        total.frames += lost.frames
        total.bytes += lost.bytes
        total.facts += lost.facts
        said = {"since_ns": outage.since_ns, "reason": outage.reason, **asdict(lost)}
        self._fact("lost", ts_ns, None, said)
        for ways in self._ways.values():
            for way in ways.values():
                _skip(way)
        for way, closed_ns, why in outage.closes:
            _skip(way)
            _skip(way.peer)
            self._close(way, closed_ns, why)

    # -- files -------------------------------------------------------------------------------

    def tick(self, ts_ns: int) -> None:
        """Flush and rotate if it is time."""
        if self._outage is None and not self._is_empty():
            self._after(ts_ns)

    def flush(self) -> None:
        """Write all buffers to the operating system."""
        if self._outage is not None:
            return
        data = b"".join(self._parts)
        self._parts = [data]  # kept when writing fails, for another try
        self._output.write(data)
        self._parts = []
        self._written += self._held
        self._held = 0

    def rotate(self) -> Path | None:
        """Start the next file and return the path of the sealed one. Return None and keep the
        current file when it is empty."""
        if self._outage is not None or self._is_empty():
            return None
        self._next_file()
        return self._sealer.wait()

    def stop(self) -> Path | None:
        """Seal the last file and return its path; None when it was empty."""
        try:
            if self._outage is not None:
                self.resume(self._outage.since_ns)
            self._sealer.wait()
        finally:
            self._sealer.stop()
        if self._is_empty():
            self._output.discard()
            return None
        self.flush()
        return self._output.seal()

    def _is_empty(self) -> bool:
        return self._written + self._held == self._empty_size

    def _next_file(self) -> None:
        """Start the next file. The previous one is sealed in the background."""
        self.flush()
        self._sealer.wait()
        following = Output(self._folder, self._source, self.sequence + 1)
        self._sealer.seal(self._output)
        self._output = following
        self.sequence += 1
        self._current = self.sequence
        self._begin()

    def _begin(self) -> None:
        self._parts = [self._head(self.sequence)]
        self._held = self._empty_size = len(self._parts[0])
        self._written = 0
        self._rotate_at_ns = 0

    def _head(self, sequence: int) -> bytes:
        """Write the head of a file."""
        head = io.BytesIO()
        PcapngWriter(head, options=[origin_option(self._source, sequence)]).interface(f.LINK_RAW)
        return head.getvalue()

    def _after(self, ts_ns: int) -> None:
        """Flush and rotate if it is time."""
        if self._held >= self._flush_bytes or ts_ns >= self._due_ns:
            self.flush()
            self._due_ns = ts_ns + self._flush_ns
        if not self._rotate_at_ns:
            self._rotate_at_ns = ts_ns + self._rotate_ns
        if self._written + self._held >= self._rotate_bytes or ts_ns >= self._rotate_at_ns:
            self._next_file()

    # -- blocks ------------------------------------------------------------------------------

    def _introduce(self, link: Link, ts_ns: int, *, continued: bool) -> None:
        """Write the fact `open` and the SYN packets of a connection into the current file."""
        link.file = self._current
        data = {**link.open_data, "continued": True} if continued else link.open_data
        self._fact("open", ts_ns, link.number, data)
        if link.keys:
            self._secrets(link.keys)

    def _record_unusual(self, way: Way, frames: bytes, ts_ns: int) -> None:
        """Record the first frames of a connection in a file, frames larger than a packet, or frames
        during an outage."""
        if self._outage is not None:
            way.lost_bytes += len(frames)
            self._outage.lost.frames += 1
            self._outage.lost.bytes += len(frames)
            return
        if way.link.file != self._current:
            self._introduce(way.link, ts_ns, continued=True)
        for begin in range(0, len(frames), f.PACKET_LIMIT):
            end = begin + f.PACKET_LIMIT
            marks = f.MARK_CONTINUES if begin else 0
            marks |= f.MARK_UNFINISHED if end < len(frames) else 0
            self._held += way.put_marked(self._parts, frames[begin:end], ts_ns, PSH | ACK, marks)
        self._after(ts_ns)

    def _close(self, way: Way, ts_ns: int, said: dict[str, object]) -> None:
        """Write the fact `close` of a connection and its last packets."""
        if way.link.file != self._current:
            self._introduce(way.link, ts_ns, continued=True)
        self._fact("close", ts_ns, way.link.number, said)
        self._control(way, FIN | ACK, ts_ns)
        self._control(way.peer, FIN | ACK, ts_ns)

    def _control(self, way: Way, flags: int, ts_ns: int) -> None:
        """Write a packet without frames. SYN and FIN count as one byte of the stream."""
        if flags & SYN:
            way.advance(-1)
        self._held += way.put_marked(self._parts, b"", ts_ns, flags, 0)
        way.advance(1)

    def _fact(self, kind: str, ts_ns: int, connection: int | None, data: dict[str, object]) -> None:
        text = fact_text(kind, ts_ns, connection, data)
        total = 16 + len(text)
        self._put(_CUSTOM_HEAD.pack(f.BLOCK_CUSTOM, total, f.PEN), text, _TAIL.pack(total))

    def _secrets(self, lines: list[str]) -> None:
        text = "".join(f"{line.rstrip()}\n" for line in lines).encode()
        total = 20 + f.pad4(len(text))
        head = _SECRETS_HEAD.pack(f.BLOCK_SECRETS, total, f.SECRETS_TYPE, len(text))
        self._put(head, text, bytes(-len(text) & 3), _TAIL.pack(total))

    def _put(self, *parts: bytes) -> None:
        self._parts += parts
        self._held += sum(map(len, parts))


def _skip(way: Way) -> None:
    """Skip lost bytes of a stream."""
    way.advance(min(way.lost_bytes, _GAP_LIMIT))
    way.lost_bytes = 0

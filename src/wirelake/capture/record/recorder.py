"""`Recorder`: records live traffic, whole frames as they pass the edge, as pcapng.

    recorder = Recorder(folder, source="edge-1")
    recorder.open(7, ("10.0.0.9", 51000), ("10.0.0.1", 7300), "comet", ts_ns)
    recorder.record(7, "c2s", frames, ts_ns)
    recorder.fact("published", ts_ns, 7, topic="news")
    recorder.close(7, ts_ns, "eof")
    recorder.stop()

A connection has a SYN and a SYN-ACK when it opens, FINs when it closes, and in between packets with
matching sequence numbers, so that any tool can follow it. The format is in `format/constants.py`.

Blocks are collected and passed to the operating system when there are `flush_bytes` of them or
after `flush_s`: that is what a crash may lose. Time is an argument of every call; the caller's
timer calls `tick`, so that an idle edge is flushed and rotated too. Files are sealed in the
background (`format/writer.py`). Each can be read by itself: before the first block of a connection
in another file there are its fact `open`, marked as continued, and its keys.

`record` is on the hot path of a busy edge: it appends a header that was prepared when the
connection opened, and the frames, to a list that is joined when it is flushed. It takes 1.0 us for
a frame, and 0.18 us with 16 frames in a call (benchmarks/results/captures.json).

When a call raises OSError, for example because a disk is full, `suspend` leaves the file as it is,
and traffic is counted but not kept: memory must not grow with the outage. `resume` continues in a
new file: with what was not flushed yet, a fact `lost` with what was not recorded, the connections
that closed meanwhile, and sequence numbers that show the gap in each stream.
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

from wirelake.wire.errors import invalid
from wirelake.wire.paths import local_path

from ..format import constants as fmt
from ..format.items import Direction
from ..format.writer import Output, PcapngWriter, Sealer, fact_text, next_sequence, origin_option
from ..tcp.headers import ACK, FIN, PSH, SYN

__all__ = [
    "Address",
    "Lost",
    "RecordedConnection",
    "RecordedStream",
    "Recorder",
]

Address: TypeAlias = tuple[str, int]
"""Host as a numeric address, and port."""

_NS: Final = 1_000_000_000
_CUSTOM_HEAD: Final = struct.Struct("<III")
_SECRETS_HEAD: Final = struct.Struct("<IIII")
_NO_FILE: Final = -2
"""Instead of a file number, during an outage: no connection has it, so `record` takes the slow path
without a test of its own."""
_GAP_LIMIT: Final = 1 << 30
"""Maximum gap that sequence numbers can show: from 2^31 on they would mean earlier bytes."""
_CLOSES_LIMIT: Final = 65_536
"""Maximum closes that are kept during an outage, a few hundred bytes each."""


@dataclass
class Lost:
    """What was not recorded."""

    frames: int = 0
    """Calls of `record`."""
    bytes: int = 0
    """Bytes of their frames."""
    facts: int = 0


@dataclass(frozen=True)
class _Outage:
    """A period in which nothing could be written."""

    since_ns: int
    reason: str
    lost: Lost
    closes: list[tuple[RecordedStream, int, dict[str, object]]]


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
            raise ValueError(invalid("source", source, "a name without '/' or NUL"))
        self._folder = local_path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._source = source
        self._rotate_bytes = rotate_bytes
        self._rotate_ns = int(rotate_s * _NS)
        self._flush_bytes = flush_bytes
        self._flush_ns = int(flush_s * _NS)
        self._keys = keys
        self._streams: dict[Direction, dict[int, RecordedStream]] = {"c2s": {}, "s2c": {}}
        self._parts: list[bytes] = []
        self._pending_bytes = 0  # bytes not yet flushed
        self._written = 0  # bytes of this file that are
        self._due_ns = 0  # when to flush
        self._rotate_at_ns = 0  # when to rotate; 0 until something is recorded
        self._empty_size = 0
        self.sequence = next_sequence(self._folder, source) if sequence is None else sequence
        """The number of the file that is being written."""
        self.lost = Lost()
        """What was not recorded, in all outages so far."""
        self._current = self.sequence  # or _NO_FILE
        self._outage: _Outage | None = None
        self._output = Output(self._folder, source, self.sequence)
        self._sealer = Sealer()
        self._begin()

    # -- traffic and facts -------------------------------------------------------------------

    def open(
        self,
        connection: int,
        client: Address,
        server: Address,
        protocol: str | None,
        ts_ns: int,
    ) -> None:
        """Open a connection. Its id is a positive 63-bit number that is never used again."""
        if connection in self._streams["c2s"]:
            raise ValueError(f"connection {connection} is already open")
        if not 0 < connection < 1 << 63:
            raise ValueError(f"invalid connection id {connection}; expected 1 to 2^63 - 1")
        opened = RecordedConnection(connection, client, server, protocol)
        self._streams["c2s"][connection] = opened.c2s
        self._streams["s2c"][connection] = opened.s2c
        if self._outage is not None:
            return
        self._write_open_fact(opened, ts_ns, continued=False)
        self._control(opened.c2s, SYN, ts_ns)
        self._control(opened.s2c, SYN | ACK, ts_ns)
        self._flush_and_rotate(ts_ns)

    def record(self, connection: int, direction: Direction, frames: bytes, ts_ns: int) -> None:
        """Record complete frames of one direction. Raises KeyError when the connection is not
        open."""
        stream = self._streams[direction][connection]
        size = len(frames)
        # One comparison covers both a new file and an outage, whose file number no connection has.
        if stream.connection.file != self._current or not 0 < size <= fmt.PACKET_LIMIT:
            self._record_slowly(stream, frames, ts_ns)
            return
        self._pending_bytes += stream.append_frames(self._parts, frames, ts_ns)
        if self._pending_bytes >= self._flush_bytes or ts_ns >= self._due_ns:
            self._flush_and_rotate(ts_ns)

    def fact(self, kind: str, ts_ns: int, connection: int | None = None, **data: object) -> None:
        """Record a fact that the wire does not carry, as JSON values."""
        if self._outage is not None:
            self._outage.lost.facts += 1
            return
        stream = self._streams["c2s"].get(connection) if connection is not None else None
        if stream is not None and stream.connection.file != self._current:
            self._write_open_fact(stream.connection, ts_ns, continued=True)
        self._fact(kind, ts_ns, connection, data)
        self._flush_and_rotate(ts_ns)

    def secrets(self, line: str, connection: int | None = None) -> None:
        """Record a line of a key log, if the recorder was created with `keys`.

        The line of a connection is written into every file that has frames of it.
        """
        if not self._keys:
            return
        stream = self._streams["c2s"].get(connection) if connection is not None else None
        if stream is not None:
            stream.connection.keys.append(line)
            if stream.connection.file != self._current:
                return  # it is written with the fact `open`
        if self._outage is None:
            self._secrets([line])

    def close(self, connection: int, ts_ns: int, reason: str, side: str | None = None) -> None:
        """Close a connection. `side` is who ended it, `client` or `server`, if known."""
        stream = self._streams["c2s"].pop(connection)
        del self._streams["s2c"][connection]
        data: dict[str, object] = {"reason": reason, **({} if side is None else {"side": side})}
        if self._outage is None:
            self._close(stream, ts_ns, data)
            self._flush_and_rotate(ts_ns)
        # Beyond the limit a close is lost; the connection then ends with the capture.
        elif len(self._outage.closes) < _CLOSES_LIMIT:
            self._outage.closes.append((stream, ts_ns, data))

    # -- outages -----------------------------------------------------------------------------

    def suspend(self, ts_ns: int, reason: str) -> None:
        """Stop writing after an OSError, until `resume`, and count what is lost.

        The current file is sealed if possible; otherwise it stays open.
        """
        if self._outage is not None:
            return
        self._outage = _Outage(ts_ns, reason, Lost(), [])
        self._current = _NO_FILE
        with suppress(OSError):
            # A file without any flushed block would be empty: remove it.
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
        # The file of the outage may have been sealed, left open or removed: ask the folder.
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
        self._parts, self._pending_bytes, self._written = [], 0, len(head + held)
        self._empty_size, self._rotate_at_ns = len(head), 0
        self._report_outage(outage, ts_ns)
        self._flush_and_rotate(ts_ns)

    def _report_outage(self, outage: _Outage, ts_ns: int) -> None:
        """Write the fact `lost`, and the connections that closed during an outage."""
        lost, total = outage.lost, self.lost
        total.frames += lost.frames
        total.bytes += lost.bytes
        total.facts += lost.facts
        data = {"since_ns": outage.since_ns, "reason": outage.reason, **asdict(lost)}
        self._fact("lost", ts_ns, None, data)
        # Sequence numbers jump over what was lost, so that readers find a gap of the right size.
        for streams in self._streams.values():
            for stream in streams.values():
                _skip_lost(stream)
        for stream, closed_ns, why in outage.closes:
            _skip_lost(stream)
            _skip_lost(stream.peer)
            self._close(stream, closed_ns, why)

    # -- files -------------------------------------------------------------------------------

    def tick(self, ts_ns: int) -> None:
        """Flush and rotate if it is time; OSError also when the file was removed."""
        if self._outage is not None:
            return
        self._output.check_exists()
        if not self._is_empty():
            self._flush_and_rotate(ts_ns)

    def flush(self) -> None:
        """Write all buffers to the operating system."""
        if self._outage is not None:
            return
        data = b"".join(self._parts)
        self._parts = [data]  # kept when writing fails: `resume` writes it to the next file
        self._output.write(data)
        self._parts = []
        self._written += self._pending_bytes
        self._pending_bytes = 0

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
        return self._written + self._pending_bytes == self._empty_size

    def _next_file(self) -> None:
        """Start the next file. The previous one is sealed in the background."""
        self.flush()
        self._sealer.wait()
        # Opened before the old one is given away: if it fails, the recorder still has a file.
        following = Output(self._folder, self._source, self.sequence + 1)
        self._sealer.seal(self._output)
        self._output = following
        self.sequence += 1
        self._current = self.sequence
        self._begin()

    def _begin(self) -> None:
        self._parts = [self._head(self.sequence)]
        self._pending_bytes = self._empty_size = len(self._parts[0])
        self._written = 0
        self._rotate_at_ns = 0

    def _head(self, sequence: int) -> bytes:
        """Write the head of a file."""
        head = io.BytesIO()
        PcapngWriter(head, options=[origin_option(self._source, sequence)]).interface(fmt.LINK_RAW)
        return head.getvalue()

    def _flush_and_rotate(self, ts_ns: int) -> None:
        """Flush and rotate if it is time."""
        if self._pending_bytes >= self._flush_bytes or ts_ns >= self._due_ns:
            self.flush()
            # From the flush on, not from the first pending block: one comparison in the hot path is
            # enough.
            self._due_ns = ts_ns + self._flush_ns
        if not self._rotate_at_ns:
            self._rotate_at_ns = ts_ns + self._rotate_ns
        if self._written + self._pending_bytes >= self._rotate_bytes or ts_ns >= self._rotate_at_ns:
            self._next_file()

    # -- blocks ------------------------------------------------------------------------------

    def _write_open_fact(
        self, connection: RecordedConnection, ts_ns: int, *, continued: bool
    ) -> None:
        """Write the fact `open` and the keys of a connection into the current file."""
        connection.file = self._current
        data = {**connection.open_data, "continued": True} if continued else connection.open_data
        self._fact("open", ts_ns, connection.number, data)
        if connection.keys:
            self._secrets(connection.keys)

    def _record_slowly(self, stream: RecordedStream, frames: bytes, ts_ns: int) -> None:
        """Record the first frames of a connection in a file, frames larger than a packet, or frames
        during an outage."""
        if self._outage is not None:
            stream.lost_bytes += len(frames)
            self._outage.lost.frames += 1
            self._outage.lost.bytes += len(frames)
            return
        if stream.connection.file != self._current:
            self._write_open_fact(stream.connection, ts_ns, continued=True)
        for begin in range(0, len(frames), fmt.PACKET_LIMIT):
            end = begin + fmt.PACKET_LIMIT
            # Readers that know the marks need no reassembly; others see consecutive segments.
            marks = fmt.MARK_CONTINUES if begin else 0
            marks |= fmt.MARK_UNFINISHED if end < len(frames) else 0
            self._pending_bytes += stream.append_marked(
                self._parts, frames[begin:end], ts_ns, PSH | ACK, marks
            )
        self._flush_and_rotate(ts_ns)

    def _close(self, stream: RecordedStream, ts_ns: int, data: dict[str, object]) -> None:
        """Write the fact `close` of a connection and its last packets."""
        if stream.connection.file != self._current:
            self._write_open_fact(stream.connection, ts_ns, continued=True)
        self._fact("close", ts_ns, stream.connection.number, data)
        self._control(stream, FIN | ACK, ts_ns)
        self._control(stream.peer, FIN | ACK, ts_ns)

    def _control(self, stream: RecordedStream, flags: int, ts_ns: int) -> None:
        """Write a packet without frames. SYN and FIN count as one byte of the stream."""
        # SYN has the number before the first byte, which streams start with.
        if flags & SYN:
            stream.advance(-1)
        self._pending_bytes += stream.append_marked(self._parts, b"", ts_ns, flags, 0)
        stream.advance(1)

    def _fact(self, kind: str, ts_ns: int, connection: int | None, data: dict[str, object]) -> None:
        text = fact_text(kind, ts_ns, connection, data)
        total = 16 + len(text)
        self._append(_CUSTOM_HEAD.pack(fmt.BLOCK_CUSTOM, total, fmt.PEN), text, _TAIL.pack(total))

    def _secrets(self, lines: list[str]) -> None:
        # One line each, whatever line ends the caller has.
        text = "".join(f"{line.rstrip()}\n" for line in lines).encode()
        total = 20 + fmt.pad4(len(text))
        head = _SECRETS_HEAD.pack(fmt.BLOCK_SECRETS, total, fmt.SECRETS_TYPE, len(text))
        self._append(head, text, bytes(-len(text) & 3), _TAIL.pack(total))

    def _append(self, *parts: bytes) -> None:
        self._parts += parts
        self._pending_bytes += sum(map(len, parts))


def _skip_lost(stream: RecordedStream) -> None:
    """Skip lost bytes of a stream."""
    stream.advance(min(stream.lost_bytes, _GAP_LIMIT))
    stream.lost_bytes = 0


# -- connections: packet headers prepared when a connection opens ------------------------------

_FIRST_SEQ: Final = 1_000
"""Sequence number of the first byte of every stream."""
_MASK: Final = 0xFFFF_FFFF
_BLOCK_OVERHEAD: Final = 28 + fmt.OPTIONS_SIZE + 4
"""Size of a block without its packet."""
_HEAD_IPV4: Final = struct.Struct("<7I2s2s20s4s4s8s")
_HEAD_IPV6: Final = struct.Struct("<7I4s2s38s4s4s8s")
"""Block header, then IP and TCP: first bytes, length, addresses and ports, seq, ack, the rest. All
of it in one `pack`, because each call costs more than the bytes."""
_HEADERS_IPV4: Final = 20 + 20
_HEADERS_IPV6: Final = 40 + 20
_TAIL: Final = struct.Struct("<I")


def _tcp_rest(flags: int) -> bytes:
    """Return the TCP header after the sequence numbers: flags, window, and no checksum."""
    return bytes([5 << 4, flags, 0xFF, 0xFF, 0, 0, 0, 0])


_PSH_ACK: Final = _tcp_rest(PSH | ACK)


class RecordedStream:
    """One direction of an open connection."""

    __slots__ = (
        *("_first", "_fixed", "_flag", "_headers", "_options", "_pack", "_seq"),
        *("ack", "connection", "lost_bytes", "peer"),
    )

    peer: RecordedStream
    """The other direction."""

    def __init__(
        self, connection: RecordedConnection, src: bytes, dst: bytes, ports: bytes, flag: int
    ):
        self.connection = connection
        self.ack = _FIRST_SEQ.to_bytes(4, "big")
        """The next sequence number as bytes: the acknowledgement number of the other direction."""
        self.lost_bytes = 0
        """Bytes that passed during an outage and are missing in the stream."""
        ipv6 = len(src) == 16
        self._seq = _FIRST_SEQ
        self._flag = flag
        self._pack = (_HEAD_IPV6 if ipv6 else _HEAD_IPV4).pack
        self._headers = _HEADERS_IPV6 if ipv6 else _HEADERS_IPV4
        self._first = b"\x60\0\0\0" if ipv6 else b"\x45\0"
        before = b"\x06\x40" if ipv6 else b"\0\0\x40\0\x40\x06\0\0"
        self._fixed = before + src + dst + ports
        self._options = tuple(bytes(pad) + _options(flag, 0, connection.number) for pad in range(4))

    def append_frames(self, parts: list[bytes], frames: bytes, ts_ns: int) -> int:
        """Append a block of whole frames that fit a packet. Return its size. This is the hot
        path."""
        size = len(frames)
        total, captured, ip_length, pad, tail = _sizes(self._headers, size)
        seq = self.ack
        self._seq = next_seq = (self._seq + size) & _MASK
        self.ack = next_seq.to_bytes(4, "big")
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
            _PSH_ACK,
        )
        parts += (head, frames, self._options[pad], tail)
        return total

    def append_marked(
        self, parts: list[bytes], data: bytes, ts_ns: int, flags: int, marks: int
    ) -> int:
        """Append a block with any flags and marks. Return its size."""
        total, captured, ip_length, pad, tail = _sizes(self._headers, len(data))
        head = self._pack(
            *(fmt.BLOCK_EPB, total, 0, ts_ns >> 32, ts_ns & _MASK, captured, captured),
            *(self._first, ip_length, self._fixed),
            *(self.ack, self.peer.ack if flags & ACK else bytes(4), _tcp_rest(flags)),
        )
        options = bytes(pad) + _options(self._flag, marks, self.connection.number)
        parts += (head, data, options, tail)
        self.advance(len(data))
        return total

    def advance(self, size: int) -> None:
        """Advance the stream by a number of bytes."""
        self._seq = (self._seq + size) & _MASK
        self.ack = self._seq.to_bytes(4, "big")


class RecordedConnection:
    """An open connection: both directions, and the data of its fact `open`."""

    __slots__ = ("c2s", "file", "keys", "number", "open_data", "s2c")

    def __init__(self, number: int, client: Address, server: Address, protocol: str | None):
        self.number = number
        """Its id."""
        self.file = -1
        """The number of the last file that has its fact `open`."""
        self.keys: list[str] = []
        """Its lines of the key log."""
        src, dst = _addresses(client[0], server[0])
        self.c2s = RecordedStream(self, src, dst, struct.pack(">HH", client[1], server[1]), 1)
        self.s2c = RecordedStream(self, dst, src, struct.pack(">HH", server[1], client[1]), 2)
        self.c2s.peer, self.s2c.peer = self.s2c, self.c2s
        self.open_data: dict[str, object] = {
            "client": client[0],
            "client_port": client[1],
            "server": server[0],
            "server_port": server[1],
            "protocol": protocol,
        }
        """The data of its fact `open`."""


@functools.lru_cache(maxsize=8_192)
def _sizes(headers: int, size: int) -> tuple[int, int, bytes, int, bytes]:
    """Return what depends only on the payload's size: sizes of the block and of the packet, the IP
    length (that of IPv6 excludes its header), padding, and the end of the block. Cached, because
    most frames have one of few sizes."""
    captured = headers + size
    pad = -captured & 3
    total = _BLOCK_OVERHEAD + captured + pad
    ip_length = captured if headers == _HEADERS_IPV4 else captured - 40
    return total, captured, ip_length.to_bytes(2, "big"), pad, _TAIL.pack(total)


def _options(flag: int, marks: int, number: int) -> bytes:
    return fmt.RECORDED_OPTIONS.pack(
        *(fmt.OPTION_FLAGS, 4, flag),
        *(fmt.OPTION_CUSTOM_BINARY, 16, fmt.PEN, fmt.MARK_MAGIC, fmt.MARK_VERSION, marks, number),
        *(fmt.OPTION_END, 0),
    )


def _addresses(client: str, server: str) -> tuple[bytes, bytes]:
    """Return both addresses packed to one size. IPv4 is mapped when the other address is IPv6."""
    ends = [ipaddress.ip_address(host.partition("%")[0]) for host in (client, server)]
    packed = [end.packed for end in ends]
    if {len(end) for end in packed} == {4, 16}:
        packed = [bytes(10) + b"\xff\xff" + end if len(end) == 4 else end for end in packed]
    return packed[0], packed[1]

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
"""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Final

from . import format as f
from .items import Direction
from .output import Output, Sealer, next_sequence
from .synthesis import ACK, FIN, PSH, SYN
from .templates import Address, Link, Way
from .writer import PcapngWriter, fact_text, origin_option

__all__ = ["Address", "Recorder"]

_NS: Final = 1_000_000_000
_CUSTOM_HEAD: Final = struct.Struct("<III")
_SECRETS_HEAD: Final = struct.Struct("<IIII")
_TAIL: Final = struct.Struct("<I")


class Recorder:
    """Writes recordings of one source into a folder; one at a time.

    `sequence` is the number of the first file; by default the numbers of the folder go on.
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
        """A connection opens. Its id is a positive 63-bit number that no other ever had."""
        if connection in self._ways["c2s"]:
            raise ValueError(f"connection {connection} is open already")
        if not 0 < connection < 1 << 63:
            raise ValueError(f"{connection} is no connection id: positive, 63 bits")
        link = Link(connection, client, server, protocol)
        self._ways["c2s"][connection] = link.c2s
        self._ways["s2c"][connection] = link.s2c
        self._introduce(link, ts_ns, continued=False)
        self._control(link.c2s, SYN, ts_ns)
        self._control(link.s2c, SYN | ACK, ts_ns)
        self._after(ts_ns)

    def record(self, connection: int, direction: Direction, frames: bytes, ts_ns: int) -> None:
        """Whole frames that crossed in one direction. KeyError when the connection is not open."""
        way = self._ways[direction][connection]
        size = len(frames)
        if way.link.file != self.sequence or not 0 < size <= f.PACKET_LIMIT:
            self._record_unusual(way, frames, ts_ns)
            return
        self._held += way.put(self._parts, frames, ts_ns)
        if self._held >= self._flush_bytes or ts_ns >= self._due_ns:
            self._after(ts_ns)

    def fact(self, kind: str, ts_ns: int, connection: int | None = None, **data: object) -> None:
        """What the wire does not carry, as values that JSON can hold."""
        way = self._ways["c2s"].get(connection) if connection is not None else None
        if way is not None and way.link.file != self.sequence:
            self._introduce(way.link, ts_ns, continued=True)
        self._fact(kind, ts_ns, connection, data)
        self._after(ts_ns)

    def secrets(self, line: str, connection: int | None = None) -> None:
        """A line of a key log, kept only when the recorder was made with `keys`. With the
        connection that it is for, it stands in every file which that connection reaches."""
        if not self._keys:
            return
        way = self._ways["c2s"].get(connection) if connection is not None else None
        if way is not None:
            way.link.keys.append(line)
            if way.link.file != self.sequence:
                return  # it will stand behind the introduction
        self._secrets([line])

    def close(self, connection: int, ts_ns: int, reason: str, side: str | None = None) -> None:
        """A connection is over. `side`: who ended it, `client` or `server`, if that is known."""
        way = self._ways["c2s"].pop(connection)
        del self._ways["s2c"][connection]
        if way.link.file != self.sequence:
            self._introduce(way.link, ts_ns, continued=True)
        who = {} if side is None else {"side": side}
        self._fact("close", ts_ns, connection, {"reason": reason, **who})
        self._control(way, FIN | ACK, ts_ns)
        self._control(way.peer, FIN | ACK, ts_ns)
        self._after(ts_ns)

    # -- files -------------------------------------------------------------------------------

    def tick(self, ts_ns: int) -> None:
        """Time has passed: flushes and rotates what is due."""
        if not self._is_empty():
            self._after(ts_ns)

    def flush(self) -> None:
        """Hands everything to the operating system."""
        data = b"".join(self._parts)
        self._parts = [data]  # kept when writing fails, for another try
        self._output.write(data)
        self._parts = []
        self._written += self._held
        self._held = 0

    def rotate(self) -> Path | None:
        """Begins the next file; gives the name of the one before, once it is sealed. None when
        nothing was in it: then it stays open."""
        if self._is_empty():
            return None
        self._next_file()
        return self._sealer.wait()

    def stop(self) -> Path | None:
        """Seals the last file and gives its name; None when nothing was in it."""
        self._sealer.wait()
        self._sealer.stop()
        if self._is_empty():
            self._output.discard()
            return None
        self.flush()
        return self._output.seal()

    def _is_empty(self) -> bool:
        return self._written + self._held == self._empty_size

    def _next_file(self) -> None:
        """The old file is sealed in the background."""
        self.flush()
        following = Output(self._folder, self._source, self.sequence + 1)
        self._sealer.seal(self._output)
        self._output = following
        self.sequence += 1
        self._begin()

    def _begin(self) -> None:
        head = io.BytesIO()
        writer = PcapngWriter(head, options=[origin_option(self._source, self.sequence)])
        writer.interface(f.LINK_RAW)
        self._parts = [head.getvalue()]
        self._held = self._empty_size = len(head.getvalue())
        self._written = 0
        self._rotate_at_ns = 0

    def _after(self, ts_ns: int) -> None:
        """Flushes and rotates, if it is time."""
        if self._held >= self._flush_bytes or ts_ns >= self._due_ns:
            self.flush()
            self._due_ns = ts_ns + self._flush_ns
        if not self._rotate_at_ns:
            self._rotate_at_ns = ts_ns + self._rotate_ns
        if self._written + self._held >= self._rotate_bytes or ts_ns >= self._rotate_at_ns:
            self._next_file()

    # -- blocks ------------------------------------------------------------------------------

    def _introduce(self, link: Link, ts_ns: int, *, continued: bool) -> None:
        """Says in this file who the connection is."""
        link.file = self.sequence
        data = {**link.open_data, "continued": True} if continued else link.open_data
        self._fact("open", ts_ns, link.number, data)
        if link.keys:
            self._secrets(link.keys)

    def _record_unusual(self, way: Way, frames: bytes, ts_ns: int) -> None:
        """The first frames of a connection in this file, or more than a packet can hold."""
        if way.link.file != self.sequence:
            self._introduce(way.link, ts_ns, continued=True)
        for begin in range(0, len(frames), f.PACKET_LIMIT):
            end = begin + f.PACKET_LIMIT
            marks = f.MARK_CONTINUES if begin else 0
            marks |= f.MARK_UNFINISHED if end < len(frames) else 0
            self._held += way.put_marked(self._parts, frames[begin:end], ts_ns, PSH | ACK, marks)
        self._after(ts_ns)

    def _control(self, way: Way, flags: int, ts_ns: int) -> None:
        """A packet without frames. SYN and FIN count as one byte of the stream."""
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

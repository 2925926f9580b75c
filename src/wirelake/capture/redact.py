"""A copy of a capture without what must not be seen: `redact`.

The copy holds only what is known to be harmless: headers, and of the payload the bytes of frames
that decode, without their secrets (`masking.py`). All other payload becomes zeros, packets that
are no TCP segments become zeros, key blocks and blocks or options of unknown use are emptied, and
so are places that would not read. Nothing moves: offsets, times, lengths and sequence numbers are
those of the original, so that a place in one is the same place in the other. Three things differ:
the copy is never compressed; an end that is cut off is left out; and of bytes that were sent twice
only the first are shown, so that tables of the copy note a `conflict` there.

Payload is first written as zeros. Once a frame is complete, what may be seen of it is written over
them, so that memory stays bounded whatever the capture.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from wirelake.wire.protocol import Protocol

from .choice import Chooser
from .connections import Connection, ConnectionTable
from .conversation import Context, Conversation, TableRow
from .emptying import BlockEmptier, Emptier, PcapEmptier
from .files import Feed, open_feed
from .introductions import Introductions
from .items import Direction, Element, Fact, FileFault, Packet, Section, Segment
from .keys import KeyRing
from .limits import Limits
from .links import segment
from .masking import Masker
from .messages import MessageRows
from .opening import Opened
from .pseudonyms import Pseudonyms
from .reader import elements
from .streams import Frame

__all__ = ["Redaction", "redact"]

_DEFAULT: Final = Limits()


class Redaction(msgspec.Struct, kw_only=True):
    """What became of a capture."""

    packets: int = 0
    """Packets in the copy."""
    payload_bytes: int = 0
    """TCP payload in the capture."""
    shown_bytes: int = 0
    """How much of it belongs to frames that the copy shows; zeros in place of secrets count."""
    frames: int = 0
    """Frames that the copy shows."""
    masked_frames: int = 0
    """Those of which something was overwritten."""
    emptied_bytes: int = 0
    """What lay in places that would not read, and in blocks of keys or of unknown use."""


def redact(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    content: bool = False,
    addresses: str | None = None,
    ports: Mapping[int, str] | None = None,
    protocol: str | None = None,
    dialects: Mapping[str, str] | None = None,
    limits: Limits = _DEFAULT,
) -> Redaction:
    """Writes the copy.

    `content` hides what applications say, too. `addresses` is a seed: with it, hosts get
    pseudonyms, except where a message itself names them. `ports`, `protocol` and `dialects` choose
    protocols, as of `decode.read_tables`. Raises OSError when a file cannot be read or written or
    `out` is there already, ValueError when the file is no capture.
    """
    target = Path(out)
    if target.exists():
        raise FileExistsError(f"{target} is there already")
    chooser = Chooser(ports=ports, protocol=protocol, dialects=dialects)
    pseudonyms = None if addresses is None else Pseudonyms(addresses)
    part = target.with_name(target.name + ".part")
    try:
        with open_feed(path, limits) as feed, part.open("xb", buffering=0) as stream:
            copy = _Copy(feed, stream, _Streams(chooser, content=content), pseudonyms)
            for element in elements(path, limits=limits):
                copy.element(element)
            copy.finish()
            os.fsync(stream.fileno())
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return copy.told


class _Copy:
    """Goes through a file twice at once: what is in it, and its bytes."""

    def __init__(
        self, feed: Feed, stream: BinaryIO, streams: _Streams, pseudonyms: Pseudonyms | None
    ):
        self.told = Redaction()
        self._feed = feed
        self._file = stream.fileno()
        self._streams = streams
        self._pseudonyms = pseudonyms
        self._emptier: Emptier | None = None
        self._at = 0
        self._cut_off = False

    def element(self, element: Element) -> None:
        """Copies up to an element what says nothing that is known, then the element."""
        if self._emptier is not None:
            self._empty_up_to(self._emptier, element.offset)
        if isinstance(element, Section):
            make = PcapEmptier if element.format == "pcap" else BlockEmptier
            self._emptier = make(element.order, self._pseudonyms)
        if self._emptier is None:
            raise ValueError("the file does not begin as a capture does")
        if isinstance(element, FileFault):
            self._cut_off = element.code in ("truncated_file", "bomb")
            if not self._cut_off:
                self._empty_up_to(self._emptier, element.offset + element.present_bytes)
            return
        size = self._emptier.size(element, self._feed)
        self._write(self._emptier.emptied(element, self._feed.take(element.offset, size)))
        if isinstance(element, Packet):
            self._packet(element)
        elif isinstance(element, Fact):
            self._streams.introduced.add(element)

    def finish(self) -> None:
        """Copies the end."""
        if self._emptier is not None and not self._cut_off:
            self._empty_up_to(self._emptier, self._feed.exhaust())
        self._show(self._streams.finish())

    def _packet(self, packet: Packet) -> None:
        self.told.packets += 1
        found = segment(packet)
        if isinstance(found, Segment):
            self.told.payload_bytes += len(found.payload)
            self._show(self._streams.segment(found))

    def _empty_up_to(self, emptier: Emptier, stop: int) -> None:
        if stop > self._at:
            self.told.emptied_bytes += stop - self._at
            for piece in emptier.filler(stop - self._at):
                self._write(piece)

    def _write(self, data: bytes) -> None:
        _write_at(self._file, data, self._at)
        self._at += len(data)
        self._feed.release(self._at)

    def _show(self, frames: Iterable[_Shown]) -> None:
        for frame in frames:
            self.told.frames += 1
            self.told.masked_frames += frame.masked
            for offset, data in frame.pieces:
                self.told.shown_bytes += len(data)
                _write_at(self._file, data, offset)


def _write_at(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        size = os.pwrite(file, view, offset)
        view, offset = view[size:], offset + size


class _Shown(NamedTuple):
    """A frame that may be seen: its bytes by their places in the file."""

    pieces: list[tuple[int, bytes]]
    masked: bool


class _Streams:
    """Finds the frames of a capture, as the reader of tables does."""

    def __init__(self, chooser: Chooser, *, content: bool):
        rows = _MaskedRows(chooser, content=content)
        self._context = Context(chooser, KeyRing(), rows, [""], frozenset({"messages"}))
        self._table = ConnectionTable(chooser.ports)
        self._conversations: dict[Connection, Conversation] = {}
        self.introduced = Introductions()
        """What the capture says that its connections speak."""

    def segment(self, found: Segment) -> Iterator[_Shown]:
        """The frames that a segment completes."""
        assigned = self._table.assign(found)
        for dropped in assigned.dropped:
            yield from _shown(self._conversations.pop(dropped).end(still_open=False))
        conversation = self._conversations.get(assigned.connection)
        if conversation is None:
            said = self.introduced.of(found.packet.connection)
            conversation = Conversation(self._context, assigned.connection, said)
            self._conversations[assigned.connection] = conversation
        yield from _shown(conversation.segment(found, assigned.direction, 0))

    def finish(self) -> Iterator[_Shown]:
        """The frames that show themselves because nothing follows."""
        for connection in self._table.finish():
            yield from _shown(self._conversations.pop(connection).end(still_open=True))


def _shown(rows: Iterator[TableRow]) -> Iterator[_Shown]:
    for _, row in rows:
        yield row["shown"]


class _MaskedRows(MessageRows):
    """Instead of a row that says what a frame means, one with its masked bytes."""

    def __init__(self, chooser: Chooser, *, content: bool):
        super().__init__(chooser, [""])
        self._choice = chooser
        self._hide_content = content
        self._maskers: dict[tuple[str, Direction], Masker] = {}

    def rows(
        self,
        protocol: Protocol,
        frame: Frame,
        opened: Opened,  # noqa: ARG002 - what is sealed stays so
        connection: int,  # noqa: ARG002
        direction: Direction,
    ) -> Iterator[dict[str, Any]]:
        """One row."""
        key = (protocol.name, direction)
        if key not in self._maskers:
            dialect = self._choice.dialect(protocol)
            self._maskers[key] = Masker(protocol, dialect, direction, content=self._hide_content)
        masked = self._maskers[key](frame.message, frame.raw)
        pieces = []
        for piece in frame.pieces:
            start, stop = max(piece.start, frame.start), min(piece.stop, frame.stop)
            data = masked[start - frame.start : stop - frame.start]
            pieces.append((piece.offset + start - piece.start, data))
        yield {"shown": _Shown(pieces, masked != frame.raw)}

"""`ConnectionDecoder`: one connection from segments to rows.

Reassembly, protocol selection, frames, decryption, messages. `segment` and `end` yield (table,
row). While the protocol is being sniffed, events of both directions are buffered in the order of
arrival, up to `WAITING_LIMIT` bytes, so that rows do not depend on when the protocol was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from wirelake.wire.errors import WireError
from wirelake.wire.protocol import Protocol

from ..format.items import Direction, Segment
from ..tcp.assembly import RST, SYN, Conflict, Data, Event, Gap, StreamAssembler
from ..tcp.connections import Connection
from .decryption import Decryptor, KeyRing
from .messages import MessageRows
from .protocol_selector import KnownProtocol, ProtocolChooser, Sniffer
from .streams import (
    SEARCH_NS,
    Fault,
    Frame,
    FrameReader,
    Read,
    StreamCoverage,
    conflict_fault,
    frame_fault,
)

__all__ = ["WAITING_LIMIT", "ConnectionDecoder", "Context", "TableRow"]

WAITING_LIMIT: Final = 1 << 20
"""Maximum bytes of both directions that wait while the protocol is being sniffed."""

TableRow: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a table, and a row of it."""


class Context(NamedTuple):
    """What all connections share: protocol selection, keys, rows, files."""

    chooser: ProtocolChooser
    ring: KeyRing
    messages: MessageRows
    files: list[str]
    """The names of the files so far; streams know them by number."""
    tables: frozenset[str]


class _End(NamedTuple):
    """The end of a stream, or of the last file."""

    still_open: bool


class _Stream:
    """One direction."""

    __slots__ = ("assembler", "coverage", "ended", "joined", "reader")

    def __init__(self, coverage: StreamCoverage):
        self.assembler = StreamAssembler()
        self.coverage = coverage
        self.reader: FrameReader | None = None
        self.joined = False
        """Whether its first byte may be inside of a frame: its beginning was not captured."""
        self.ended = False


def _has_bytes(stream: _Stream, events: list[Event]) -> bool:
    """Return whether bytes of a stream were captured, even if they wait behind missing ones."""
    return stream.assembler.has_waiting or any(isinstance(each, Data) for each in events)


class ConnectionDecoder:
    """Decodes one connection. `recorded` is the protocol that a recording names for it."""

    def __init__(
        self, context: Context, connection: Connection, recorded: KnownProtocol | None = None
    ):
        self.connection = connection
        self._context = context
        self._streams: dict[Direction, _Stream] = {}
        self._protocol: Protocol | None = None
        self._decryptor: Decryptor | None = None
        self._sniffer: Sniffer | None = None
        self._sniffed: _Stream | None = None
        """The stream of which the first byte was captured."""
        self._sniffed_ns = 0
        """When its first byte was captured."""
        self._waiting: list[tuple[_Stream, Data | Gap | Conflict | _End]] = []
        self._waiting_bytes = 0
        self._waiting_gap = False
        """Whether bytes of either direction are missing among those."""
        self._reset = False
        known = context.chooser.known(connection.server.port, recorded)
        self._decided = known is not None
        if known is not None:
            self._use(known.protocol)

    def segment(self, segment: Segment, direction: Direction, file: int) -> Iterator[TableRow]:
        """Yield the rows that a segment completes."""
        packet = segment.packet
        stream = self._streams.get(direction)
        if stream is None:
            stream = self._begin(direction, file, packet.ts_ns)
        stream.coverage.packets += 1
        stream.coverage.last_ns = packet.ts_ns
        if not stream.assembler.started:
            # The last segment counts, because some do not start a stream, such as bare ACKs. A
            # recorder's packet begins with a frame, unless it is marked.
            stream.joined = not segment.flags & SYN and (
                packet.connection is None or packet.continues
            )
        events = stream.assembler.feed(
            segment.seq,
            segment.payload,
            packet.ts_ns,
            segment.payload_offset,
            segment.flags,
            segment.missing,
            file,
        )
        if not self._decided and self._sniffed is None and _has_bytes(stream, events):
            self._sniffed = stream
        yield from self._handle(stream, events)
        # FIN or RST may have been reached with this segment, or with one that it made deliverable.
        if stream.assembler.finished and not stream.ended:
            yield from self._end(stream, still_open=False)
        # A RST ends the other direction, too: nothing that is captured after it was received.
        if segment.flags & RST and not self._reset:
            self._reset = True
            yield from self._end_streams(still_open=False)
            for each in self._streams.values():
                each.assembler.stop()

    @property
    def hole_ns(self) -> int | None:
        """The time from which the age of the oldest hole counts; None without one."""
        found = [each.assembler.hole_ns for each in self._streams.values()]
        return min((ts_ns for ts_ns in found if ts_ns is not None), default=None)

    def expire(self, now_ns: int) -> Iterator[TableRow]:
        """Yield the rows behind holes that are too old at a time."""
        for _, stream in sorted(self._streams.items()):
            yield from self._handle(stream, stream.assembler.expire(now_ns))
            if stream.assembler.finished and not stream.ended:
                yield from self._end(stream, still_open=False)

    def end(self, *, still_open: bool) -> Iterator[TableRow]:
        """Yield the remaining rows when the connection is dropped or the last file has ended."""
        yield from self._end_streams(still_open=still_open)
        # Too few bytes to decide so far: decide with what there is.
        if not self._decided and self._sniffer is not None:
            yield from self._decide()
        if "coverage" in self._context.tables:
            for stream in self._streams.values():
                yield "coverage", stream.coverage.row(stream.assembler.counters)

    # -- streams -----------------------------------------------------------------------------

    def _begin(self, direction: Direction, file: int, ts_ns: int) -> _Stream:
        coverage = StreamCoverage(
            file=self._context.files[file],
            connection=self.connection.id,
            direction=direction,
            first_ns=ts_ns,
            last_ns=ts_ns,
        )
        stream = self._streams[direction] = _Stream(coverage)
        self._attach_reader(stream)
        if self._reset:
            stream.assembler.stop()
            stream.ended = True
        return stream

    def _end_streams(self, *, still_open: bool) -> Iterator[TableRow]:
        """End the streams that have not ended.

        At one time, messages are in the order in which they became readable: what waits behind
        holes first, then what had too little evidence, each of the client first.
        """
        open_ = [stream for _, stream in sorted(self._streams.items()) if not stream.ended]
        for stream in open_:
            yield from self._handle(stream, stream.assembler.end())
        for stream in open_:
            yield from self._end(stream, still_open=still_open)

    def _attach_reader(self, stream: _Stream) -> None:
        if self._protocol is not None:
            direction = stream.coverage.direction
            stream.coverage.protocol = self._protocol.name
            stream.reader = FrameReader(self._context.chooser.framing(self._protocol, direction))

    def _handle(self, stream: _Stream, events: list[Event]) -> Iterator[TableRow]:
        for event in events:
            yield from self._dispatch(stream, event)
        # The first bytes of the connection may follow a gap, but then they are all there are.
        if self._waiting_gap and self._sniffed is not None and not self._decided:
            yield from self._decide()

    def _end(self, stream: _Stream, *, still_open: bool) -> Iterator[TableRow]:
        stream.ended = True
        yield from self._dispatch(stream, _End(still_open))

    def _dispatch(self, stream: _Stream, event: Event | _End) -> Iterator[TableRow]:
        if self._decided:
            yield from self._read(stream, event)
        else:
            yield from self._sniff(stream, event)

    # -- the choice of protocol --------------------------------------------------------------

    def _use(self, protocol: Protocol | None) -> None:
        self._decided = True
        self._protocol = protocol
        if protocol is not None:
            describer = self._context.messages.describer(protocol)
            self._decryptor = Decryptor(self._context.ring, describer, self.connection.id)
        for stream in self._streams.values():
            self._attach_reader(stream)

    def _sniff(self, stream: _Stream, event: Event | _End) -> Iterator[TableRow]:
        # Ends too: a stream may end before the other direction decides. And conflicts, whose rows
        # have the protocol.
        self._waiting.append((stream, event))
        if isinstance(event, Gap):
            self._waiting_gap = True
        if isinstance(event, Data):
            self._waiting_bytes += len(event.payload)
            if stream is self._sniffed:
                self._feed_sniffer(stream, event)
        # At a gap the first frame can no longer become complete.
        over = self._sniffer is not None and (
            isinstance(event, Gap) or (isinstance(event, _End) and stream is self._sniffed)
        )
        # A connection that never decides must not hold its bytes for ever.
        over = over or self._waiting_bytes > WAITING_LIMIT
        if over or (self._sniffer is not None and self._sniffer.decided):
            yield from self._decide()

    def _feed_sniffer(self, stream: _Stream, event: Data) -> None:
        if self._sniffer is None:
            self._sniffer = self._context.chooser.sniffer(stream.coverage.direction)
            self._sniffed_ns = event.ts_ns
        # As long as a fault may last: others wait for the events of this connection.
        if event.ts_ns - self._sniffed_ns >= SEARCH_NS:
            self._sniffer.end()
        else:
            self._sniffer.feed(event.payload)

    def _decide(self) -> Iterator[TableRow]:
        """Decide by the bytes so far; without a first byte there is no protocol."""
        if self._sniffer is not None:
            self._sniffer.end()
        self._use(None if self._sniffer is None else self._sniffer.chosen)
        waiting, self._waiting = self._waiting, []
        for stream, event in waiting:
            yield from self._read(stream, event)

    # -- messages ----------------------------------------------------------------------------

    def _read(self, stream: _Stream, event: Event | _End) -> Iterator[TableRow]:
        if isinstance(event, Conflict):
            yield from self._fault(stream, conflict_fault(event))
            return
        reader = stream.reader
        if reader is None:
            if isinstance(event, Data):
                stream.coverage.ignored_bytes += len(event.payload)
            return
        found: list[Read]
        match event:
            case Data():
                found = reader.data(event, joined=stream.joined and event.position == 0)
            case Gap():
                found = reader.gap(event)
            case _End():
                found = reader.end(still_open=event.still_open)
                stream.coverage.ignored_bytes += reader.ignored_bytes
        for each in found:
            if isinstance(each, Frame):
                yield from self._frame(stream, each)
            else:
                yield from self._fault(stream, each)

    def _frame(self, stream: _Stream, frame: Frame) -> Iterator[TableRow]:
        assert self._protocol is not None
        assert self._decryptor is not None
        coverage = stream.coverage
        size = len(frame.raw)
        try:
            decrypted = self._decryptor.decrypt(frame.message, frame.raw, coverage.direction)
        except WireError as error:
            yield from self._fault(stream, frame_fault(frame, error))
            return
        coverage.messages += 1
        if decrypted.sealed:
            coverage.undecryptable_bytes += size
        else:
            coverage.decoded_bytes += size
        if "messages" in self._context.tables:
            rows = self._context.messages.rows(
                self._protocol, frame, decrypted, self.connection.id, coverage.direction
            )
            for row in rows:
                yield "messages", row

    # -- faults ------------------------------------------------------------------------------

    def _fault(self, stream: _Stream, fault: Fault) -> Iterator[TableRow]:
        stream.coverage.faults += 1
        stream.coverage.faulty_bytes += fault.present_bytes
        if "faults" in self._context.tables:
            yield "faults", self._fault_row(stream, fault)

    def _fault_row(self, stream: _Stream, fault: Fault) -> dict[str, Any]:
        return {
            "ts_ns": fault.place.ts_ns,
            "file": self._context.files[fault.place.file],
            "offset": fault.place.offset,
            "connection": self.connection.id,
            "direction": stream.coverage.direction,
            "protocol": stream.coverage.protocol,
            "stream_offset": fault.start,
            "present_bytes": fault.present_bytes,
            "missing_bytes": fault.missing_bytes,
            "code": fault.code,
            "field": fault.field,
            "detail": fault.detail,
            "bytes": fault.bytes,
        }

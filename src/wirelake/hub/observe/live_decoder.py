"""The observer that decodes frames as they cross the hub, for live tables and `/v1/tail`.

    LiveDecoder   the observer; watchers receive its rows of `messages`
    LiveTables    calls, deliveries, connections and tunnels of the running hub
    FramedRows    rows of `messages` with the bytes of their frames, secrets masked

It uses the decoder of captures (`wirelake.capture`) and the engines of `wirelake.records`, with the
timestamps that the recorder writes. So the live tables of a run and the tables of its recording
are the same. To fit that decoder, each connection is presented as a TCP conversation: frames
become segments with ascending sequence numbers, between SYN and FIN. Messages are decoded once,
however many watchers there are, and not at all while there is neither a watcher nor a live table.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from wirelake.capture.decode.conversation import ConnectionDecoder, Context, TableRow
from wirelake.capture.decode.decryption import KeyRing
from wirelake.capture.decode.events import engine_event
from wirelake.capture.decode.messages import MessageRows
from wirelake.capture.decode.protocol_selector import ProtocolChooser
from wirelake.capture.format.items import Packet, Segment
from wirelake.capture.record.masking import Masker
from wirelake.capture.tcp.assembly import FIN, SYN
from wirelake.capture.tcp.connections import Connection as Captured
from wirelake.capture.tcp.connections import Endpoint
from wirelake.protocols import registry
from wirelake.records import ENGINES, Closed, Event, Fact, Opened, feed_event
from wirelake.records.calls import CallsEngine

from .recording import close_fact, endpoints_of, recorded_id, wire_has_client
from .tap import ObservedConnection, Tap

if TYPE_CHECKING:
    from wirelake.capture.decode.decryption import Decrypted
    from wirelake.capture.decode.streams import Frame
    from wirelake.capture.format.items import Direction
    from wirelake.wire.protocol import Protocol as WireProtocol

__all__ = [
    "KEPT_ROWS",
    "FramedRows",
    "LiveDecoder",
    "LiveTables",
    "MaskedFrame",
    "Watcher",
    "shared_decoder",
]

KEPT_ROWS: Final = 10_000
"""Final rows kept per live table, the newest ones."""
_FILE: Final = "live"
"""The `file` of messages that are in no file."""
_TABLES: Final = frozenset({"messages", "faults"})
_MASK32: Final = (1 << 32) - 1


class Watcher(Protocol):
    """Receives messages as they cross the hub. Its methods must not raise."""

    def message(self, row: dict[str, Any]) -> None:
        """Receive a row of `messages`, with its `frame` (`MaskedFrame`) if it has one."""

    def end(self) -> None:
        """Stop: there are no more messages."""


class LiveDecoder:
    """An observer that decodes."""

    def __init__(self, tables: LiveTables | None = None):
        self._ring = KeyRing()
        self._contexts: dict[tuple[str, str], Context] = {}
        self._connections: dict[int, _DecodedConnection] = {}
        self.tables = tables
        """The live tables; None when they are not configured."""
        self.watchers: list[Watcher] = []
        """Receivers of messages."""

    # -- called by the tap -------------------------------------------------------------------

    def opened(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Start decoding a connection. A tunnel is decoded as part of its link."""
        self._begin(connection, ts_ns, whole=True)

    def crossed(
        self, connection: ObservedConnection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Decode frames; a connection opened earlier is decoded from here on."""
        # Without its start (`whole=False`) the decoder cannot tell a later message from the
        # first: it resumes at this frame boundary, as after a gap.
        decoded = self._connections.get(connection.id)
        if decoded is None:
            decoded = self._begin(connection, ts_ns, whole=False)
        if decoded is not None:
            self._handle(decoded.frames(direction, frames, ts_ns))

    def keys(self, connection: ObservedConnection, line: str) -> None:  # noqa: ARG002 - the line names it
        """Add keys: encrypted messages can be decoded from now on."""
        # Whether or not `record.keys` is set: these stay in memory.
        self._ring.add_secrets(line)

    def signed_on(self, connection: ObservedConnection, client: str, ts_ns: int) -> None:
        """Note a sign-on, unless its message has the client id."""
        if not wire_has_client(connection):
            self._feed_tables(Fact(ts_ns, "sign_on", recorded_id(connection), {"client": client}))

    def published(self, fact: dict[str, object], ts_ns: int) -> None:
        """Note a publish."""
        self._feed_tables(Fact(ts_ns, "publish", None, fact))

    def closed(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Decode the rest of a connection."""
        decoded = self._connections.pop(connection.id, None)
        if decoded is None:
            return
        # In the order of a recording: the fact, then the end of the stream, then the close.
        self._feed_tables(Fact(ts_ns, "close", connection.id, dict(close_fact(connection))))
        self._handle(decoded.end(ts_ns))
        self._feed_tables(Closed(ts_ns, connection.id, "c2s", "fin"))

    def tick(self, ts_ns: int) -> None:
        """Advance the live tables."""
        if self.tables is not None:
            self.tables.advance(ts_ns)

    def stop(self) -> None:
        """End all watchers and finalize the live tables."""
        for watcher in tuple(self.watchers):
            watcher.end()
        if self.tables is not None:
            self.tables.finish()

    # -- decoding ----------------------------------------------------------------------------

    def _begin(
        self, connection: ObservedConnection, ts_ns: int, *, whole: bool
    ) -> _DecodedConnection | None:
        ends = endpoints_of(connection)
        if ends is None:
            return None
        (client, client_port), (server, server_port) = ends
        captured = Captured(
            connection.id,
            connection.id,
            Endpoint(ipaddress.ip_address(client).packed, client_port),
            Endpoint(ipaddress.ip_address(server).packed, server_port),
            0,
        )
        conversation = ConnectionDecoder(self._context(connection), captured)
        decoded = _DecodedConnection(conversation, connection.id, whole=whole, ts_ns=ts_ns)
        self._connections[connection.id] = decoded
        self._feed_tables(
            Opened(ts_ns, connection.id, None, client, client_port, server, server_port, whole)
        )
        return decoded

    def _context(self, connection: ObservedConnection) -> Context:
        """Return the decoding context of a protocol in the dialect of this connection."""
        # Contexts are shared: they hold no state of a connection, and there are few dialects. The
        # protocol is forced, because the hub knows it; nothing has to be detected from bytes.
        name, dialect = connection.protocol, self._dialect(connection)
        if (name, dialect) not in self._contexts:
            chooser = ProtocolChooser(ports={}, force_protocol=name, dialects={name: dialect})
            files = [_FILE]
            rows = FramedRows(chooser, files)
            self._contexts[name, dialect] = Context(chooser, self._ring, rows, files, _TABLES)
        return self._contexts[name, dialect]

    def _dialect(self, connection: ObservedConnection) -> str:
        # The setting may be `auto`, which is no dialect of the codec: the default is used.
        protocol = registry.find(connection.protocol)
        found = connection.dialect
        return found if found in protocol.dialects else protocol.dialect(None)

    def _handle(self, rows: Iterable[TableRow]) -> None:
        for table, row in rows:
            if self.tables is not None:
                self._feed_tables(engine_event(table, row))
            if table == "messages":
                for watcher in self.watchers:
                    watcher.message(row)

    def _feed_tables(self, event: Event | None) -> None:
        if self.tables is not None and event is not None:
            self.tables.feed(event)


def shared_decoder(tap: Tap) -> LiveDecoder:
    """Return the live decoder of a tap; add one if there is none."""
    found = tap.find(LiveDecoder)
    if found is None:
        found = LiveDecoder()
        tap.add(found)
    return found


class LiveTables:
    """The final rows of calls, deliveries, connections and tunnels."""

    def __init__(self) -> None:
        self._engines = {name: engine() for name, engine in ENGINES.items()}
        self._rows: dict[str, deque[msgspec.Struct]] = {
            name: deque(maxlen=KEPT_ROWS) for name in ENGINES
        }

    def feed(self, event: Event) -> None:
        """Feed an event to the engines."""
        for engine in self._engines.values():
            feed_event(engine, event)

    def advance(self, ts_ns: int) -> None:
        """Finalize calls whose timeout has passed."""
        # Only calls have a timeout; the rows of the other tables end with an event.
        calls = self._engines["calls"]
        assert isinstance(calls, CallsEngine)
        calls.advance(ts_ns)
        self._take()

    def finish(self) -> None:
        """Finalize all rows."""
        for engine in self._engines.values():
            engine.finish()

    def rows(self, table: str) -> list[msgspec.Struct]:
        """Return the rows kept, oldest first; LookupError for an unknown table."""
        self._take()
        return list(self._rows[table])

    def _take(self) -> None:
        for name, engine in self._engines.items():
            self._rows[name].extend(engine.take())


# -- decoding ------------------------------------------------------------------------------------


class _DecodedConnection:
    """One connection as a TCP conversation."""

    __slots__ = ("_conversation", "_id", "_seq")

    def __init__(self, conversation: ConnectionDecoder, number: int, *, whole: bool, ts_ns: int):
        self._conversation = conversation
        self._id = number
        self._seq: dict[Direction, int] = {"c2s": 1, "s2c": 1}
        if whole:
            for _ in (*self._feed("c2s", b"", SYN, ts_ns), *self._feed("s2c", b"", SYN, ts_ns)):
                pass

    def frames(self, direction: Direction, frames: bytes, ts_ns: int) -> Iterable[TableRow]:
        """Yield the rows of these frames."""
        return self._feed(direction, frames, 0, ts_ns)

    def end(self, ts_ns: int) -> Iterable[TableRow]:
        """Yield the rows that are complete only at the end."""
        yield from self._feed("c2s", b"", FIN, ts_ns)
        yield from self._feed("s2c", b"", FIN, ts_ns)
        yield from self._conversation.end(still_open=False)

    def _feed(
        self, direction: Direction, frames: bytes, flags: int, ts_ns: int
    ) -> Iterable[TableRow]:
        # Sequence numbers as on the wire: SYN has number 0 and counts as one byte, and they wrap at
        # 32 bits. The addresses of the segment are not read: the connection is known.
        seq = 0 if flags & SYN else self._seq[direction]
        self._seq[direction] = (self._seq[direction] + len(frames)) & _MASK32
        packet = Packet(ts_ns, 0, 0, b"", len(frames), 0, 0, self._id, direction)
        segment = Segment(packet, b"", b"", 0, 0, seq, 0, flags, frames, 0, 0)
        return self._conversation.segment(segment, direction, 0)


class MaskedFrame:
    """The frame of a message."""

    __slots__ = ("_frame", "_masker", "_opened", "dialect")

    def __init__(self, frame: Frame, opened: Mapping[str, Any], masker: Masker, dialect: str):
        self._frame = frame
        self._opened = opened
        self._masker = masker
        self.dialect = dialect
        """The dialect the frame is encoded in."""

    def masked(self) -> bytes:
        """Return the bytes, with zeros in place of secret fields.

        Computed on demand: most frames are never shown.
        """
        return self._masker(self._frame.message, self._frame.raw, self._opened)


class FramedRows(MessageRows):
    """Rows of `messages` with their frame, as `frame`; those of a sign-on are `masked`."""

    def __init__(self, chooser: ProtocolChooser, files: list[str]):
        super().__init__(chooser, files)
        self._maskers: dict[tuple[str, Direction], Masker] = {}

    def rows(
        self,
        protocol: WireProtocol,
        frame: Frame,
        decrypted: Decrypted,
        connection: int,
        direction: Direction,
    ) -> Iterator[dict[str, Any]]:
        """Yield the row of a frame and, for a link, that of the message in its tunnel."""
        own, *carried = super().rows(protocol, frame, decrypted, connection, direction)
        describer = self.describer(protocol)
        if describer.has_credentials(frame.message, decrypted.parts):
            for row in (own, *carried):
                row["masked"] = True
        else:
            masker = self._masker(protocol, describer.dialect, direction)
            own["frame"] = MaskedFrame(frame, decrypted.parts, masker, describer.dialect)
        yield own
        yield from carried

    def _masker(self, protocol: WireProtocol, dialect: str, direction: Direction) -> Masker:
        """Return the masker of a protocol; one `FramedRows` is for one dialect."""
        key = (protocol.name, direction)
        if key not in self._maskers:
            self._maskers[key] = Masker(protocol, dialect, direction, content=False)
        return self._maskers[key]

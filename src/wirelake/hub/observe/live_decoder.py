"""Decodes what crosses the hub while it crosses: live tables, and readers of `/v1/tail`.

The decoder is that of captures (`wirelake.capture`), and the tables are made by the engines of
`wirelake.records`, at the times that the recorder writes. So what the hub says about a run and
what its recording says are the same. Messages are decoded once, however many look.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from wirelake.capture.decode.conversation import (
    Context,
    Conversation,
    TableRow,
)
from wirelake.capture.decode.keys import KeyRing
from wirelake.capture.decode.protocol_selector import Chooser
from wirelake.capture.format.items import Packet, Segment
from wirelake.capture.tcp.assembly import FIN, SYN
from wirelake.capture.tcp.connections import Connection as Captured
from wirelake.capture.tcp.connections import Endpoint
from wirelake.protocols import registry
from wirelake.records import (
    ENGINES,
    Closed,
    Event,
    Fact,
    FaultRow,
    MessageRow,
    Opened,
    tell,
)
from wirelake.records.calls import CallsEngine
from wirelake.records.rows import fields_of

from .masked_frames import FramedRows
from .recording import (
    close_data,
    ends_of,
    publish_data,
    recorded_id,
)
from .tap import on_demand

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..hub import Hub
    from ..net.connection import Connection
    from ..pubsub.notification import Notification

__all__ = ["KEPT_ROWS", "LiveTables", "Watcher", "Watching", "watching"]

KEPT_ROWS: Final = 10_000
"""Final rows of each live table that are kept, the newest."""
_FILE: Final = "live"
"""Where messages come from that are in no file."""
_TABLES: Final = frozenset({"messages", "faults"})
_MASK32: Final = (1 << 32) - 1
_COLUMNS: Final = tuple(name for name in MessageRow.__struct_fields__ if name != "fields")


class Watcher(Protocol):
    """Somebody who looks at messages as they cross. Nothing that it does may raise."""

    def message(self, row: dict[str, Any]) -> None:
        """A row of `messages`, with its `frame` (`seen.py`) where it has one of its own."""

    def end(self) -> None:
        """Nothing more will come."""


class _Talk:
    """One connection that is being decoded."""

    __slots__ = ("_conversation", "_id", "_seq")

    def __init__(self, conversation: Conversation, number: int, *, whole: bool, ts_ns: int):
        self._conversation = conversation
        self._id = number
        self._seq: dict[Direction, int] = {"c2s": 1, "s2c": 1}
        if whole:
            for _ in (*self._feed("c2s", b"", SYN, ts_ns), *self._feed("s2c", b"", SYN, ts_ns)):
                pass

    def frames(self, direction: Direction, frames: bytes, ts_ns: int) -> Iterable[TableRow]:
        """The rows that some frames make."""
        return self._feed(direction, frames, 0, ts_ns)

    def end(self, ts_ns: int) -> Iterable[TableRow]:
        """The rows that become known at its end."""
        yield from self._feed("c2s", b"", FIN, ts_ns)
        yield from self._feed("s2c", b"", FIN, ts_ns)
        yield from self._conversation.end(still_open=False)

    def _feed(
        self, direction: Direction, frames: bytes, flags: int, ts_ns: int
    ) -> Iterable[TableRow]:
        seq = 0 if flags & SYN else self._seq[direction]
        self._seq[direction] = (self._seq[direction] + len(frames)) & _MASK32
        packet = Packet(ts_ns, 0, 0, b"", len(frames), 0, 0, self._id, direction)
        segment = Segment(packet, b"", b"", 0, 0, seq, 0, flags, frames, 0, 0)
        return self._conversation.segment(segment, direction, 0)


class LiveTables:
    """Calls, deliveries, connections and tunnels, as far as they are final."""

    def __init__(self) -> None:
        self._engines = {name: engine() for name, engine in ENGINES.items()}
        self._rows: dict[str, deque[msgspec.Struct]] = {
            name: deque(maxlen=KEPT_ROWS) for name in ENGINES
        }

    def tell(self, event: Event) -> None:
        """Something happened."""
        for engine in self._engines.values():
            tell(engine, event)

    def advance(self, ts_ns: int) -> None:
        """Lets go what has waited long enough."""
        calls = self._engines["calls"]
        assert isinstance(calls, CallsEngine)
        calls.advance(ts_ns)
        self._take()

    def finish(self) -> None:
        """Nothing more will come: every row is final."""
        for engine in self._engines.values():
            engine.finish()

    def rows(self, table: str) -> list[msgspec.Struct]:
        """The final rows that are kept, the oldest first. LookupError for a table there is not."""
        self._take()
        return list(self._rows[table])

    def _take(self) -> None:
        for name, engine in self._engines.items():
            self._rows[name].extend(engine.take())


class Watching:
    """An observer that decodes."""

    def __init__(self, hub: Hub, tables: LiveTables | None = None):
        self._hub = hub
        self._ring = KeyRing()
        self._contexts: dict[tuple[str, str], Context] = {}
        self._talks: dict[int, _Talk] = {}
        self.tables = tables
        """The live tables; None when nobody wants them."""
        self.watchers: list[Watcher] = []
        """Who looks at messages."""

    # -- what the tap tells ------------------------------------------------------------------

    def opened(self, connection: Connection, ts_ns: int) -> None:
        """A connection was let in; one without a socket is seen on the link that carries it."""
        self._begin(connection, ts_ns, whole=True)

    def crossed(
        self, connection: Connection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Decodes frames; a connection that was open before is followed from here on."""
        talk = self._talks.get(connection.id) or self._begin(connection, ts_ns, whole=False)
        if talk is not None:
            self._found(talk.frames(direction, frames, ts_ns))

    def keys(self, connection: Connection, line: str) -> None:  # noqa: ARG002 - the line names it
        """What is sealed can be read from now on."""
        self._ring.add_secrets(line)

    def signed_on(self, connection: Connection, client: str, ts_ns: int) -> None:
        """The connection belongs to a client now. In comet the wire says so itself."""
        if not connection.acks_all:
            self._tell(Fact(ts_ns, "sign_on", recorded_id(connection), {"client": client}))

    def published(
        self, notification: Notification, audience: int, client: str | None, ts_ns: int
    ) -> None:
        """Something was published."""
        self._tell(Fact(ts_ns, "publish", None, publish_data(notification, audience, client)))

    def closed(self, connection: Connection, ts_ns: int) -> None:
        """A connection is over."""
        talk = self._talks.pop(connection.id, None)
        if talk is None:
            return
        self._tell(Fact(ts_ns, "close", connection.id, dict(close_data(connection))))
        self._found(talk.end(ts_ns))
        self._tell(Closed(ts_ns, connection.id, "c2s", "fin"))

    def tick(self, ts_ns: int) -> None:
        """Time has passed."""
        if self.tables is not None:
            self.tables.advance(ts_ns)

    def stop(self) -> None:
        """Nothing more will come."""
        for watcher in tuple(self.watchers):
            watcher.end()
        if self.tables is not None:
            self.tables.finish()

    # -- decoding ----------------------------------------------------------------------------

    def _begin(self, connection: Connection, ts_ns: int, *, whole: bool) -> _Talk | None:
        ends = ends_of(connection)
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
        conversation = Conversation(self._context(connection), captured)
        talk = _Talk(conversation, connection.id, whole=whole, ts_ns=ts_ns)
        self._talks[connection.id] = talk
        self._tell(
            Opened(ts_ns, connection.id, None, client, client_port, server, server_port, whole)
        )
        return talk

    def _context(self, connection: Connection) -> Context:
        """How connections of a protocol are read, in the dialect that is spoken there."""
        name, dialect = connection.protocol, self._dialect(connection)
        if (name, dialect) not in self._contexts:
            chooser = Chooser(ports={}, force_protocol=name, dialects={name: dialect})
            files = [_FILE]
            rows = FramedRows(chooser, files)
            self._contexts[name, dialect] = Context(chooser, self._ring, rows, files, _TABLES)
        return self._contexts[name, dialect]

    def _dialect(self, connection: Connection) -> str:
        dialed = connection.inward == "s2c"
        settings = self._hub.config.gateway if dialed else connection.listener.settings
        protocol = registry.find(connection.protocol)
        found = getattr(settings, "dialect", "")
        return found if found in protocol.dialects else protocol.dialect(None)

    def _found(self, rows: Iterable[TableRow]) -> None:
        for table, row in rows:
            if table == "faults":
                self._tell(_fault(row))
                continue
            if self.tables is not None:
                self.tables.tell(_message(row))
            for watcher in self.watchers:
                watcher.message(row)

    def _tell(self, event: Event) -> None:
        if self.tables is not None:
            self.tables.tell(event)


def watching(hub: Hub) -> Watching:
    """The one who decodes, made if there is none."""
    tap = on_demand(hub)
    for each in tap.observers:
        if isinstance(each, Watching):
            return each
    found = Watching(hub)
    tap.add(found)
    tap.look_again()
    return found


def _message(row: dict[str, Any]) -> MessageRow:
    fields = fields_of(row["protocol"], row["name"], row.get(row["protocol"]))
    return MessageRow(*[*(row[name] for name in _COLUMNS), fields])


def _fault(row: dict[str, Any]) -> FaultRow:
    return FaultRow(*(row[name] for name in FaultRow.__struct_fields__))

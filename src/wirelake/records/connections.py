"""TCP connections from beginning to end: the engine behind the table `connections`.

Implements "Connections" of `docs/concepts/matching.md`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .engine import Clients, ClientsState, Engine, EngineLimits, oldest
from .protocol_rules import DEVICE_COLUMNS, SESSION, ProtocolRules, rules_of
from .rows import Closed, Fact, FaultRow, MessageRow, Opened

__all__ = ["ConnectionRow", "ConnectionsEngine"]

_ENDS: Final = {"c2s": "client", "s2c": "server"}


class ConnectionRow(msgspec.Struct, gc=False):
    """A row of `connections`. It is filled in until the connection ends."""

    connection: int
    protocol: str | None = None
    client_address: str | None = None
    client_port: int | None = None
    server_address: str | None = None
    server_port: int | None = None
    client: str | None = None
    signed_on_ns: int | None = None
    opened_ns: int | None = None
    closed_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    duration_ns: int | None = None
    closed_by: str | None = None
    closed_how: str | None = None
    close_reason: str | None = None
    messages_c2s: int = 0
    messages_s2c: int = 0
    bytes_c2s: int = 0
    bytes_s2c: int = 0
    requests: int = 0
    failures: int = 0
    pushes: int = 0
    heartbeats: int = 0
    handshake_ns: int | None = None
    resumed: bool | None = None
    previous_connection: int | None = None
    network_type: str | None = None
    isp: str | None = None
    phone_type: str | None = None
    faults: int = 0
    gaps: int = 0
    missing_bytes: int = 0

    def seen(self, ts_ns: int) -> None:
        """Extend the time span of the connection."""
        if self.first_ns is None or ts_ns < self.first_ns:
            self.first_ns = ts_ns
        if self.last_ns is None or ts_ns > self.last_ns:
            self.last_ns = ts_ns

    def count(self, row: MessageRow, rules: ProtocolRules) -> None:
        """Count a message."""
        if row.direction == "c2s":
            self.messages_c2s += 1
            self.bytes_c2s += row.size_bytes
        else:
            self.messages_s2c += 1
            self.bytes_s2c += row.size_bytes
        kind = row.kind
        if kind == "request":
            self.requests += 1
        elif kind == "response":
            self.failures += row.status is not None and row.status != "ok"
        elif kind in ("push", "event"):
            self.pushes += 1
        if row.name in rules.heartbeats:
            self.heartbeats += 1


class _Open(msgspec.Struct):
    """A connection that has not ended."""

    row: ConnectionRow
    handshake_ns: int | None = None
    """Start of its handshake."""


class _LastSignOn(msgspec.Struct):
    """The last connection on which a client signed on."""

    connection: int
    ts_ns: int


class _ConnectionsState(msgspec.Struct):
    open: list[_Open]
    clients: ClientsState
    last: list[tuple[tuple[str, str], _LastSignOn]]
    ready: list[ConnectionRow]


class ConnectionsEngine(Engine[ConnectionRow]):
    """Makes one row for each connection."""

    def __init__(self, limits: EngineLimits | None = None):
        super().__init__(limits)
        self._forget()

    def _forget(self) -> None:
        self._open: dict[int, _Open] = {}
        self._clients = Clients(self.limits.connections)
        self._last: dict[tuple[str, str], _LastSignOn] = {}
        self._ready = []

    def _of(self, connection: int) -> _Open:
        found = self._open.get(connection)
        if found is None:
            found = self._open[connection] = _Open(ConnectionRow(connection))
            for _, over in oldest(self._open, self.limits.connections):
                self._emit(over.row)
        return found

    def feed(self, row: MessageRow) -> None:
        """Count a message. Messages in tunnels belong to the table `tunnels`."""
        if row.tunnel_link is not None:
            return
        found = self._open.get(row.connection) or self._of(row.connection)
        connection = found.row
        rules = rules_of(row.protocol)
        if connection.protocol is None:
            connection.protocol = row.protocol
        connection.seen(row.ts_ns if row.first_ns is None else row.first_ns)
        connection.seen(row.ts_ns)
        connection.count(row, rules)
        if self._clients.concerns(row):
            self._clients.feed(row)
            self._signs_on(connection, row.protocol, row.ts_ns)
        if row.kind == "handshake":
            _handshake(found, row)
        elif row.kind == "control" and row.reason is not None:
            connection.close_reason = connection.close_reason or row.reason
        if row.name == rules.device_message and row.fields is not None:
            _device(connection, row.fields, rules)

    def _signs_on(self, row: ConnectionRow, protocol: str, ts_ns: int) -> None:
        client = self._clients.get(row.connection)
        # The first connection of a client has no previous one. Repeating a sign-on on the same
        # connection changes nothing.
        if client is None or client == row.client:
            return
        row.client, row.signed_on_ns = client, ts_ns
        before = self._last.get((protocol, client))
        row.previous_connection = None if before is None else before.connection
        self._last[protocol, client] = _LastSignOn(row.connection, ts_ns)
        for _ in oldest(self._last, self.limits.connections):
            pass

    def fault(self, row: FaultRow) -> None:
        """Count bytes that cannot be decoded or are missing."""
        found = self._of(row.connection).row
        found.seen(row.ts_ns)
        found.protocol = found.protocol or row.protocol
        found.faults += 1
        if row.code == "gap":
            found.gaps += 1
            found.missing_bytes += row.missing_bytes

    def opened(self, event: Opened) -> None:
        """Note the endpoints and the time of opening."""
        found = self._of(event.connection).row
        found.seen(event.ts_ns)
        if event.whole:
            found.opened_ns = event.ts_ns
        found.protocol = found.protocol or event.protocol
        found.client_address, found.client_port = event.client_address, event.client_port
        found.server_address, found.server_port = event.server_address, event.server_port

    def closed(self, event: Closed) -> None:
        """Make the row of a connection final."""
        found = self._of(event.connection).row
        found.seen(event.ts_ns)
        found.closed_ns = event.ts_ns
        found.closed_how = event.how
        if found.closed_by is None and event.side is not None:
            found.closed_by = _ENDS[event.side]
        del self._open[event.connection]
        self._clients.closed(event.connection)
        self._emit(found)

    def fact(self, event: Fact) -> None:
        """Note why the hub closed, and sign-ons. A fact alone makes no row."""
        known = None if event.connection is None else self._open.get(event.connection)
        if known is None:
            return
        found = known.row
        client, reason, side = (event.data.get(key) for key in ("client", "reason", "side"))
        if event.kind == "close":
            found.close_reason = reason if isinstance(reason, str) else found.close_reason
            found.closed_by = side if side in ("client", "server") else found.closed_by
        elif event.kind == "sign_on" and isinstance(client, str) and found.protocol is not None:
            self._clients.sign_on(found.connection, client)
            self._signs_on(found, found.protocol, event.ts_ns)

    def finish(self) -> None:
        """End the input. Open connections have no close time."""
        for found in self._open.values():
            self._emit(found.row)
        ready = self._ready
        self._forget()
        self._ready = ready

    def _emit(self, row: ConnectionRow) -> None:
        if row.first_ns is not None and row.last_ns is not None:
            row.duration_ns = row.last_ns - row.first_ns
        self._ready.append(row)

    def state(self) -> Any:
        """Return the whole memory as plain data, including rows that were not taken yet."""
        state = _ConnectionsState(
            list(self._open.values()),
            self._clients.state(),
            list(self._last.items()),
            self._ready,
        )
        return msgspec.to_builtins(state)

    def restore(self, state: Any) -> None:
        """Replace the memory by what `state` returned."""
        found = msgspec.convert(state, _ConnectionsState)
        self._forget()
        self._open = {each.row.connection: each for each in found.open}
        self._clients.restore(found.clients)
        self._last = dict(found.last)
        self._ready = found.ready


def _handshake(found: _Open, row: MessageRow) -> None:
    """Measure a handshake from the client's message to the server's, and note whether it
    resumes."""
    # A session counts as resumed when the server answers the request to resume it: a refusal is an
    # error and no handshake message, and leaves `resumed` False.
    if row.direction == "c2s":
        found.handshake_ns = row.ts_ns
        if (row.fields or {}).get(SESSION) is not None:
            found.row.resumed = False
    elif found.handshake_ns is not None:
        found.row.handshake_ns = row.ts_ns - found.handshake_ns
        if found.row.resumed is not None:
            found.row.resumed = True


def _device(row: ConnectionRow, fields: dict[str, Any], rules: ProtocolRules) -> None:
    """Set the columns that a device reports. The last report counts."""
    for column in DEVICE_COLUMNS:
        value, texts = fields.get(column), rules.device_texts.get(column)
        if value is not None and texts is not None:
            value = texts.text_of(value)
        setattr(row, column, value)

"""Notifications from publication to acknowledgement: the engine behind the table `deliveries`.

Implements "Deliveries" of `docs/concepts/matching.md`. A row aggregates by (protocol, client,
notification) over all connections of the client: a phone that changes networks acknowledges on
another connection than it received on. A row consists of counts and of first and last times, so the
order in which connections are processed makes no difference, and the lake can compute it as a
commutative aggregate.

`CROSSING` has the schemas of the tables between the two: what the folds over single connections
pass on to the tables that join connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from wirelake.wire.meaning import Tunnels

from .calls import HARMLESS
from .engine import Clients, ClientsState, Engine, EngineLimits, oldest
from .protocol_rules import PUBLISHED, publication_protocol, rules_of
from .rows import Closed, Fact, FaultRow, MessageRow
from .tunnels import TunnelsEngine, is_refusal, tunnel_connection, tunnel_of

__all__ = [
    "CROSSING",
    "LATEST_MS",
    "MILLISECOND_NS",
    "DeliveriesEngine",
    "DeliveryRow",
]

MILLISECOND_NS: Final = 1_000_000
LATEST_MS: Final = ((1 << 63) - 1) // MILLISECOND_NS
"""The latest time in milliseconds, before or after 1970, that is a time in nanoseconds."""

_Key: TypeAlias = tuple[str, str | int, str]
"""Protocol, client and notification. The connection stands in for an unknown client."""


class DeliveryRow(msgspec.Struct, gc=False):
    """A row of `deliveries`. It is filled in until it is final."""

    notification: str
    protocol: str
    client: str | None
    outcome: str | None = None
    topic: str | None = None
    published_ns: int | None = None
    first_sent_ns: int | None = None
    last_sent_ns: int | None = None
    sends: int = 0
    acked_ns: int | None = None
    acks: int = 0
    latency_ns: int | None = None
    first_connection: int | None = None
    last_connection: int | None = None
    acked_connection: int | None = None

    def published(self, ts_ns: int) -> None:
        """Note the publication time that a message carries."""
        if self.published_ns is None or ts_ns < self.published_ns:
            self.published_ns = ts_ns

    def sent(self, ts_ns: int, connection: int) -> None:
        """Count a send."""
        self.sends += 1
        at = (ts_ns, connection)
        self.first_sent_ns, self.first_connection = _chosen(
            min, at, self.first_sent_ns, self.first_connection
        )
        self.last_sent_ns, self.last_connection = _chosen(
            max, at, self.last_sent_ns, self.last_connection
        )

    def acked(self, ts_ns: int, connection: int) -> None:
        """Count an acknowledgement."""
        self.acks += 1
        self.acked_ns, self.acked_connection = _chosen(
            min, (ts_ns, connection), self.acked_ns, self.acked_connection
        )


def _chosen(
    pick: Callable[..., tuple[int, int]],
    at: tuple[int, int],
    known_ns: int | None,
    connection: int | None,
) -> tuple[int, int]:
    """Return the first or last of two times and their connections.

    At one time, the smaller id of a connection is first and the larger one is last: the order of
    the events of different connections has no influence.
    """
    return at if known_ns is None or connection is None else pick(at, (known_ns, connection))


class _Publication(msgspec.Struct):
    """A publication, from a fact."""

    ts_ns: int
    topic: str | None


class _DeliveriesState(msgspec.Struct):
    waiting: list[tuple[_Key, DeliveryRow]]
    done: list[tuple[_Key, DeliveryRow]]
    publications: dict[str, _Publication]
    faults: list[tuple[str | int, int]]
    clients: ClientsState
    ready: list[DeliveryRow]
    tunnel_clients: ClientsState
    tunnels: Any


class DeliveriesEngine(Engine[DeliveryRow]):
    """Follows notifications from publication to acknowledgement."""

    def __init__(self, limits: EngineLimits | None = None):
        super().__init__(limits)
        self._forget()

    def _forget(self) -> None:
        self._waiting: dict[_Key, DeliveryRow] = {}
        # Acknowledged rows stay for a while: a resend and its acknowledgement may cross, and both
        # belong to the same row.
        self._done: dict[_Key, DeliveryRow] = {}
        self._publications: dict[str, _Publication] = {}
        self._faults: dict[str | int, int] = {}
        """By client: the last fault that may hide an acknowledgement."""
        self._clients = Clients(self.limits.connections)
        # Apart from the others, because facts do not count here (as in `CallsEngine`).
        self._tunnel_clients = Clients(self.limits.tunnels)
        self._tunnels = TunnelsEngine(self.limits)
        """Which link carries a tunnel: a fault of the link may hide what is in the tunnel."""
        self._ready = []

    def feed(self, row: MessageRow) -> None:
        """Handle sign-ons, sends and acknowledgements, and the beginnings and ends of tunnels."""
        if row.tunnel_link is not None:
            self._tunnels.feed(row)
            is_call = row.client is not None if row.kind == "request" else row.kind == "response"
            if is_call and self._tunnel_clients.concerns(row):
                self._tunnel_clients.feed(row)
        else:
            if self._clients.concerns(row):
                self._clients.feed(row)
            tunnels = rules_of(row.protocol).tunnels
            if tunnels is not None:
                self._link_packet(tunnels, row)
        if not row.ids:
            return
        whom = self._recipient(row.connection)
        if row.direction == "s2c":
            self._sent(row, whom)
        else:
            for notification in row.ids:
                self._acked(row, whom, notification)

    def _link_packet(self, tunnels: Tunnels, row: MessageRow) -> None:
        """Follow the tunnels of a link; a tunnel that ends, or begins again, has no client."""
        self._tunnels.feed(row)
        self._tunnels.take()
        if row.name in (tunnels.connect, tunnels.disconnect) or is_refusal(tunnels, row):
            tunnel = tunnel_of(row.target)
            if tunnel is not None:
                self._tunnel_clients.closed(tunnel_connection(*tunnel))

    def _recipient(self, connection: int) -> str | int:
        # Without a known client the connection stands in: its sends and acknowledgements still
        # match each other, only not those of other connections.
        found = self._clients.get(connection)
        if found is None:
            found = self._tunnel_clients.get(connection)
        return connection if found is None else found

    def _sent(self, row: MessageRow, whom: str | int) -> None:
        times = (row.fields or {}).get(PUBLISHED)
        published = times if isinstance(times, list) else [times]
        for place, notification in enumerate(row.ids or ()):
            key = (row.protocol, whom, notification)
            found = self._done.get(key) or self._waiting.get(key) or self._new(key)
            found.sent(row.ts_ns, row.connection)
            milliseconds = published[place] if place < len(published) else None
            # A time from the wire may be any integer; one that no column can hold is none.
            if milliseconds is not None and abs(milliseconds) <= LATEST_MS:
                found.published(milliseconds * MILLISECOND_NS)

    def _acked(self, row: MessageRow, whom: str | int, notification: str) -> None:
        key = (row.protocol, whom, notification)
        found = self._done.get(key)
        if found is None:
            found = self._waiting.pop(key, None) or self._row(key)
            self._done[key] = found
            for over, final in oldest(self._done, self.limits.acknowledged):
                self._emit(over, final)
        found.acked(row.ts_ns, row.connection)

    def _new(self, key: _Key) -> DeliveryRow:
        found = self._waiting[key] = self._row(key)
        for over, final in oldest(self._waiting, self.limits.deliveries):
            self._emit(over, final)
        return found

    @staticmethod
    def _row(key: _Key) -> DeliveryRow:
        protocol, whom, notification = key
        return DeliveryRow(notification, protocol, whom if isinstance(whom, str) else None)

    def fault(self, row: FaultRow) -> None:
        """Note that an acknowledgement may be missing."""
        if row.direction == "c2s" and row.code not in HARMLESS:
            for connection in (row.connection, *self._tunnels.carried_by(row.connection)):
                whom = self._recipient(connection)
                self._faults[whom] = max(row.ts_ns, self._faults.get(whom, row.ts_ns))
            for _ in oldest(self._faults, self.limits.connections):
                pass

    def closed(self, event: Closed) -> None:
        """Forget which client the connection has. The client may return on another connection."""
        self._clients.closed(event.connection)

    def fact(self, event: Fact) -> None:
        """Note publications and sign-ons."""
        data = event.data
        client, notification = data.get("client"), data.get("id")
        if event.kind == "publish" and isinstance(notification, str):
            self._published(event, notification)
        elif event.kind == "sign_on" and event.connection is not None and isinstance(client, str):
            self._clients.sign_on(event.connection, client)

    def _published(self, event: Fact, notification: str) -> None:
        topic, client = event.data.get("topic"), event.data.get("client")
        known = self._publications.get(notification)
        if known is None or event.ts_ns < known.ts_ns:
            found = _Publication(event.ts_ns, topic if isinstance(topic, str) else None)
            self._publications[notification] = found
        for _ in oldest(self._publications, self.limits.publications):
            pass
        if isinstance(client, str):
            protocol = str(event.data.get("protocol", publication_protocol()))
            key = (protocol, client, notification)
            if key not in self._done and key not in self._waiting:
                self._new(key)

    def finish(self) -> None:
        """End the input: make all rows final."""
        for found in (self._done, self._waiting):
            for key, row in found.items():
                self._emit(key, row)
        ready = self._ready
        self._forget()
        self._ready = ready

    def _emit(self, key: _Key, row: DeliveryRow) -> None:
        # A recorder's fact is exact; the time in the message itself has milliseconds at best.
        fact = self._publications.get(row.notification)
        if fact is not None:
            row.published_ns, row.topic = fact.ts_ns, fact.topic
        if row.acked_ns is not None and row.first_sent_ns is not None:
            row.latency_ns = row.acked_ns - row.first_sent_ns
        row.outcome = self._outcome(key, row)
        self._ready.append(row)

    def _outcome(self, key: _Key, row: DeliveryRow) -> str:
        if row.first_sent_ns is None:
            return "unsent" if row.acked_ns is None else "orphan"
        if row.acked_ns is not None:
            return "acked"
        # A fault of the client's direction after the send may hide the acknowledgement.
        hidden = self._faults.get(key[1])
        return "unacked" if hidden is None or hidden < row.first_sent_ns else "unknown"

    def state(self) -> Any:
        """Return the whole memory as plain data, including rows that were not taken yet."""
        state = _DeliveriesState(
            list(self._waiting.items()),
            list(self._done.items()),
            self._publications,
            list(self._faults.items()),
            self._clients.state(),
            self._ready,
            self._tunnel_clients.state(),
            self._tunnels.state(),
        )
        return msgspec.to_builtins(state)

    def restore(self, state: Any) -> None:
        """Replace the memory by what `state` returned."""
        found = msgspec.convert(state, _DeliveriesState)
        self._forget()
        self._waiting = dict(found.waiting)
        self._done = dict(found.done)
        self._publications = found.publications
        self._faults = dict(found.faults)
        self._clients.restore(found.clients)
        self._ready = found.ready
        self._tunnel_clients.restore(found.tunnel_clients)
        self._tunnels.restore(found.tunnels)


# -- tables between the folds and the tables across connections ------------------------------------


_INT = pa.int64()
_TEXT = pa.string()


def _table(doc: str, *columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"doc": about}) for name, kind, about in columns]
    return pa.schema(fields, metadata={"doc": doc})


_WHOM = (
    ("client", _TEXT, "The signed-on client; null if unknown."),
    ("connection", _INT, "The connection, if the client is unknown; else null."),
)

CROSSING: Final[dict[str, pa.Schema]] = {
    "_delivery_parts": _table(
        "A part of a row of deliveries: what one stretch of a connection adds to it.",
        ("protocol", _TEXT, "Name of the protocol."),
        *_WHOM,
        ("notification", _TEXT, "Id of the notification."),
        ("sends", _INT, "Number of sends."),
        ("first_sent_ns", _INT, "Time of the first send, ns since 1970; null without one."),
        ("first_connection", _INT, "Connection of the first send."),
        ("last_sent_ns", _INT, "Time of the last send."),
        ("last_connection", _INT, "Connection of the last send."),
        ("acks", _INT, "Number of acknowledgements."),
        ("acked_ns", _INT, "Time of the first acknowledgement; null without one."),
        ("acked_connection", _INT, "Connection of the first acknowledgement."),
        ("published_ns", _INT, "Publication time in the message itself; else null."),
        ("last_event_ns", _INT, "Time of its last event."),
    ),
    "_delivery_faults": _table(
        "Faults that may hide an acknowledgement.",
        *_WHOM,
        ("ts_ns", _INT, "Time, ns since 1970."),
    ),
    "_publications": _table(
        "Publications, from the facts of recorders.",
        ("notification", _TEXT, "Id of the notification."),
        ("ts_ns", _INT, "Publication time, ns since 1970."),
        ("topic", _TEXT, "Topic; null if the fact has none."),
        ("client", _TEXT, "Recipient; null if the fact has none."),
        ("protocol", _TEXT, "Name of the protocol, of the fact or by default."),
    ),
    "_sign_ons": _table(
        "Sign-ons: each time that a connection got a client, or another one.",
        ("protocol", _TEXT, "Name of the protocol."),
        ("client", _TEXT, "The client."),
        ("connection", _INT, "Id of the connection."),
        ("ts_ns", _INT, "Time, ns since 1970."),
    ),
    "_tunnel_events": _table(
        "Events of tunnels, ordered by time, rank, link and number.",
        ("event", _TEXT, "message, fault or closed."),
        ("tunnel", _INT, "Connection id of the tunnel; null for events of a whole link."),
        ("ts_ns", _INT, "Time, ns since 1970."),
        ("rank", _INT, "Order of events at the same time."),
        ("link", _INT, "Connection id of the link."),
        ("number", _INT, "Number of the event on its link, within one step."),
        ("connection", _INT, "As in messages: of the tunnel, or of the link."),
        ("direction", _TEXT, "c2s or s2c; null for an end."),
        ("protocol", _TEXT, "Of a message: name of its protocol."),
        ("kind", _TEXT, "Of a message, as in messages; so are the following columns."),
        ("name", _TEXT, "Name of the message in its protocol."),
        ("message_id", _INT, "Its id."),
        ("reply_to", _INT, "The id of the message that it answers."),
        ("target", _TEXT, "Target of the call; null for a packet about a tunnel."),
        ("status", _TEXT, "Of a response: ok, or the protocol's own code."),
        ("reason", _TEXT, "Text of a failed response."),
        ("client", _TEXT, "The client that signs on with this message."),
        ("size_bytes", _INT, "Bytes of the frame."),
        ("tunnel_link", _INT, "Of a message in a tunnel: the connection of the link."),
        ("code", _TEXT, "Of a fault: its stable code."),
        ("instance_id", _INT, "Of a packet about a tunnel: the gateway's instance."),
        ("tunnel_id", _INT, "Of a packet about a tunnel: the gateway's number for it."),
        ("ip", pa.binary(), "Of the packet that opens a tunnel: the user's address."),
        ("port", _INT, "Of the packet that opens a tunnel: the user's port."),
        ("result", pa.bool_(), "Of the answer to it: whether the tunnel is open."),
        ("ids", pa.list_(_TEXT), "Of a message: the notifications that it carries or acks."),
        ("published_ns", pa.list_(_INT), "When each was published, if the message says so."),
    ),
}
"""The schemas by table name."""

"""Rows of the reference reader as events for the engines of `wirelake.records`; and `Lifecycle`.

    for table, row in read_tables(paths, tables=EVENT_TABLES):
        event = engine_event(table, row)

`in_order` of `wirelake.records` then sorts them as the engines expect: bytes after a hole in a
stream are delivered later than what was captured after them on other streams.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wirelake.records.rows import Closed, Event, Fact, FaultRow, MessageRow, Opened, fields_of
from wirelake.wire.errors import unknown

from ..format.items import Direction, Segment
from ..tcp.assembly import FIN, RST, SYN
from ..tcp.connections import Assigned, Connection

__all__ = ["EVENT_TABLES", "Lifecycle", "engine_event"]

EVENT_TABLES: Final = ("messages", "faults", "facts", "lifecycle")
"""The tables that engines need."""

_MESSAGE_COLUMNS: Final = tuple(name for name in MessageRow.__struct_fields__ if name != "fields")
_FAULT_COLUMNS: Final = FaultRow.__struct_fields__


def engine_event(table: str, row: dict[str, Any]) -> Event | None:
    """Return the event of a row; None for a fault that belongs to no stream."""
    match table:
        case "messages":
            struct = row.get(row["protocol"])
            fields = fields_of(row["protocol"], row["name"], struct, row["target"], row["body"])
            return MessageRow(*[*(row[name] for name in _MESSAGE_COLUMNS), fields])
        case "faults":
            if row["ts_ns"] is None or row["direction"] is None:
                return None
            return FaultRow(*[row[name] for name in _FAULT_COLUMNS])
        case "facts":
            return Fact(row["ts_ns"], row["kind"], row["connection"], row["data"])
        case "lifecycle":
            event: Event = row["event"]
            return event
        case _:
            raise ValueError(unknown("event table", table, EVENT_TABLES))


class _State(msgspec.Struct):
    last_ns: int
    closed: set[Direction] = msgspec.field(default_factory=set)
    first_fin: Direction | None = None
    over: bool = False


class Lifecycle:
    """Beginnings and ends of TCP connections."""

    def __init__(self) -> None:
        self._states: dict[Connection, _State] = {}

    def segment(self, segment: Segment, assigned: Assigned) -> Iterator[Opened | Closed]:
        """Yield what a segment begins and ends."""
        connection, ts_ns = assigned.connection, segment.packet.ts_ns
        found = self._states.get(connection)
        if found is None:
            found = self._states[connection] = _State(ts_ns)
            yield _opened(segment, connection)
        found.last_ns = ts_ns
        if segment.flags & (FIN | RST) and not found.over:
            yield from _closed(found, segment.flags, assigned.direction, connection.id, ts_ns)

    def dropped(self, connection: Connection, *, replaced: bool) -> Iterator[Closed]:
        """Forget a connection; one that was replaced between its endpoints is closed by that."""
        found = self._states.pop(connection, None)
        if found is not None and replaced and not found.over:
            yield Closed(found.last_ns, connection.id, None, "anew")


def _opened(segment: Segment, connection: Connection) -> Opened:
    client, server = connection.client, connection.server
    return Opened(
        segment.packet.ts_ns,
        connection.id,
        None,
        _address(client.address),
        client.port,
        _address(server.address),
        server.port,
        bool(segment.flags & SYN),
    )


def _closed(
    found: _State, flags: int, direction: Direction, connection: int, ts_ns: int
) -> Iterator[Closed]:
    if flags & RST:
        found.over = True
        yield Closed(ts_ns, connection, direction, "rst")
        return
    # The side that sent the first FIN closed the connection.
    found.first_fin = found.first_fin or direction
    found.closed.add(direction)
    if len(found.closed) == 2:
        found.over = True
        yield Closed(ts_ns, connection, found.first_fin, "fin")


def _address(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)

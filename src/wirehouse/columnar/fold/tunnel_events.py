"""What happens to tunnels, as rows of `_tunnel_events`, and back.

A tunnel may come over several links, in any share of any source: so nothing is folded here. Told
are messages in tunnels, the packets about tunnels, and where links break and end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from wirehouse.records.crossing import CROSSING
from wirehouse.records.rows import Closed, Event, FaultRow, MessageRow
from wirehouse.records.tunnel_ids import tunnel_connection, tunnel_of

__all__ = ["TunnelEvents", "events_of"]

RELAY: Final = "relay"
_RANKS: Final = {"fault": 2, "message": 3, "closed": 4}
_OF_MESSAGE: Final = (
    "ts_ns",
    "connection",
    "direction",
    "protocol",
    "kind",
    "name",
    "message_id",
    "reply_to",
    "target",
    "status",
    "reason",
    "client",
    "size_bytes",
    "tunnel_link",
)
_FIELDS: Final = {"tunnel_connect": ("ip", "port"), "tunnel_connected": ("result",)}
_COLUMNS: Final = CROSSING["_tunnel_events"].names


class TunnelEvents:
    """Gathers what concerns tunnels."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._number = 0

    def message(self, row: MessageRow) -> None:
        """A message; only those in tunnels and the packets about tunnels are told."""
        if row.tunnel_link is not None:
            self._add("message", row.connection, row.tunnel_link, _columns(row))
        elif row.protocol == RELAY and row.name.startswith("tunnel_"):
            ids = tunnel_of(row.target)
            if ids is not None:
                self._add("message", tunnel_connection(*ids), row.connection, _columns(row))

    def fault(self, row: FaultRow, protocol: str | None) -> None:
        """Bytes of a connection that is a link, or may be one, are missing."""
        if protocol in (RELAY, None):
            told = {"ts_ns": row.ts_ns, "direction": row.direction, "code": row.code}
            self._add("fault", None, row.connection, {"connection": row.connection, **told})

    def closed(self, event: Closed, protocol: str | None) -> None:
        """A connection that is a link, or may be one, ends."""
        if protocol in (RELAY, None):
            told = {"ts_ns": event.ts_ns, "connection": event.connection}
            self._add("closed", None, event.connection, told)

    def _add(self, event: str, tunnel: int | None, link: int, told: dict[str, Any]) -> None:
        self._number += 1
        told |= {
            "event": event,
            "tunnel": tunnel,
            "rank": _RANKS[event],
            "link": link,
            "number": self._number,
        }
        self._rows.append(tuple(told.get(name) for name in _COLUMNS))

    def take(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """The rows since the last call."""
        yield "_tunnel_events", self._rows
        self._rows = []


def _columns(row: MessageRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _OF_MESSAGE} | (row.fields or {})


def events_of(batch: pa.RecordBatch) -> Iterator[tuple[int | None, Event]]:
    """The tunnel of each row, None for what happens to a link; and the event."""
    for row in batch.to_pylist():
        yield row["tunnel"], _event(row)


def _event(row: dict[str, Any]) -> Event:
    match row["event"]:
        case "fault":
            return FaultRow(row["ts_ns"], row["connection"], row["direction"], row["code"])
        case "closed":
            return Closed(row["ts_ns"], row["connection"])
        case _:
            wanted = _FIELDS.get(row["name"], ()) if row["protocol"] == RELAY else ()
            return MessageRow(
                first_ns=row["ts_ns"],
                fields={name: row[name] for name in wanted} or None,
                **{name: row[name] for name in _OF_MESSAGE},
            )

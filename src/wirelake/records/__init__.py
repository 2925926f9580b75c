"""Messages as rows, the matching rules as engines, and the filter language.

In reading order:

    schema.py          the columns of all tables; `structs.py` the struct of each protocol
    message.py         one decoded message as a row of `messages`, by its protocol's `Meaning`
    arguments.py       named arguments of calls: clients, notification ids, publication times
    protocol_rules.py  each `Meaning` resolved to what the matching rules need
    rows.py            the input of the engines, and its conversion from and to Arrow
    engine.py          the interface of the engines
    calls.py           requests and responses
    deliveries.py      notifications, and the tables that cross connections
    connections.py     connections
    tunnels.py         virtual connections on links
    rollups.py         roll-ups by minute, and latency buckets
    filter.py          the filter language; `filter_nodes.py` its compiled conditions

The engines are one of the two implementations of the matching rules (`docs/concepts/matching.md`);
`wirelake.columnar.fold` is the other. This package imports `protocols` and `wire`, does no I/O and
reads no clock.
"""

from __future__ import annotations

from typing import Any, Final

from .calls import CallRow, CallsEngine
from .connections import ConnectionRow, ConnectionsEngine
from .deliveries import DeliveriesEngine, DeliveryRow
from .engine import Engine, EngineLimits, feed_event
from .rows import Closed, Event, Fact, FaultRow, MessageRow, Opened, in_order, rows_from_batch
from .tunnels import TunnelRow, TunnelsEngine

__all__ = [
    "ENGINES",
    "CallRow",
    "CallsEngine",
    "Closed",
    "ConnectionRow",
    "ConnectionsEngine",
    "DeliveriesEngine",
    "DeliveryRow",
    "Engine",
    "EngineLimits",
    "Event",
    "Fact",
    "FaultRow",
    "MessageRow",
    "Opened",
    "TunnelRow",
    "TunnelsEngine",
    "feed_event",
    "in_order",
    "rows_from_batch",
]

ENGINES: Final[dict[str, type[Engine[Any]]]] = {
    "calls": CallsEngine,
    "deliveries": DeliveriesEngine,
    "connections": ConnectionsEngine,
    "tunnels": TunnelsEngine,
}
"""The engine of each derived table."""

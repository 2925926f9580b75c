"""The meaning of messages: table schemas, the matching rules, the filter language.

Read in this order:

- `schema` has the columns of all tables, `structs` the struct of each protocol.
- `message` turns one decoded message into a row of `messages` by its protocol's `Meaning`.
- `protocol_rules` resolves each `Meaning` to what the matching rules need.
- `rows` is the input of the engines; `engine` their interface; `calls`, `deliveries`, `connections`
  and `tunnels` the engines. `batches` converts between rows and Arrow.
- `cross_connection` has the tables between folds over connections and tables across them.
- `latency_buckets` are the buckets of roll-ups.
- `filter` compiles the filter language, with `filter_tokens`, `filter_columns` and `filter_nodes`.

The engines are one of the two implementations of the matching rules; `wirelake.columnar.fold` is
the other. Nothing here does I/O or reads a clock. The engines, exported here, do not need Arrow.
"""

from __future__ import annotations

from typing import Any, Final

from .calls import CallRow, CallsEngine
from .connections import ConnectionRow, ConnectionsEngine
from .deliveries import DeliveriesEngine, DeliveryRow
from .engine import Engine, EngineLimits, tell
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
    "in_order",
    "rows_from_batch",
    "tell",
]

ENGINES: Final[dict[str, type[Engine[Any]]]] = {
    "calls": CallsEngine,
    "deliveries": DeliveriesEngine,
    "connections": ConnectionsEngine,
    "tunnels": TunnelsEngine,
}
"""The engine of each derived table."""

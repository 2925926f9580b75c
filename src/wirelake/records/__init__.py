"""What messages mean: tables and their columns, engines that match messages, the filter language.

Here are the engines and what they are fed, which need no Arrow. Beside them: `schema` (the tables),
`batches` (rows to and from Arrow), `filter` (the filter language), `message` (one decoded message
as a row).
"""

from __future__ import annotations

from typing import Any, Final

from .calls import CallRow, CallsEngine
from .connections import ConnectionRow, ConnectionsEngine
from .deliveries import DeliveriesEngine, DeliveryRow
from .engine import (
    Engine,
    EngineLimits,
    tell,
)
from .rows import (
    Closed,
    Event,
    Fact,
    FaultRow,
    MessageRow,
    Opened,
    in_order,
    rows_from_batch,
)
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

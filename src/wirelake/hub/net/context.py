"""The parts of the hub that listeners and their connections use.

`Hub` builds one context and passes it to its listeners. A connection therefore knows the parts that
it calls, and neither the hub nor how it starts and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..auth import Authority
from ..config import ActiveLimits, Config, Limits
from ..observe.counters import Counters
from ..observe.tap import Tap
from ..pubsub.topics import Topics
from ..rpc.hub_calls import HubCalls
from ..rpc.services import Services
from ..store import Store
from .budget import BufferBudget
from .outbox import Outbox
from .table import ConnectionTable, DeadlineScan, TrackedConnection

__all__ = ["HubContext"]


@dataclass(slots=True)
class HubContext:
    """The parts of one hub."""

    config: Config
    data: Path
    """The data directory."""
    loop: asyncio.AbstractEventLoop
    active_limits: ActiveLimits
    counters: Counters
    store: Store
    outbox: Outbox
    deadlines: DeadlineScan
    tap: Tap
    topics: Topics
    services: Services
    calls: HubCalls
    authority: Authority
    connections: Mapping[int, TrackedConnection]
    """Open connections, by id."""
    table: ConnectionTable
    budget: BufferBudget

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.active_limits.current

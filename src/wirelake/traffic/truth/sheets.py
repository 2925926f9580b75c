"""All tables of truth for one plate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import Plate
from .calls import calls
from .cells import Sheet
from .connections import connections, tunnels
from .coverage import (
    Extra,
    Kind,
    counts,
    coverage,
)
from .deliveries import deliveries
from .ends import ends
from .reading import Captured
from .sightings import (
    FaultSeen,
    Seen,
    look,
)

__all__ = ["TABLES", "Altered", "Sheets", "sheets"]

TABLES: Final = ("calls", "deliveries", "connections", "tunnels", "coverage", "faults")
"""What there is truth of, by the names of the tables."""


@dataclass(slots=True)
class Altered:
    """In what one cast differs from its plate."""

    times: npt.NDArray[np.int64]
    """When its items were captured."""
    streams: dict[tuple[int, int], Captured] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    """Items that the capture does not have."""
    extra: Extra = field(default_factory=Extra)
    conflicts: list[FaultSeen] = field(default_factory=list)


class Sheets(NamedTuple):
    """Truth of one scene."""

    tables: dict[str, Sheet]
    counts: Counter[Kind]
    seen: Seen


def sheets(plate: Plate, *, facts: bool, altered: Altered | None = None) -> Sheets:
    """What a reader must find; `facts`: whether the capture holds what the wire does not carry."""
    change = altered or Altered(np.zeros(0, np.int64))
    seen = look(plate, change.streams)
    seen.faults += change.conflicts
    times = None if altered is None else altered.times
    found = ends(plate)
    tables = {
        "calls": calls(plate, seen, found, times),
        "deliveries": deliveries(plate, seen, facts=facts, times=times),
        "connections": connections(plate, seen, found, facts=facts),
        "tunnels": tunnels(plate, seen, found),
        "coverage": coverage(plate, seen, change.lost, change.extra),
    }
    return Sheets(tables, counts(seen), seen)

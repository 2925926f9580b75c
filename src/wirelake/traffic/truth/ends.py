"""How the connections of a plate begin and end, as its packets show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wirelake.capture.tcp.synthesis import (
    FIN,
    RST,
    SYN,
)

from ..packets.packet_template import Plate

__all__ = ["End", "ends"]

_SIDES: Final = ("client", "server")


@dataclass(slots=True)
class End:
    """The beginning and the end of one connection."""

    opened: int
    """The item that is its SYN."""
    closed: int | None = None
    """The item with which it was over: the second FIN, or a RST."""
    by: str | None = None
    how: str | None = None
    reason: str | None = None
    """What the server told its recorder."""


def ends(plate: Plate) -> list[End]:
    """One for each connection."""
    found = [End(-1) for _ in plate.mould.connections]
    fins: list[set[int]] = [set() for _ in found]
    for n, item in enumerate(plate.items):
        if not item.is_packet:
            continue
        end = found[item.connection]
        if item.flags & SYN and end.opened < 0:
            end.opened = n
        if item.flags & (FIN | RST) and end.by is None:
            end.by = _SIDES[item.direction]
        if item.flags & FIN:
            fins[item.connection].add(item.direction)
        if end.closed is None and (item.flags & RST or len(fins[item.connection]) == 2):
            end.closed, end.how = n, "rst" if item.flags & RST else "fin"
    for happening in plate.mould.happenings:
        if happening.kind == "close" and happening.line is not None:
            found[plate.mould.places[happening.line.number]].reason = happening.reason
    return found

"""What a perfect reader sees of a plate: its messages, in order of time, and what carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..packets.packet_template import Plate
from ..scenes.frames import Frame, Meant
from .cells import (
    Cell,
    Conn,
    Id,
    Tunnel,
)
from .reading import (
    Captured,
    StreamFault,
    captured,
    read,
)

__all__ = ["DIRECTIONS", "Seen", "Sighting", "id_cell", "look", "text_cell", "tunnel_cell"]

DIRECTIONS: Final = ("c2s", "s2c")
_TUNNEL_HEAD: Final = 36
"""Bytes before the message in a TUNNEL_RELAY."""
_FORMS: Final = {"esnp": "u64be", "tny": "varint"}
"""How the ids of messages are written, where casts have their own."""


@dataclass(slots=True)
class Sighting:
    """A message that crossed a connection, or a tunnel on it."""

    connection: int
    """The place of the connection that carried it."""
    tunnel: Tunnel | None
    protocol: str
    direction: int
    means: Meant
    size: int
    frame: Frame
    item: int
    """The packet that completed it."""

    @property
    def where(self) -> Conn | Tunnel:
        """The connection or tunnel that it belongs to."""
        return Conn(self.connection) if self.tunnel is None else self.tunnel


@dataclass(slots=True)
class FaultSeen:
    """Bytes of a stream that a reader could not use."""

    connection: int
    direction: int
    fault: StreamFault


@dataclass(slots=True)
class Seen:
    """All that a reader finds in the streams of a scene."""

    messages: list[Sighting] = field(default_factory=list)
    faults: list[FaultSeen] = field(default_factory=list)
    streams: dict[tuple[int, int], Captured] = field(default_factory=dict)


def look(plate: Plate, altered: Mapping[tuple[int, int], Captured] | None = None) -> Seen:
    """Every message, in the order in which they were complete. `altered` are the streams, by
    connection and direction, of which the capture has something else than the plate."""
    found = Seen()
    for place, connection in enumerate(plate.mould.connections):
        for direction, stream in enumerate(connection.streams):
            seen = (altered or {}).get((place, direction)) or captured(plate, place, direction)
            found.streams[place, direction] = seen
            result = read(stream, seen, connection.protocol)
            for n in result.good:
                _sight(found, plate, place, direction, stream.frames[n])
            found.faults += [FaultSeen(place, direction, fault) for fault in result.faults]
    found.messages.sort(key=lambda each: each.item)
    return found


def _sight(found: Seen, plate: Plate, place: int, direction: int, frame: Frame) -> None:
    item = int(found.streams[place, direction].completed[frame.stop - 1])
    protocol = plate.mould.connections[place].protocol
    size = frame.stop - frame.start
    found.messages.append(
        Sighting(place, None, protocol, direction, frame.means, size, frame, item)
    )
    if frame.inner is not None and frame.means.tunnel is not None:
        tunnel = tunnel_cell(plate, frame.means.tunnel)
        size -= _TUNNEL_HEAD
        found.messages.append(
            Sighting(place, tunnel, "tny", direction, frame.inner, size, frame, item)
        )


def tunnel_cell(plate: Plate, tunnel: tuple[int, int]) -> Tunnel:
    """The id of a tunnel."""
    numbers = plate.mould.numbers
    return Tunnel(*(numbers.place("i64le", each) for each in tunnel))


def id_cell(plate: Plate, protocol: str, number: int | None) -> Cell:
    """The id of a message."""
    form = _FORMS.get(protocol)
    if number is None or form is None:
        return number
    return Id(form, plate.mould.numbers.place(form, number))


def text_cell(plate: Plate, text: str | None) -> Cell:
    """An id that is a text."""
    return None if text is None else Id(*plate.mould.numbers.used[text.encode()])

"""What a correct reader finds in the packets of a scene: messages in order of time, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..packets.numbers import TUNNEL_FORM
from ..packets.packet_template import PacketTemplate
from ..scenes.provider import Frame, MessageInfo, scenes_of
from .rows import Cell, Conn, Id, Tunnel
from .streams import CapturedStream, StreamFault, captured_stream, read

__all__ = [
    "FaultRead",
    "ReadMessage",
    "SceneRead",
    "id_cell",
    "read_scene",
    "text_cell",
    "tunnel_cell",
]


@dataclass(slots=True)
class ReadMessage:
    """A message of a connection, or of a tunnel on it."""

    connection: int
    """Index of the connection that carried it."""
    tunnel: Tunnel | None
    protocol: str
    direction: int
    info: MessageInfo
    size: int
    frame: Frame
    item: int
    """The packet that completed it."""

    @property
    def where(self) -> Conn | Tunnel:
        """The connection or tunnel that it belongs to."""
        return Conn(self.connection) if self.tunnel is None else self.tunnel


@dataclass(slots=True)
class FaultRead:
    """A fault in a stream."""

    connection: int
    direction: int
    fault: StreamFault


@dataclass(slots=True)
class SceneRead:
    """Everything that a reader finds in the streams of a scene."""

    messages: list[ReadMessage] = field(default_factory=list)
    faults: list[FaultRead] = field(default_factory=list)
    streams: dict[tuple[int, int], CapturedStream] = field(default_factory=dict)


def read_scene(
    packets: PacketTemplate, altered: Mapping[tuple[int, int], CapturedStream] | None = None
) -> SceneRead:
    """Return all messages, in the order in which they were complete.

    `altered` are the streams, by connection and direction, whose capture differs from the template.
    """
    found = SceneRead()
    for place, connection in enumerate(packets.template.connections):
        for direction, stream in enumerate(connection.streams):
            captured = (altered or {}).get((place, direction))
            captured = captured or captured_stream(packets, place, direction)
            found.streams[place, direction] = captured
            result = read(stream, captured, has_magic=connection.scenes.has_magic)
            for n in result.good:
                _add_message(found, packets, place, direction, stream.frames[n])
            found.faults += [FaultRead(place, direction, fault) for fault in result.faults]
    found.messages.sort(key=lambda each: each.item)
    return found


def _add_message(
    found: SceneRead, packets: PacketTemplate, place: int, direction: int, frame: Frame
) -> None:
    item = int(found.streams[place, direction].completed[frame.stop - 1])
    protocol = packets.template.connections[place].protocol
    size = frame.stop - frame.start
    found.messages.append(
        ReadMessage(place, None, protocol, direction, frame.info, size, frame, item)
    )
    if frame.inner is not None and frame.info.tunnel is not None:
        tunnel = tunnel_cell(packets, frame.info.tunnel)
        protocol, info, size = frame.inner
        found.messages.append(
            ReadMessage(place, tunnel, protocol, direction, info, size, frame, item)
        )


def tunnel_cell(packets: PacketTemplate, tunnel: tuple[int, int]) -> Tunnel:
    """Return the cell of a tunnel's id."""
    numbers = packets.template.numbers
    return Tunnel(*(numbers.place(TUNNEL_FORM, each) for each in tunnel))


def id_cell(packets: PacketTemplate, protocol: str, number: int | None) -> Cell:
    """Return the cell of a message id."""
    form = scenes_of(protocol).id_form
    if number is None or form is None:
        return number
    return Id(form, packets.template.numbers.place(form, number))


def text_cell(packets: PacketTemplate, text: str | None) -> Cell:
    """Return the cell of an id that is text; one that is not out of the block is a constant."""
    found = None if text is None else packets.template.numbers.used.get(text.encode())
    return text if found is None else Id(*found)

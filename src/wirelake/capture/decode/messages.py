"""`MessageRows`: rows of `messages` from frames: the message's columns, and its time and position.

A frame of a gateway's link with a message in a tunnel has two rows: its own, and that of the
message, whose connection is the tunnel. Offset and size of the second row are those of the message
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wirelake.protocols import registry
from wirelake.records.message import Describer
from wirelake.records.tunnels import tunnel_connection
from wirelake.wire.protocol import Protocol
from wirelake.wire.walk import offset_in_frame

from ..format.items import Direction
from .decryption import Decrypted
from .protocol_selector import ProtocolChooser
from .streams import Frame

__all__ = ["MessageRows"]


class MessageRows:
    """Makes the rows of messages of any protocol."""

    def __init__(self, chooser: ProtocolChooser, files: list[str], *, reveal: bool = False):
        self._chooser = chooser
        self._files = files
        self._reveal = reveal
        self._describers: dict[tuple[str, str], Describer] = {}

    def describer(self, protocol: Protocol, dialect: str | None = None) -> Describer:
        """Return the describer of a protocol."""
        name = self._chooser.dialect(protocol) if dialect is None else dialect
        # A describer prepares the meaning of a protocol: one for each, not one for each message.
        key = (protocol.name, name)
        if key not in self._describers:
            self._describers[key] = Describer(protocol, name, reveal=self._reveal)
        return self._describers[key]

    def rows(
        self,
        protocol: Protocol,
        frame: Frame,
        decrypted: Decrypted,
        connection: int,
        direction: Direction,
    ) -> Iterator[dict[str, Any]]:
        """Yield the row of a frame and, for a link, the row of the message in its tunnel."""
        describer = self.describer(protocol)
        message = frame.message if decrypted.message is None else decrypted.message
        columns = describer(message, decrypted.parts, body=decrypted.body, sealed=decrypted.sealed)
        yield self._row(protocol, frame, 0, columns, connection, direction, None)
        carrier = describer.carrier(frame.message)
        if carrier is None:
            return
        tunnels = protocol.meaning.tunnels
        assert tunnels is not None
        carried = registry.find(tunnels.protocol)
        message = getattr(carrier, tunnels.message)
        columns = self.describer(carried, describer.dialect)(None, {tunnels.message: message})
        number = tunnel_connection(
            getattr(carrier, tunnels.instance_id), getattr(carrier, tunnels.tunnel_id)
        )
        # The inner message begins at a fixed offset in the frame, so its position in the file is
        # known without tracing.
        start = offset_in_frame(protocol, describer.dialect, tunnels.inner)
        yield self._row(carried, frame, start, columns, number, direction, connection)

    def _row(
        self,
        protocol: Protocol,
        frame: Frame,
        start: int,
        columns: dict[str, Any],
        connection: int,
        direction: Direction,
        link: int | None,
    ) -> dict[str, Any]:
        place = frame.place(start)
        return {
            **columns,
            "ts_ns": frame.ts_ns,
            "first_ns": place.ts_ns,
            "connection": connection,
            "direction": direction,
            "protocol": protocol.name,
            "size_bytes": len(frame.raw) - start,
            "tunnel_link": link,
            "file": self._files[place.file],
            "offset": place.offset,
        }

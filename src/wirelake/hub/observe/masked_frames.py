"""Rows of `messages` together with the bytes of their frames, secrets masked.

Secret fields are replaced by zeros (`wirelake.capture.record.masking`) only when somebody asks for
the bytes: most watchers do not. A message in a tunnel has no frame of its own. A sign-on has no
bytes at all, nor has the link packet that carries one: its body is free-form, so the masker cannot
know where the token is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wirelake.capture.decode.messages import MessageRows
from wirelake.capture.record.masking import Masker
from wirelake.protocols import registry

if TYPE_CHECKING:
    from wirelake.capture.decode.decryption import Opened
    from wirelake.capture.decode.protocol_selector import ProtocolChooser
    from wirelake.capture.decode.streams import Frame
    from wirelake.capture.format.items import Direction
    from wirelake.wire.protocol import Protocol

__all__ = ["FramedRows", "MaskedFrame", "signs_on"]


class MaskedFrame:
    """The frame of a message."""

    __slots__ = ("_frame", "_masker", "dialect")

    def __init__(self, frame: Frame, masker: Masker, dialect: str):
        self._frame = frame
        self._masker = masker
        self.dialect = dialect
        """The dialect the frame is encoded in."""

    def masked(self) -> bytes:
        """Return the bytes, with zeros in place of secret fields."""
        return self._masker(self._frame.message, self._frame.raw)


class FramedRows(MessageRows):
    """Rows of `messages` with their frame, as `frame`."""

    def __init__(self, chooser: ProtocolChooser, files: list[str]):
        super().__init__(chooser, files)
        self._maskers: dict[tuple[str, Direction], Masker] = {}

    def rows(
        self,
        protocol: Protocol,
        frame: Frame,
        opened: Opened,
        connection: int,
        direction: Direction,
    ) -> Iterator[dict[str, Any]]:
        """Yield the row of a frame and, for a link, that of the message in its tunnel."""
        own, *carried = super().rows(protocol, frame, opened, connection, direction)
        if not any(map(signs_on, (own, *carried))):
            dialect = self.describer(protocol).dialect
            own["frame"] = MaskedFrame(frame, self._masker(protocol, dialect, direction), dialect)
        yield own
        yield from carried

    def _masker(self, protocol: Protocol, dialect: str, direction: Direction) -> Masker:
        """Return the masker of a protocol; one `FramedRows` is for one dialect."""
        key = (protocol.name, direction)
        if key not in self._maskers:
            self._maskers[key] = Masker(protocol, dialect, direction, content=False)
        return self._maskers[key]


def signs_on(row: Mapping[str, Any]) -> bool:
    """Return whether a message is a sign-on with credentials."""
    sign_on = registry.find(row["protocol"]).meaning.sign_on
    return row["target"] in sign_on.targets

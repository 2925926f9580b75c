"""Messages that are watched, together with the frames that they came in.

Bytes are shown masked (`wirelake.capture.record.masking`): secret fields are zeros. A message from
a tunnel has no frame of its own. A sign-on shows no bytes at all, nor does the link packet that
carries one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wirelake.capture.decode.messages import MessageRows
from wirelake.capture.record.masking import Masker
from wirelake.protocols import registry

if TYPE_CHECKING:
    from wirelake.capture.decode.decryption import Opened
    from wirelake.capture.decode.protocol_selector import Chooser
    from wirelake.capture.decode.streams import Frame
    from wirelake.capture.format.items import Direction
    from wirelake.wire.protocol import Protocol

__all__ = ["FramedRows", "SeenFrame", "signs_on"]


class SeenFrame:
    """The bytes of a message."""

    __slots__ = ("_frame", "_masker", "dialect")

    def __init__(self, frame: Frame, masker: Masker, dialect: str):
        self._frame = frame
        self._masker = masker
        self.dialect = dialect
        """The dialect in which they are to be read."""

    def masked(self) -> bytes:
        """The bytes, zeros where something is secret."""
        return self._masker(self._frame.message, self._frame.raw)


class FramedRows(MessageRows):
    """Rows of `messages` that have their frame with them, as `frame`."""

    def __init__(self, chooser: Chooser, files: list[str]):
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
        """The row of a frame, and that of the message which it carries for a tunnel."""
        own, *carried = super().rows(protocol, frame, opened, connection, direction)
        if not any(map(signs_on, (own, *carried))):
            dialect = self.describer(protocol).dialect
            own["frame"] = SeenFrame(frame, self._masker(protocol, dialect, direction), dialect)
        yield own
        yield from carried

    def _masker(self, protocol: Protocol, dialect: str, direction: Direction) -> Masker:
        """What hides secrets; a set of rows is for one dialect."""
        key = (protocol.name, direction)
        if key not in self._maskers:
            self._maskers[key] = Masker(protocol, dialect, direction, content=False)
        return self._maskers[key]


def signs_on(row: Mapping[str, Any]) -> bool:
    """Whether a message says who somebody is, and proves it."""
    sign_on = registry.find(row["protocol"]).meaning.sign_on
    return row["target"] in sign_on.targets

"""Messages that are watched, together with the frames that they came in.

Whoever looks at bytes gets them masked (`wirelake.capture.masking`): what is secret is zeros. A
message that came through a tunnel has no frame of its own, and one that signs on shows no bytes at
all, nor does the packet of the link that carries it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from wirelake.capture.masking import Masker
from wirelake.capture.messages import MessageRows

if TYPE_CHECKING:
    from wirelake.capture.choice import Chooser
    from wirelake.capture.items import Direction
    from wirelake.capture.opening import Opened
    from wirelake.capture.streams import Frame
    from wirelake.wire.protocol import Protocol

__all__ = ["FramedRows", "SeenFrame", "signs_on"]

_SIGNING_ON: Final = {"esnp": "hub/auth", "tny": "10", "magline": "10"}
"""Calls whose arguments are secret, by protocol: their target."""


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
    target: str | None = row["target"]
    return target is not None and target == _SIGNING_ON.get(row["protocol"])

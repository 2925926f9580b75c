"""The reference's reader of a stream with faults, such that it can be saved and go on later."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from wirelake.capture.decode.framing import Framing
from wirelake.capture.decode.streams import FrameReader

__all__ = ["Reader"]

_KEPT: Final = tuple(name for name in FrameReader.__slots__ if name != "_framing")


class Reader(FrameReader):
    """A reader that can be pickled; what it reads frames with is given to it again afterwards."""

    __slots__ = ()

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _KEPT)

    def __setstate__(self, kept: tuple[Any, ...]) -> None:
        for name, value in zip(_KEPT, kept, strict=True):
            setattr(self, name, value)

    def go_on(self, framing: Framing, files: Mapping[int, int]) -> None:
        """Read with this; files have other numbers now."""
        self._framing = framing
        self._pieces = deque(each._replace(file=files[each.file]) for each in self._pieces)
        if self._fault is not None:
            place = self._fault.place
            self._fault.place = place._replace(file=files[place.file])

    def files(self) -> set[int]:
        """The numbers of the files that it refers to."""
        found = {piece.file for piece in self._pieces}
        return found if self._fault is None else found | {self._fault.place.file}

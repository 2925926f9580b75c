"""Messages one after the other in a buffer, the bad ones among them.

A message that breaks a rule does not hide those behind it as long as its frame can be told; where
it cannot, the rest of the buffer is lost and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wirelake.wire import model as m
from wirelake.wire.errors import DecodeError, NeedMore

if TYPE_CHECKING:
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol

__all__ = ["Found", "messages_in"]


@dataclass(frozen=True, slots=True)
class Found:
    """A message, or what is wrong with it, and its bytes."""

    number: int
    """Counts from 1."""
    start: int
    stop: int
    message: Any = None
    error: DecodeError | NeedMore | None = None
    lost: int = 0
    """Bytes at the end of the buffer that could not be read because of this error."""
    broken: tuple[str, ...] = ()
    """Rows that the message carries although they break a rule, each with what is wrong."""

    def problems(self) -> list[str]:
        """What is wrong with it, a line each."""
        where = f"message {self.number} at byte {self.start}"
        if self.error is None:
            return [f"{where}: {text}" for text in self.broken]
        if isinstance(self.error, NeedMore):
            plural = "s" if self.lost != 1 else ""
            return [f"{where}: incomplete, {self.lost} byte{plural} there, {self.error}"]
        lost = f"; the last {self.lost} bytes are not read" if self.lost else ""
        return [f"{where}: {self.error}{lost}"]


def _broken_rows(layout: m.Layout, message: Any) -> Iterator[str]:
    if layout.transparent:
        return
    for part in layout.parts:
        if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
            rows: tuple[Any, ...] = getattr(message, part.name)
            for index, row in enumerate(rows):
                if isinstance(row, part.type.broken):
                    why = DecodeError(row.code, row.field, row.offset)  # type: ignore[attr-defined]
                    yield f"row {index}: {why}"


def messages_in(
    protocol: Protocol,
    data: bytes,
    *,
    direction: Direction | None = None,
    dialect: str | None = None,
) -> Iterator[Found]:
    """Every message of a buffer, in order."""
    layout = protocol.model(dialect)
    start, number = 0, 0
    while start < len(data):
        number += 1
        try:
            message, stop = protocol.decode(data, start, direction=direction, dialect=dialect)
            broken = tuple(_broken_rows(layout, message))
            yield Found(number, start, stop, message, broken=broken)
        except NeedMore as error:
            yield Found(number, start, len(data), error=error, lost=len(data) - start)
            return
        except DecodeError as error:
            try:
                stop = protocol.scan(data, start, dialect=dialect)
            except (DecodeError, NeedMore):
                yield Found(number, start, len(data), error=error, lost=len(data) - start)
                return
            yield Found(number, start, stop, error=error)
        start = stop

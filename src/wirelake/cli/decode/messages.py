"""The messages of a buffer, valid and invalid.

An invalid message does not hide the next one as long as its frame length is known. Otherwise the
rest of the buffer is lost, and the error says how many bytes that is.
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

__all__ = ["DecodedMessage", "messages_in"]


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A message, or the error that it failed with, and where its bytes are."""

    number: int
    """Counts from 1."""
    start: int
    stop: int
    message: Any = None
    error: DecodeError | NeedMore | None = None
    lost: int = 0
    """Bytes up to the end of the buffer that this error made unreadable."""
    broken: tuple[str, ...] = ()
    """The invalid rows of a valid message, each with its error."""

    def problems(self) -> list[str]:
        """Return its errors, one line each."""
        where = f"message {self.number} at byte {self.start}"
        if self.error is None:
            return [f"{where}: {text}" for text in self.broken]
        if isinstance(self.error, NeedMore):
            present = f"{self.lost} byte{'s' * (self.lost != 1)} present"
            return [f"{where}: incomplete, {present}, {self.error}"]
        lost = f"; the last {self.lost} bytes are skipped" if self.lost else ""
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
) -> Iterator[DecodedMessage]:
    """Yield every message of a buffer, in order."""
    layout = protocol.model(dialect)
    start, number = 0, 0
    while start < len(data):
        number += 1
        try:
            message, stop = protocol.decode(data, start, direction=direction, dialect=dialect)
            broken = tuple(_broken_rows(layout, message))
            yield DecodedMessage(number, start, stop, message, broken=broken)
        except NeedMore as error:
            yield DecodedMessage(number, start, len(data), error=error, lost=len(data) - start)
            return
        except DecodeError as error:
            try:
                stop = protocol.scan(data, start, dialect=dialect)
            except (DecodeError, NeedMore):
                yield DecodedMessage(number, start, len(data), error=error, lost=len(data) - start)
                return
            yield DecodedMessage(number, start, stop, error=error)
        start = stop

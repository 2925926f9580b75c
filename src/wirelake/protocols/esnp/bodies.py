"""Bodies that a peer keeps sending: the same rows each time, but for one value.

Who publishes prices says the same topic in every request, and another content. Such a body is
learned once, as the bytes before and after the row that differs; of the next ones only that row is
looked at. A body that is not like it goes through the decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .layout import (
    Data,
    Row,
    VarType,
)
from .templates import (
    END,
    Mould,
    bytes_of_rows,
)

__all__ = ["Body", "Quick", "learn_body"]

_KINDS: Final = frozenset({VarType.LEN_STRING, VarType.LEN_BYTES})


class Body:
    """A body with one value that differs."""

    __slots__ = ("_after", "_before", "_mould", "_text")

    def __init__(self, before: bytes, mould: Mould, after: bytes):
        self._before = before
        self._mould = mould
        self._after = after
        self._text = mould.kind == VarType.LEN_STRING

    def find(self, buf: bytes, pos: int) -> tuple[bytes, int] | None:
        """The value of a body like this at `pos`, and where the message stops; None for others.

        A text that is not plain ASCII is left to the decoder, which knows what is no text at all.
        """
        before = self._before
        if not buf.startswith(before, pos):
            return None
        found = self._mould.value_at(buf, pos + len(before))
        if found is None:
            return None
        start, stop = found
        if not buf.startswith(self._after, stop):
            return None
        value = buf[start:stop]
        if self._text and not value.isascii():
            return None
        return value, stop + len(self._after)

    def expect(self, size: int) -> None:
        """Values of so many bytes come too."""
        self._mould.beginning(size)


Quick: TypeAlias = tuple[Body, Callable[[bytes, bytes], Any]]
"""A body, and what to do with its value and the id of the request: as `AtOnce`, which see."""


def learn_body(rows: tuple[Row, ...], name: str) -> Body | None:
    """The body of these rows, in which the DATA row of that name differs each time."""
    at = next((k for k, row in enumerate(rows) if type(row) is Data and row.name == name), None)
    if at is None:
        return None
    row = rows[at]
    assert isinstance(row, Data)
    value = row.value.value
    if row.value.type not in _KINDS or not isinstance(value, str | bytes):
        return None
    mould = _mould(name, VarType(row.value.type))
    mould.beginning(len(value.encode() if isinstance(value, str) else value))
    after = bytes_of_rows(*rows[at + 1 :]) + END
    return Body(bytes_of_rows(*rows[:at]), mould, after)


_moulds: dict[tuple[str, VarType], Mould] = {}
_MOST: Final = 64
"""Moulds that all connections share."""


def _mould(name: str, kind: VarType) -> Mould:
    found = _moulds.get((name, kind))
    if found is None:
        found = Mould(name, kind)
        if len(_moulds) < _MOST:
            _moulds[name, kind] = found
    return found

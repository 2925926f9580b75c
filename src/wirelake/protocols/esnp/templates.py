"""DATA rows that are written again and again: what stays the same is encoded once.

A row with a text is its beginning, which depends on the name and on the length alone, and the text
itself. The codec makes the beginnings, from rows with a text of that length; they are kept.

    ID = Mould("id", VarType.LEN_STRING)
    message = HEAD + ID.row(b"m0000000157cfb8b") + END
"""

from __future__ import annotations

from typing import Final

from .codec_seed import encode_message
from .layout import (
    Data,
    Message,
    Row,
    Var,
    VarType,
)

__all__ = ["END", "Mould", "bytes_of_rows"]

END: Final = encode_message(Message())
"""The row that ends every message."""
_ROW_HEAD: Final = len(END)
"""Bytes that say the type of a row and how long it is: END has nothing else."""
_KEPT: Final = 4_096
"""Lengths whose beginnings are kept for a name."""


def bytes_of_rows(*rows: Row) -> bytes:
    """Rows without the end of their message."""
    return encode_message(Message(rows=rows)).removesuffix(END)


class Mould:
    """DATA rows of one name, with texts or bytes."""

    __slots__ = ("_beginnings", "_name", "_sizes", "kind")

    def __init__(self, name: str, kind: VarType):
        self.kind = kind
        self._name = name
        self._beginnings: dict[int, bytes] = {}
        self._sizes: dict[bytes, int] = {}

    def beginning(self, size: int) -> bytes:
        """Everything before a value of so many bytes."""
        found = self._beginnings.get(size)
        if found is None:
            sample: str | bytes = b" " * size
            if self.kind == VarType.LEN_STRING:
                sample = " " * size
            row = bytes_of_rows(Data(name=self._name, value=Var(type=self.kind, value=sample)))
            found = row[: len(row) - size]
            if len(self._beginnings) < _KEPT:
                self._beginnings[size] = found
                self._sizes[found[:_ROW_HEAD]] = size
        return found

    def value_at(self, buf: bytes, pos: int) -> tuple[int, int] | None:
        """Where the value begins and stops of a row of this kind at `pos`.

        None when there is another row, or one of a length that `beginning` was never asked for.
        The row may end behind the bytes that are there.
        """
        size = self._sizes.get(buf[pos : pos + _ROW_HEAD])
        if size is None:
            return None
        beginning = self._beginnings[size]
        if not buf.startswith(beginning, pos):
            return None
        start = pos + len(beginning)
        return start, start + size

    def row(self, value: bytes) -> bytes:
        """The row; a text as its UTF-8."""
        return self.beginning(len(value)) + value

"""DATA rows that are written again and again: what stays the same is encoded once.

A row with a text is its beginning, which depends on the name and on the length alone, and the text
itself. The codec makes the beginnings, from rows with a text of that length; they are kept.

    ID = Mould("id", VarType.LEN_STRING)
    message = HEAD + ID.row(b"m0000000157cfb8b") + END
"""

from __future__ import annotations

from typing import Final

from .codec_seed import encode_message
from .layout import Data, Message, Row, Var, VarType

__all__ = ["END", "Mould", "bytes_of_rows"]

END: Final = encode_message(Message())
"""The row that ends every message."""
_KEPT: Final = 4_096
"""Lengths whose beginnings are kept for a name."""


def bytes_of_rows(*rows: Row) -> bytes:
    """Rows without the end of their message."""
    return encode_message(Message(rows=rows)).removesuffix(END)


class Mould:
    """DATA rows of one name, with texts or bytes."""

    __slots__ = ("_beginnings", "_kind", "_name")

    def __init__(self, name: str, kind: VarType):
        self._name = name
        self._kind = kind
        self._beginnings: dict[int, bytes] = {}

    def beginning(self, size: int) -> bytes:
        """Everything before a value of so many bytes."""
        found = self._beginnings.get(size)
        if found is None:
            sample: str | bytes = b" " * size
            if self._kind == VarType.LEN_STRING:
                sample = " " * size
            row = bytes_of_rows(Data(name=self._name, value=Var(type=self._kind, value=sample)))
            found = row[: len(row) - size]
            if len(self._beginnings) < _KEPT:
                self._beginnings[size] = found
        return found

    def row(self, value: bytes) -> bytes:
        """The row; a text as its UTF-8."""
        return self.beginning(len(value)) + value

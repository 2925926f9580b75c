"""Single values read directly from bytes, independent of the generator.

`Reader` walks over a slice of bytes and reads what the types of `model.py` describe. It is slow and
plain on purpose: the spans view needs the places of all things, and a second reader that shares no
code with the generated codec shows where the two disagree.

A slice is *closed* when all its bytes are known (the inside of a frame): running out of them is an
error. It is *open* when more may arrive (the stream itself): running out of them is `NeedMore`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .. import model as m
from ..errors import DecodeError, NeedMore
from ..runtime import int64_of

__all__ = [
    "Reader",
    "from_var_rows",
    "readable",
    "to_var_rows",
]


MAX_VARINT_BYTES = 10
"""No varint is longer: 64 bits in groups of seven."""


class Reader:
    """A position in a slice of bytes; `where` names the field that is being read."""

    __slots__ = ("data", "open", "pos", "stop", "where")

    def __init__(self, data: bytes, start: int, stop: int, *, is_open: bool = False):
        self.data = data
        self.pos = start
        self.stop = stop
        self.open = is_open
        self.where = ""

    @property
    def left(self) -> int:
        """How many bytes of the slice have not been read."""
        return self.stop - self.pos

    def part(self, stop: int) -> Reader:
        """Return a closed reader of the bytes from here to `stop`."""
        reader = Reader(self.data, self.pos, stop)
        reader.where = self.where
        return reader

    def error(self, code: str, at: int | None = None, detail: str = "") -> DecodeError:
        """Return an error in the present field."""
        return DecodeError(code, self.where, self.pos if at is None else at, detail)

    def need(self, size: int, code: str = "short") -> None:
        """Raise unless `size` bytes are left."""
        if self.left < size:
            if self.open:
                raise NeedMore(size - self.left)
            raise self.error(code)

    def take(self, size: int, code: str = "short") -> bytes:
        """Return the next `size` bytes."""
        self.need(size, code)
        self.pos += size
        return self.data[self.pos - size : self.pos]

    # -- numbers -----------------------------------------------------------------------------

    def integer(self, kind: m.Int | m.Varint) -> int:
        """Return a number of either kind."""
        return self.varint(kind) if isinstance(kind, m.Varint) else self.fixed_int(kind)

    def fixed_int(self, kind: m.Int) -> int:
        """Return a number of fixed size."""
        return int.from_bytes(self.take(kind.size), kind.order, signed=kind.signed)

    def raw_varint(self, *, loose: bool = False) -> int:
        """Return the bits of a LEB128 number, 64 at most."""
        start, value = self.pos, 0
        for index in range(MAX_VARINT_BYTES):
            if self.pos >= self.stop:
                if self.open:
                    raise NeedMore(1)
                raise self.error("varint_truncated", start)
            byte = self.data[self.pos]
            self.pos += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value >> 64 and not loose:
                    raise self.error("varint_overflow", start)
                return value & 0xFFFF_FFFF_FFFF_FFFF
        raise self.error("varint_overflow", start)

    def varint(self, kind: m.Varint) -> int:
        """Return a LEB128 number, in its width and coding."""
        start = self.pos
        value = self.raw_varint(loose=kind.loose)
        if value >> kind.bits:
            if not kind.loose:
                raise self.error("int_range", start)
            value &= (1 << kind.bits) - 1
        if kind.coding == "zigzag":
            return (value >> 1) ^ -(value & 1)
        if kind.coding == "twos" and value >> (kind.bits - 1):
            return value - (1 << kind.bits)
        return value

    def float(self, kind: m.Float) -> float:
        """Return an IEEE 754 number."""
        raw = self.take(kind.size)
        order: Literal["<", ">"] = "<" if kind.order == "little" else ">"
        if kind.size == 8:
            return float(struct.unpack(f"{order}d", raw)[0])
        value = float(struct.unpack(f"{order}f", raw)[0])
        return _wide_nan(int.from_bytes(raw, kind.order)) if math.isnan(value) else value

    def boolean(self, kind: m.Bool) -> bool:
        """Read a byte as a boolean."""
        start = self.pos
        byte = self.take(1)[0]
        if kind.strict and byte > 1:
            raise self.error("bad_bool", start)
        return byte != 0

    # -- lengths and what they measure -------------------------------------------------------

    def length(self, kind: m.Int | m.Varint, least: int = 1) -> int:
        """Read a length, or a count of items of at least `least` bytes, and check it.

        Things that may take no bytes are counted as one byte each: otherwise a count alone could
        ask for any amount of memory.
        """
        count = self.integer(kind)
        if count < 0:
            raise self.error("negative_length")
        size = count * max(least, 1)
        if size > self.left:
            if self.open:
                raise NeedMore(size - self.left)
            raise self.error("length_overrun")
        return count

    def text(self, raw: bytes, mode: Literal["strict", "loose"], at: int) -> str:
        """Read UTF-8; invalid bytes are refused, or kept as surrogate escapes."""
        try:
            return raw.decode("utf-8", "strict" if mode == "strict" else "surrogateescape")
        except UnicodeDecodeError as error:
            raise self.error("invalid_utf8", at + error.start) from error


def _wide_nan(bits: int) -> float:
    """Return the double with the sign and payload of a 32-bit NaN; a conversion makes it quiet."""
    sign, payload = bits >> 31, bits & (1 << 23) - 1
    wide = (sign << 11 | 0x7FF) << 52 | payload << 29
    return float(struct.unpack(">d", wide.to_bytes(8, "big"))[0])


# -- self-describing values as a flat list of nodes, and back, without loss ------------------------


_SURROGATE = re.compile("[\ud800-\udfff]")
_MASK64 = (1 << 64) - 1
_EMPTY: dict[str, Any] = {"int": None, "float": None, "text": None, "bytes": None}


def readable(text: str) -> str:
    """Return text that UTF-8 can encode; escaped invalid bytes become U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


# -- to rows ---------------------------------------------------------------------------------


def to_var_rows(kind: m.Dynamic, value: Any) -> list[dict[str, Any]]:
    """Return the nodes of a value in preorder."""
    types = {k.tag: k.type for k in kind.kinds}
    rows: list[dict[str, Any]] = []
    # A stack instead of recursion: items are pushed in reverse, so that they come out in preorder.
    waiting: list[tuple[int, str | None, Any]] = [(-1, None, value)]
    while waiting:
        parent, name, node = waiting.pop()
        if node.type not in types:
            raise ValueError(f"{kind.name} has no type {node.type}")
        inner = types[node.type]
        here = len(rows)
        head = {"parent": parent, "name": name if name is None else readable(name)}
        rows.append({**head, "type": int(node.type), **_EMPTY, **_content(inner, node.value)})
        if isinstance(inner, m.Pairs):
            waiting += [(here, key, item) for key, item in reversed(node.value)]
        elif isinstance(inner, m.Items):
            waiting += [(here, None, item) for item in reversed(node.value)]
    return rows


def _content(kind: object, value: Any) -> dict[str, Any]:
    match kind:
        case m.Int() | m.Varint() | m.Bool():
            return {"int": int64_of(int(value))}
        case m.Float():
            bits = int64_of(_bits(value)) if math.isnan(value) else None
            return {"float": value, "int": bits}
        case m.Blob(text=None):
            return {"bytes": value}
        case m.Blob():
            text = readable(value)
            kept = None if text == value else value.encode("utf-8", "surrogateescape")
            return {"text": text, "bytes": kept}
        case _:
            return {}


def _bits(number: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


# -- from rows -------------------------------------------------------------------------------


def from_var_rows(kind: m.Dynamic, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return the value that `to_var_rows` made rows of; ValueError when they are not such rows."""
    types = {k.tag: k.type for k in kind.kinds}
    children: list[list[tuple[str | None, Any]]] = [[] for _ in rows]
    # Backwards: a node comes after its parent, so all that it contains is ready before it is.
    for place in range(len(rows) - 1, -1, -1):
        row = rows[place]
        parent = row["parent"]
        if row["type"] not in types:
            raise ValueError(f"node {place}: {kind.name} has no type {row['type']}")
        inner = types[row["type"]]
        if children[place] and not isinstance(inner, m.Pairs | m.Items):
            raise ValueError(f"node {place} has children, but is not a container")
        value = _restored(inner, row, children[place][::-1])
        node = kind.cls(type=row["type"], value=value)
        if place == 0 and parent == -1:
            return node
        if not 0 <= parent < place:
            raise ValueError(f"node {place} cannot be in node {parent}")
        children[parent].append((row["name"], node))
    raise ValueError("the first node must exist and have parent -1")


def _restored(kind: object, row: Mapping[str, Any], items: list[tuple[str | None, Any]]) -> Any:
    match kind:
        case m.Bool():
            return bool(row["int"])
        case m.Int() | m.Varint():
            wide = kind.size == 8 if isinstance(kind, m.Int) else kind.bits == 64
            return row["int"] & _MASK64 if wide and not kind.signed else row["int"]
        case m.Float():
            if row["int"] is None:
                return row["float"]
            return struct.unpack("<d", struct.pack("<q", row["int"]))[0]
        case m.Blob(text=None):
            return row["bytes"]
        case m.Blob():
            if row["bytes"] is None:
                return row["text"]
            return row["bytes"].decode("utf-8", "surrogateescape")
        case m.Pairs():
            return tuple(items)
        case m.Items():
            return tuple(item for _, item in items)
        case _:
            return None

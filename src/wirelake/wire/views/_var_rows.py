"""A self-describing value as a flat list of nodes, and back, without losing a bit.

What the columns of a node mean is told in `arrow.py`. Needs no Arrow: rows are plain dicts.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from .. import model as m

__all__ = ["from_var_rows", "readable", "to_var_rows"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_MASK64 = (1 << 64) - 1
_EMPTY: dict[str, Any] = {"int": None, "float": None, "text": None, "bytes": None}


def readable(text: str) -> str:
    """Text that has a UTF-8 form: what stood for an invalid byte becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


# -- to rows ---------------------------------------------------------------------------------


def to_var_rows(kind: m.Dynamic, value: Any) -> list[dict[str, Any]]:
    """Return the nodes of a value in preorder."""
    types = {k.tag: k.type for k in kind.kinds}
    rows: list[dict[str, Any]] = []
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
            return {"int": _signed(int(value))}
        case m.Float():
            bits = _signed(_bits(value)) if math.isnan(value) else None
            return {"float": value, "int": bits}
        case m.Blob(text=None):
            return {"bytes": value}
        case m.Blob():
            text = readable(value)
            kept = None if text == value else value.encode("utf-8", "surrogateescape")
            return {"text": text, "bytes": kept}
        case _:
            return {}


def _signed(number: int) -> int:
    """Return the int64 of the same 64 bits."""
    return number - (1 << 64) if number >> 63 == 1 else number


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
            raise ValueError(f"node {place} contains others, but is no container")
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

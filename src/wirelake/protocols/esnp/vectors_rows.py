"""Rows and `Var` values as test vectors write them, for `vectors.py`."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, Final

from ..expectation import VectorFailure
from . import layout
from .layout import (
    BrokenRow,
    OpaqueRow,
    Row,
    RowType,
    Var,
    VarType,
)
from .message import row_type

__all__ = [
    "DIALECTS",
    "NAMED_KINDS",
    "depth_of",
    "row_name",
    "row_spans",
    "row_view",
    "same_floats",
]

DIALECTS: Final = {"zigzag": "seed", "uvarint": "go"}
"""The dialect that a `container_count` stands for."""
NAMED_KINDS: Final = {"host": 40, "service": 30, "op": 20, "object": 10, "group": 50}
"""The kinds of address that a vector names."""


_VAR_NAMES: Final[dict[int, str]] = {
    VarType.NULL: "Null",
    VarType.BOOL: "Bool",
    VarType.INT: "Int",
    VarType.INT8: "Int8",
    VarType.INT16: "Int16",
    VarType.INT32: "Int32",
    VarType.INT64: "Int64",
    VarType.UINT: "UInt",
    VarType.UINT8: "UInt8",
    VarType.UINT16: "UInt16",
    VarType.UINT32: "UInt32",
    VarType.UINT64: "UInt64",
    VarType.FLOAT32: "Float32",
    VarType.FLOAT64: "Float64",
    VarType.LEN_BYTES: "LenBytes",
    VarType.MAP: "Map",
    VarType.LIST: "List",
    VarType.LEN_STRING: "LenString",
}
_CANCELLED: Final = (RowType.MESSAGE_KIND, RowType.TRACE, RowType.TRACE_RESP)
_KNOWN: Final = {int(member): member.name for member in RowType}
_FLOAT_FORMS: Final = {VarType.FLOAT32: ">f", VarType.FLOAT64: ">d"}


def row_name(number: int) -> str:
    """What vectors call a row type."""
    if number in _CANCELLED:
        return f"{RowType(number).name}(cancelled)"
    if number in _KNOWN:
        return _KNOWN[number]
    if number < 0x10:
        return "RESERVED"
    return "APP_DEFINE" if number >= 0x80 else "UNKNOWN"


def row_view(row: Row) -> dict[str, Any]:
    """A row as an object of a vector."""
    number = row_type(row)
    return {"row": row_name(number), "type": number, **_content(row)}


def _content(row: Row) -> dict[str, Any]:
    match row:
        case layout.SessionInfo() | layout.Header() | layout.Data():
            return {"name": row.name, "var": _var_view(row.value)}
        case layout.Address() | layout.SourceAddress():
            return {"kind": row.kind, "value": row.value}
        case layout.SeqNo():
            return {"seq": row.current, "max": row.maximum}
        case layout.XData():
            return {"id": row.id, "rest_hex": row.data.hex()}
        case layout.Payload() | OpaqueRow():
            return {"hex": row.data.hex()}
        case layout.Flag():
            return {"flag": row.value}
        case layout.Version():
            return {"value": [row.major, row.minor, row.branch, row.variant]}
        case BrokenRow():
            return {"hex": row.data.hex(), "broken": f"{row.code} in {row.field}"}
        case _:
            return {"value": row.value}


def _var_view(var: Var) -> dict[str, Any]:
    view: dict[str, Any] = {"t": var.type, "name": _VAR_NAMES[var.type]}
    value: Any = var.value
    match var.type:
        case VarType.LEN_BYTES:
            view["hex"] = value.hex()
        case VarType.MAP:
            view["v"] = [[key, _var_view(item)] for key, item in value]
        case VarType.LIST:
            view["v"] = [_var_view(item) for item in value]
        case VarType.FLOAT32 | VarType.FLOAT64:
            view["v"] = _float_key(var.type, value)
            view["bits"] = _bits(var.type, value)
        case _:
            view["v"] = value
    return view


def _bits(number: int, value: float) -> str:
    from .codec_seed import write_var

    return write_var(Var(type=number, value=value), 0, [0])[1:].hex()


def _float_key(number: int, value: float) -> str:
    """A float as text that is equal when its bits are; one text for all NaN."""
    if math.isnan(value):
        return "NaN"
    return struct.pack(_FLOAT_FORMS[VarType(number)], value).hex()


def same_floats(rows: Any, path: str) -> Any:
    """Expected rows with their floats, which are numbers or words, in the form of `_float_key`."""
    if isinstance(rows, list):
        return [same_floats(item, path) for item in rows]
    if not isinstance(rows, dict):
        return rows
    found = {key: same_floats(value, path) for key, value in rows.items()}
    if found.get("t") in (VarType.FLOAT32, VarType.FLOAT64) and "v" in found:
        try:
            found["v"] = _float_key(found["t"], float(found["v"]))
        except (TypeError, ValueError, OverflowError):
            raise VectorFailure(f"{path}: {found['v']!r} is not a float") from None
    return found


def depth_of(var: Var) -> int:
    """How many containers stand inside each other."""
    value: Any = var.value
    if var.type == VarType.LIST:
        return 1 + max((depth_of(item) for item in value), default=0)
    if var.type == VarType.MAP:
        return 1 + max((depth_of(item) for _, item in value), default=0)
    return 0


def row_spans(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(type, start of the row, stop) of every complete row, END rows included."""
    pos = 0
    while pos + 4 <= len(data):
        stop = pos + 4 + int.from_bytes(data[pos + 1 : pos + 4], "big")
        if stop > len(data):
            return
        yield data[pos], pos, stop
        pos = stop

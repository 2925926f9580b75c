"""Values of ESNP: the basic types by their names in the documents, and Python values as `Var`.

Rows and `Var` values are decoded by generated code. `BASIC` has the same encodings one at a time
(【基础数据编码说明】), for XDATA and PAYLOAD, whose content belongs to the application:

    BASIC["Int32"].encode(-3)              b"\\x05"
    BASIC["LenString"].decode(b"\\x04hi")   ("hi", 3)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError

from . import codec_seed
from .layout import Data, Header, Row, SessionInfo, Var, VarType

__all__ = [
    "ALIASES",
    "BASIC",
    "Basic",
    "data_rows",
    "value_of",
    "values_of",
    "var_of",
]


_VAR_NODES = 65_536

Reader = Callable[[bytes, int, int, str], tuple[Any, int]]
Writer = Callable[[Any, str], bytes]


class Basic(NamedTuple):
    """A basic type: its reader and its writer."""

    name: str
    bits: int
    """Its width; 0 for types without one."""
    read: Reader
    write: Writer

    def decode(self, data: bytes, start: int = 0) -> tuple[Any, int]:
        """Return the value at `start`, and where it stops. Raises DecodeError only."""
        return self.read(data, start, len(data), self.name)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises EncodeError only."""
        try:
            return self.write(value, self.name)
        except (AttributeError, TypeError, ValueError, struct.error) as error:
            raise EncodeError("bad_value", self.name, None, str(error)) from error


def _fixed(size: int, signed: bool) -> tuple[Reader, Writer]:
    def read(buf: bytes, pos: int, end: int, name: str) -> tuple[int, int]:
        if pos + size > end:
            raise DecodeError("short", name, pos, f"expected {size} bytes, found {end - pos}")
        return int.from_bytes(buf[pos : pos + size], "big", signed=signed), pos + size

    def write(value: int, name: str) -> bytes:
        return rt.put_int_of(value, size, signed, name)

    return read, write


def _float(size: int) -> tuple[Reader, Writer]:
    form = ">f" if size == 4 else ">d"

    def read(buf: bytes, pos: int, end: int, name: str) -> tuple[float, int]:
        if pos + size > end:
            raise DecodeError("short", name, pos, f"expected {size} bytes, found {end - pos}")
        value = struct.unpack_from(form, buf, pos)[0]
        if size == 4 and math.isnan(value):
            value = rt.nan32(buf, pos, "big")
        return value, pos + size

    def write(value: float, name: str) -> bytes:
        return rt.put_f32(value, "big", name) if size == 4 else struct.pack(">d", value)

    return read, write


def _read_bool(buf: bytes, pos: int, end: int, name: str) -> tuple[bool, int]:
    if pos >= end:
        raise DecodeError("short", name, pos, "expected 1 byte, found 0")
    return buf[pos] != 0, pos + 1


def _write_bool(value: bool, name: str) -> bytes:
    if not isinstance(value, bool):
        raise EncodeError("bad_value", name, None, "expected true or false")
    return b"\x01" if value else b"\x00"


def _read_bytes(buf: bytes, pos: int, end: int, _: str) -> tuple[bytes, int]:
    return buf[pos:end], end


def _write_bytes(value: bytes, _: str) -> bytes:
    return bytes(memoryview(value))


def _read_text(buf: bytes, pos: int, end: int, name: str) -> tuple[str, int]:
    try:
        return buf[pos:end].decode(), end
    except UnicodeDecodeError as error:
        raise rt.not_utf8(name, pos, error) from None


def _sized(read: Reader, write: Writer) -> tuple[Reader, Writer]:
    """Return the same content behind its length, which is an Int."""

    def read_sized(buf: bytes, pos: int, end: int, name: str) -> tuple[Any, int]:
        size, start = rt.zigzag32(buf, pos, end, name)
        if size < 0 or size > end - start:
            raise rt.overrun(name, start, size, end)
        return read(buf, start, start + size, name)

    def write_sized(value: Any, name: str) -> bytes:
        data = write(value, name)
        return rt.put_zigzag32(len(data), name) + data

    return read_sized, write_sized


def _read_var(buf: bytes, pos: int, end: int, _: str) -> tuple[Any, int]:
    return codec_seed.read_var(buf, pos, end, 0, [_VAR_NODES])


def _write_var(value: Any, _: str) -> bytes:
    return codec_seed.write_var(value, 0, [_VAR_NODES])


_TYPES: Final = (
    Basic("Bool", 8, _read_bool, _write_bool),
    Basic("Int8", 8, *_fixed(1, True)),
    Basic("UInt8", 8, *_fixed(1, False)),
    Basic("Int16", 16, rt.zigzag16, rt.put_zigzag16),
    Basic("Int32", 32, rt.zigzag32, rt.put_zigzag32),
    Basic("Int64", 64, rt.zigzag64, rt.put_zigzag64),
    Basic("UInt16", 16, rt.uvarint16, rt.put_unsigned16),
    Basic("UInt32", 32, rt.uvarint32, rt.put_unsigned32),
    Basic("UInt64", 64, rt.uvarint, rt.put_unsigned64),
    Basic("FixInt16", 16, *_fixed(2, True)),
    Basic("FixInt32", 32, *_fixed(4, True)),
    Basic("FixInt64", 64, *_fixed(8, True)),
    Basic("FixUInt16", 16, *_fixed(2, False)),
    Basic("FixUInt32", 32, *_fixed(4, False)),
    Basic("FixUInt64", 64, *_fixed(8, False)),
    Basic("Float32", 32, *_float(4)),
    Basic("Float64", 64, *_float(8)),
    Basic("Bytes", 0, _read_bytes, _write_bytes),
    Basic("String", 0, _read_text, rt.put_text),
    Basic("LenBytes", 0, *_sized(_read_bytes, _write_bytes)),
    Basic("LenString", 0, *_sized(_read_text, rt.put_text)),
    Basic("Var", 0, _read_var, _write_var),
)

ALIASES: Final[dict[str, str]] = {"Int": "Int32", "UInt": "UInt32", "Byte": "UInt8"}
"""Names that the documents define as another; seed 000 also writes Uint for UInt."""

BASIC: Final[dict[str, Basic]] = {
    **{basic.name: basic for basic in _TYPES},
    **{alias: next(b for b in _TYPES if b.name == name) for alias, name in ALIASES.items()},
}
"""The types by name, aliases included."""


# -- Python values as Var --------------------------------------------------------------------------


_MAP: Final = int(VarType.MAP)
_LIST: Final = int(VarType.LIST)
_INT32: Final = int(VarType.INT32)
_INT64: Final = int(VarType.INT64)
_UINT64: Final = int(VarType.UINT64)
_NESTED: Final = frozenset({_MAP, _LIST})
_SIMPLE: Final[dict[type, int]] = {
    bool: int(VarType.BOOL),
    float: int(VarType.FLOAT64),
    str: int(VarType.LEN_STRING),
    bytes: int(VarType.LEN_BYTES),
    type(None): int(VarType.NULL),
}
_DEPTH: Final = 64
"""The depth limit of the codec; deeper values are refused before recursion exhausts the stack."""


def var_of(value: object, depth: int = 0) -> Var:
    """Return a Python value as a Var. Raises EncodeError for unsupported types."""
    # Exact types first: one dict lookup serves nearly all values. Subclasses (enumerations) are
    # converted at the end, and `bool` must not be taken for an `int`.
    kind = type(value)
    if kind is int:
        return Var(type=_integer(value), value=value)  # type: ignore[arg-type]
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return Var(type=simple, value=value)
    if depth > _DEPTH:
        raise EncodeError("too_deep", "var", None)
    if isinstance(value, Mapping):
        return Var(type=_MAP, value=tuple([_pair(each, depth) for each in value.items()]))
    if isinstance(value, list | tuple | set | frozenset):
        return Var(type=_LIST, value=tuple([var_of(each, depth + 1) for each in value]))
    for base in (bool, int, float, str, bytes):
        if isinstance(value, base):  # an enumeration, or another class of its own
            return var_of(base(value))  # type: ignore[arg-type]
    raise EncodeError("bad_value", "var", None, f"{kind.__name__} has no Var")


def _pair(pair: tuple[object, object], depth: int) -> tuple[str, Var]:
    key, value = pair
    if not isinstance(key, str):
        raise EncodeError("bad_value", "var.map.key", None, "expected a string")
    return key, var_of(value, depth + 1)


def _integer(number: int) -> int:
    # By size, as the original's Go writer chooses; it never writes type 2 or 7 (section 2).
    if -0x8000_0000 <= number <= 0x7FFF_FFFF:
        return _INT32
    if -(1 << 63) <= number < 1 << 63:
        return _INT64
    if number < 1 << 64 and number > 0:
        return _UINT64
    raise EncodeError("int_range", "var", None, "expected 64 bits")


def value_of(var: Var) -> Any:
    """Return the Python value: a Map is a dict, a List a list."""
    kind, value = var.type, var.value
    if kind not in _NESTED:
        return value
    if kind == _MAP:
        # Of a repeated key the last value counts (section 2).
        return {key: value_of(item) for key, item in value}  # type: ignore[attr-defined]
    return [value_of(item) for item in value]  # type: ignore[attr-defined]


def data_rows(values: Mapping[str, object]) -> tuple[Data, ...]:
    """Return a DATA row for each value."""
    return tuple([Data(name=name, value=var_of(value)) for name, value in values.items()])


def values_of(
    rows: Iterable[Row], kind: type[Data | Header | SessionInfo] = Data
) -> dict[str, Any]:
    """Return the values of DATA rows by name, or of HEADER or SESSION_INFO rows; of several with
    one name, the first."""
    # The first of several rows with one name, as the original's getters return it (section 2).
    found: dict[str, Any] = {}
    for row in rows:
        if type(row) is kind and row.name not in found:
            var = row.value
            found[row.name] = value_of(var) if var.type in _NESTED else var.value
    return found

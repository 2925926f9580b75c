"""Python values as `Var`, and back: for services and clients that do not care which type it is.

Integers are written as the original's Go code does it, the smallest of Int32, Int64 and UInt64 that
fits. Of a Map with a repeated key the last counts, of repeated DATA rows the first (sections 2 and
8 of `docs/decisions/esnp.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from wirelake.wire.errors import EncodeError

from .layout import Data, Row, Var, VarType

__all__ = ["data_rows", "value_of", "values_of", "var_of"]

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
"""What the codec takes; deeper values are refused before they are walked."""


def var_of(value: object, depth: int = 0) -> Var:
    """Return the Var of a Python value; EncodeError for one that has none."""
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
        raise EncodeError("bad_value", "var.map.key", None, "wanted a text")
    return key, var_of(value, depth + 1)


def _integer(number: int) -> int:
    if -0x8000_0000 <= number <= 0x7FFF_FFFF:
        return _INT32
    if -(1 << 63) <= number < 1 << 63:
        return _INT64
    if number < 1 << 64 and number > 0:
        return _UINT64
    raise EncodeError("int_range", "var", None, "wanted 64 bits")


def value_of(var: Var) -> Any:
    """Return the Python value: a Map is a dict, a List a list."""
    kind, value = var.type, var.value
    if kind not in _NESTED:
        return value
    if kind == _MAP:
        return {key: value_of(item) for key, item in value}  # type: ignore[attr-defined]
    return [value_of(item) for item in value]  # type: ignore[attr-defined]


def data_rows(values: Mapping[str, object]) -> tuple[Data, ...]:
    """Return a DATA row for each value."""
    return tuple([Data(name=name, value=var_of(value)) for name, value in values.items()])


def values_of(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the values of DATA rows by name; the first row of a name counts."""
    found: dict[str, Any] = {}
    for row in rows:
        if type(row) is Data and row.name not in found:
            var = row.value
            found[row.name] = value_of(var) if var.type in _NESTED else var.value
    return found

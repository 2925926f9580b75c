"""Integers in JSON that every reader keeps exact.

JavaScript, jq and many others read numbers of JSON as 64-bit floats, which are exact up to 2**53.
Ids of connections and messages have 64 bits: two of them could become the same number. So fields
with such ids (`ID_NAMES`) are strings in every JSON output, whatever their value, and so is any
other integer that a float cannot hold. Times and durations (`*_ns`) stay integers, because
arithmetic with them is common: such a reader rounds a time to 256 ns.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ID_NAMES", "MAX_EXACT", "exact", "exact_array"]

ID_NAMES: Final = frozenset(
    {
        *("connection", "first_connection", "last_connection", "acked_connection"),
        *("previous_connection", "tunnel_link", "first_link", "last_link"),
        *("message_id", "reply_to", "instance_id", "tunnel_id"),
    }
)
"""Columns of tables, and fields of protocols, with 64-bit ids."""
MAX_EXACT: Final = (1 << 53) - 1
"""The largest integer n such that a 64-bit float has both n and n + 1."""


def exact(value: Any, name: str = "") -> Any:
    """Return a value for JSON; `name` is its column or key."""
    kind = type(value)
    if kind is int:
        if name in ID_NAMES:
            return str(value)
        return value if -MAX_EXACT <= value <= MAX_EXACT or name.endswith("_ns") else str(value)
    if kind is dict:
        return {key: exact(each, key) for key, each in value.items()}
    if kind is list or kind is tuple:
        return [exact(each, name) for each in value]
    return value


def exact_array(array: pa.Array, name: str) -> list[Any]:
    """Return the integers of an array without nulls, as `exact` does."""
    values: list[Any] = array.to_pylist()
    # One look at all of them costs less than a comparison of each in Python.
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    if name not in ID_NAMES and low >= -MAX_EXACT and high <= MAX_EXACT:
        return values
    return [exact(value, name) for value in values]

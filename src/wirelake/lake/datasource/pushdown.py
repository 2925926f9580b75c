"""Filters of a Spark query translated into the filter language, so that the reader applies them.

A filter that the language cannot express exactly as Spark means it stays with Spark. Spark calls
`pushFilters` with single comparisons; conditions with OR never arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from wirelake.records.filter import FilterError, compile_filter

__all__ = ["conditions"]

_COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def conditions(filters: Sequence[Filter], schema: pa.Schema) -> tuple[list[str], list[Filter]]:
    """Return the filters that can be translated, as text, and the others."""
    taken: list[str] = []
    rest: list[Filter] = []
    for each in filters:
        text = _text(each)
        if text is not None and _is_valid(text, schema):
            taken.append(text)
        else:
            rest.append(each)
    return taken, rest


def _is_valid(text: str, schema: pa.Schema) -> bool:
    try:
        compile_filter(text, schema)
    except FilterError:
        return False
    return True


def _text(condition: Filter) -> str | None:
    column = ".".join(getattr(condition, "attribute", ()))
    match condition:
        case IsNull():
            return f"{column} is null"
        case IsNotNull():
            return f"{column} is not null"
        case In(value=values):
            literals = [_literal(each) for each in values]
            return None if None in literals else f"{column} in ({', '.join(map(str, literals))})"
        case _:
            mark = _COMPARISONS.get(type(condition))
            literal = _literal(getattr(condition, "value", None))
            return None if mark is None or literal is None else f"{column} {mark} {literal}"


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return None

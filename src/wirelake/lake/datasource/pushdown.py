"""What need not be read: rows that a query filters out, and files outside of its time range.

Filters of a Spark query are translated into the filter language, so that the reader applies them.
A filter that the language cannot express exactly as Spark means it stays with Spark. Spark calls
`pushFilters` with single comparisons; conditions with OR never arrive.

Files are skipped by the time of their first packet, which costs one small read for each file. That
is cheap beside decoding, at 60 MB/s of captures on one core (benchmarks/results/lake.json).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

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

from wirelake.columnar.read.options import ReadOptions, table_schema
from wirelake.records import filter_nodes as n
from wirelake.records.filter import FilterError, compile_filter
from wirelake.records.schema import schema
from wirelake.tables.inputs import Capture

from .paths import first_ns

__all__ = [
    "Range",
    "conditions",
    "pruned",
    "selected_range",
]


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


# -- files by time -----------------------------------------------------------------------------

_DISORDER_NS: Final = 60 * 10**9
"""How far packets may be out of order."""
_WAITING_NS: Final = 60 * 10**9
"""How long bytes wait for missing ones before them."""
_TIME: Final = "ts_ns"
_PRUNED: Final = frozenset({"packets", "messages"})
_FROM_BEFORE: Final = frozenset({"connection", "direction"})
"""Columns of a packet that depend on earlier packets."""


class Range(NamedTuple):
    """A time range, both ends included; None is unbounded."""

    begin: int | None = None
    end: int | None = None


def selected_range(options: ReadOptions) -> Range:
    """Return the time range that a filter selects."""
    if options.filter is None:
        return Range()
    whole = schema(options.table, () if options.protocol is None else (options.protocol,))
    return _bounds(compile_filter(options.filter, whole).condition)


def pruned(files: Sequence[Capture], options: ReadOptions) -> list[Capture]:
    """Return the files of one source that may have rows, in order; at least one."""
    found = list(files)
    selected = selected_range(options)
    if options.table not in _PRUNED or selected == Range():
        return found
    begins = [first_ns(each.path) for each in found]
    stop = len(found)
    # The end of the range can always be cut: later packets decide nothing about earlier messages,
    # once bytes have waited as long as they may for what is missing before them.
    if selected.end is not None:
        latest = selected.end + _DISORDER_NS + _WAITING_NS
        while stop > 1 and _is_after(begins[stop - 1], latest):
            stop -= 1
    # The start can only be cut where no value depends on what came before. Messages depend on the
    # protocol, the keys and the unfinished frames of their connection.
    start = 0
    if selected.begin is not None and _is_independent(options) and _is_one_source(found):
        earliest = selected.begin - _DISORDER_NS
        while start < stop - 1 and _is_before(begins[start], begins[start + 1], earliest):
            start += 1
    return found[start:stop]


def _is_after(begins: int | None, latest: int) -> bool:
    return begins is None or begins > latest


def _is_before(begins: int | None, next_begins: int | None, earliest: int) -> bool:
    """Return whether a file is over because the next one begins before `earliest`."""
    return begins is None or (next_begins is not None and max(begins, next_begins) < earliest)


def _is_one_source(files: Sequence[Capture]) -> bool:
    """Return whether files follow each other; files named one by one may not."""
    pairs = list(itertools.pairwise(files))
    return all(a.source == b.source and a.sequence < b.sequence for a, b in pairs)


def _is_independent(options: ReadOptions) -> bool:
    """Return whether no column depends on earlier packets."""
    used = {name.split(".")[0] for name in table_schema(options).names}
    if options.filter is not None:
        used |= compile_filter(options.filter, schema(options.table)).columns
    return options.table == "packets" and not used & _FROM_BEFORE


def _bounds(condition: n.Condition) -> Range:
    match condition:
        case n.All(conditions=parts):
            found = [_bounds(each) for each in parts]
            begins = [each.begin for each in found if each.begin is not None]
            ends = [each.end for each in found if each.end is not None]
            return Range(max(begins, default=None), min(ends, default=None))
        case n.Compare(mark=mark, column=column, value=int() as value) if column.name == _TIME:
            return {
                "==": Range(value, value),
                ">": Range(value + 1, None),
                ">=": Range(value, None),
                "<": Range(None, value - 1),
                "<=": Range(None, value),
            }.get(mark, Range())
        case _:
            return Range()

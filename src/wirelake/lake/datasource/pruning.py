"""Which files need not be read: those outside of the time range of the option `filter`.

Files are skipped by the time of their first packet, which costs one small read for each file. That
is cheap beside decoding, at 60 MB/s of captures on one core (benchmarks/results/lake.json).

Filters of a Spark query are not accepted (`pushFilters`). Spark 4.3 keeps the reader that has
accepted them for the DataFrame, and uses it for every later query of the same DataFrame: after
`df.where("kind = 'push'").count()`, `df.count()` would count pushes only. No method of a Python
source is called that could find out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from wirelake.columnar.read.options import ReadOptions, table_schema
from wirelake.records import filter_nodes as n
from wirelake.records.filter import compile_filter
from wirelake.records.schema import schema
from wirelake.tables.inputs import Capture
from wirelake.tables.names import first_ns

__all__ = ["Range", "pruned", "selected_range"]

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

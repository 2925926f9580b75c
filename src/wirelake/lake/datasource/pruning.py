"""Leaves out files that cannot have rows of the time that is asked for.

A look at the first packet of a file tells when it begins. A source is recorded as it goes, so what
stands in its later files came later: packets may be out of order by a minute, no more. With that,

- a file that begins long enough after the end of the range has no packet or message of it. What
  waits for missing bytes does so for a minute (`docs/concepts/captures.md`, section *Streams*), so
  "long enough" is two minutes, and no message of the range can still be on its way.
- a file before one that begins a minute before the range has no packet of it. What a packet's
  connection is, earlier packets tell: such a file is left out only if nobody wants to know.

The other tables need everything: what came last says how earlier rows ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from wirelake.columnar.read.reader import ReadOptions, table_schema
from wirelake.records import filter_nodes as n
from wirelake.records.filter import compile_filter
from wirelake.records.schema import schema
from wirelake.tables.inputs import Capture

from .files import first_ns

__all__ = ["Range", "pruned", "wanted"]

_DISORDER_NS: Final = 60 * 10**9
"""Packets may be out of order by so much."""
_WAITING_NS: Final = 60 * 10**9
"""Bytes wait for others for so long."""
_TIME: Final = "ts_ns"
_PRUNED: Final = frozenset({"packets", "messages"})
_FROM_BEFORE: Final = frozenset({"connection", "direction"})
"""What is known of a packet only with those before it."""


class Range(NamedTuple):
    """From when to when rows are wanted, both included; None where there is no bound."""

    begin: int | None = None
    end: int | None = None


def wanted(options: ReadOptions) -> Range:
    """The time that a filter leaves over."""
    if options.filter is None:
        return Range()
    whole = schema(options.table, () if options.protocol is None else (options.protocol,))
    return _bounds(compile_filter(options.filter, whole).condition)


def pruned(files: Sequence[Capture], options: ReadOptions) -> list[Capture]:
    """The files of one source that can have rows, in their order; always at least one of them."""
    found = list(files)
    asked = wanted(options)
    if options.table not in _PRUNED or asked == Range():
        return found
    begins = [first_ns(each.path) for each in found]
    stop = len(found)
    if asked.end is not None:
        latest = asked.end + _DISORDER_NS + _WAITING_NS
        while stop > 1 and _is_after(begins[stop - 1], latest):
            stop -= 1
    start = 0
    if asked.begin is not None and _stand_alone(options) and _is_one_source(found):
        earliest = asked.begin - _DISORDER_NS
        while start < stop - 1 and _is_before(begins[start], begins[start + 1], earliest):
            start += 1
    return found[start:stop]


def _is_after(begins: int | None, latest: int) -> bool:
    return begins is None or begins > latest


def _is_before(begins: int | None, next_begins: int | None, earliest: int) -> bool:
    """Whether a file and the next one begin so early that the first of them is over by then."""
    return begins is None or (next_begins is not None and max(begins, next_begins) < earliest)


def _is_one_source(files: Sequence[Capture]) -> bool:
    """Whether they go on one after the other; files that somebody named may be anything."""
    pairs = list(itertools.pairwise(files))
    return all(a.source == b.source and a.sequence < b.sequence for a, b in pairs)


def _stand_alone(options: ReadOptions) -> bool:
    """Whether rows can be told without what came before them."""
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

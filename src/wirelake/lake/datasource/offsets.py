"""Offsets of a stream: the last sequence that was read, by source.

    {"tap-a": 7, "rack1/tap-b": [12, [9, 10]]}

A list also has the ranges of sequences that the batch ending here skipped because they were late.
So the files between two offsets are always the same, whatever arrives later: Spark may repeat a
batch after a failure, and it must have the same rows.

Nothing here reads a folder or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from wirelake.tables.entries import Input
from wirelake.tables.inputs import Capture

__all__ = ["Offset", "OffsetError", "advance", "between", "cursors"]

Offset: TypeAlias = dict[str, Any]
"""Position by source, as in the example above."""

_NOTHING: Final = -1
"""The sequence before the first one."""


class OffsetError(ValueError):
    """An offset that is invalid, or whose files no longer exist."""


def cursors(offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the last sequence of each source."""
    return {source: _last(value, source) for source, value in offset.items()}


def advance(start: Offset, taken: Iterable[Input]) -> Offset:
    """Return the offset after some files, which follow `start` and are in order by source."""
    last = cursors(start)
    skipped: dict[str, list[list[int]]] = {}
    for file in taken:
        before = last.get(file.source, _NOTHING)
        gaps = skipped.setdefault(file.source, [])
        if file.sequence > before + 1:
            gaps.append([before + 1, file.sequence - 1])
        last[file.source] = file.sequence
    return start | {
        source: [last[source], *gaps] if gaps else last[source] for source, gaps in skipped.items()
    }


def between(
    files: Iterable[Capture], start: Offset, end: Offset, *, whole: bool = True
) -> dict[str, list[Capture]]:
    """Return the files of a batch by source, in order.

    Raises OffsetError when one of them no longer exists, unless `whole` is off.
    """
    there = _by_place(files)
    found: dict[str, list[Capture]] = {}
    for source, sequence in _places(start, end):
        file = there.get((source, sequence))
        if file is not None:
            found.setdefault(source, []).append(file)
        elif whole:
            raise OffsetError(
                f"file {sequence} of source {source!r} no longer exists; restore it or start with"
                " a new checkpoint"
            )
    return found


def _places(start: Offset, end: Offset) -> list[tuple[str, int]]:
    """Return source and sequence of each file between two offsets, in order."""
    last = cursors(start)
    return [
        (source, sequence)
        for source in sorted(end)
        for sequence in _sequences(end[source], last.get(source, _NOTHING), source)
    ]


def _by_place(files: Iterable[Capture]) -> dict[tuple[str, int], Capture]:
    """Return files by source and sequence; the first of several counts."""
    found: dict[tuple[str, int], Capture] = {}
    for file in files:
        found.setdefault((file.source, file.sequence), file)
    return found


def _sequences(value: Any, start: int, source: str) -> Iterable[int]:
    """Yield the sequences after `start` up to an offset, without those that it skipped."""
    stop = _last(value, source)
    at = start + 1
    for first, last in value[1:] if isinstance(value, list) and stop > start else []:
        yield from range(at, first)
        at = last + 1
    yield from range(at, stop + 1)


def _last(value: Any, source: str) -> int:
    found = value[0] if isinstance(value, list) and value else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise OffsetError(f"invalid offset {value!r} of source {source!r}; expected a number")
    return found

"""How far a stream has come: for each source, the last sequence that was taken.

    {"tap-a": 7, "rack1/tap-b": [12, [9, 10]]}

A list has, behind the last sequence, the first and the last of those that were passed over by the
batch that ends here, because they had not come in time. So the files between two offsets are
always the same, whatever arrives later: a batch that is repeated has the rows that it had.

Nothing here looks at a folder or at a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from wirelake.tables.entries import Input
from wirelake.tables.inputs import Capture

__all__ = ["Offset", "OffsetError", "between", "cursors", "moved_on"]

Offset: TypeAlias = dict[str, Any]
"""By source, as in the example above."""

_NOTHING: Final = -1
"""The sequence before the first."""


class OffsetError(ValueError):
    """An offset cannot be read, or what it stands for is gone; the message says what to do."""


def cursors(offset: Mapping[str, Any]) -> dict[str, int]:
    """The last sequence of each source."""
    return {source: _last(value, source) for source, value in offset.items()}


def moved_on(start: Offset, taken: Iterable[Input]) -> Offset:
    """The offset behind these files, which come after `start` and are in order in their source."""
    last = cursors(start)
    passed: dict[str, list[list[int]]] = {}
    for file in taken:
        before = last.get(file.source, _NOTHING)
        gaps = passed.setdefault(file.source, [])
        if file.sequence > before + 1:
            gaps.append([before + 1, file.sequence - 1])
        last[file.source] = file.sequence
    return start | {
        source: [last[source], *gaps] if gaps else last[source] for source, gaps in passed.items()
    }


def between(
    files: Iterable[Capture], start: Offset, end: Offset, *, whole: bool = True
) -> dict[str, list[Capture]]:
    """By source: the files of a batch, in order.

    Raises OffsetError when one of them is gone, unless the batch need not be `whole`.
    """
    there = _by_place(files)
    found: dict[str, list[Capture]] = {}
    for source, sequence in _places(start, end):
        file = there.get((source, sequence))
        if file is not None:
            found.setdefault(source, []).append(file)
        elif whole:
            raise OffsetError(
                f"file {sequence} of the source {source!r} was taken before, and is gone: put it"
                " back, or begin with a new checkpoint"
            )
    return found


def _places(start: Offset, end: Offset) -> list[tuple[str, int]]:
    """The source and sequence of each file between two offsets, in order."""
    last = cursors(start)
    return [
        (source, sequence)
        for source in sorted(end)
        for sequence in _sequences(end[source], last.get(source, _NOTHING), source)
    ]


def _by_place(files: Iterable[Capture]) -> dict[tuple[str, int], Capture]:
    """Files by source and sequence; of several, the first counts."""
    found: dict[tuple[str, int], Capture] = {}
    for file in files:
        found.setdefault((file.source, file.sequence), file)
    return found


def _sequences(value: Any, start: int, source: str) -> Iterable[int]:
    """The sequences behind `start` up to an offset, without those that it passed over."""
    stop = _last(value, source)
    at = start + 1
    for first, last in value[1:] if isinstance(value, list) and stop > start else []:
        yield from range(at, first)
        at = last + 1
    yield from range(at, stop + 1)


def _last(value: Any, source: str) -> int:
    found = value[0] if isinstance(value, list) and value else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise OffsetError(f"the offset of the source {source!r} is {value!r}; wanted a number")
    return found

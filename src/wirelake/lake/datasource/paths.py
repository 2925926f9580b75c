"""Which captures are read: the paths of a batch read, and the offsets of a stream.

Paths name files, folders, globs, and lists of them. Files named one by one are one capture, in the
given order. A folder or a glob has one capture for each source (`docs/concepts/lake.md`, section
*Sources and admission*), with its files in order.

An offset says how far a stream has come: the last sequence of each source, and the gaps that were
skipped since the offset before it.

    {"tap-a": 7, "tap-b": [12, [9, 10]]}    tap-b: up to 12, without 9 and 10

Spark stores offsets and asks for the files between two of them again after a failure. So an offset
names files by source and sequence, which never change, and says which numbers did not exist: a file
that arrives late must not appear in a batch that is repeated.
"""

from __future__ import annotations

import glob
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from wirelake.tables.inputs import Capture, Watch, identified, skipped_text
from wirelake.tables.names import first_ns
from wirelake.tables.snapshot import Input
from wirelake.wire.paths import AddressError, local_path

__all__ = [
    "FILE_SCHEMA",
    "Listing",
    "Offset",
    "OffsetError",
    "PathError",
    "advance",
    "between",
    "captures",
    "cursors",
    "file_rows",
    "folder",
    "listings",
    "report_skipped",
]


_LOG: Final = logging.getLogger(__name__)


class PathError(ValueError):
    """A path at which there is nothing to read."""


def captures(
    paths: Sequence[str], pattern: str | None = None, *, include_open: bool = False
) -> list[list[Capture]]:
    """Return the captures at some paths: the files of each, in reading order.

    `pattern` is that of `wirelake.tables.names.Names`. Each file is listed once, with an absolute
    path: executors have other working directories. Unfinished recordings in folders are skipped
    with a notice, unless `include_open` is set.
    """
    if not paths:
        raise PathError(
            'no path given; expected a file, a folder or a glob, as in load("captures/")'
        )
    named: list[Capture] = []
    found = [named]
    for path in paths:
        for each in _at(path, pattern, include_open):
            if isinstance(each, Capture):
                named.append(each)
            else:
                found.append(each)
    return _each_once(found)


def folder(paths: Sequence[str]) -> str:
    """Return the absolute path of the folder that a stream reads."""
    if len(paths) != 1:
        raise PathError('a stream reads one folder, as in load("captures/")')
    local = Path(_local(paths[0]))
    if not local.is_dir():
        raise PathError(f"{paths[0]}: not a folder; a stream reads a folder")
    return str(local.absolute())


def _at(path: str, pattern: str | None, include_open: bool) -> Iterator[Capture | list[Capture]]:
    """Yield single files, and whole captures."""
    local = Path(_local(path))
    if local.is_dir():
        found = _sources(_in_folder(local, pattern, include_open))
        if not found:
            raise PathError(f"{path}: no captures in this folder (*.pcap, *.pcapng, *.gz, *.zst)")
        yield from found
    elif local.exists():
        yield identified(local, pattern)
    elif matches := sorted(glob.glob(str(local), recursive=True)):
        yield from _matched(map(Path, matches), pattern, include_open)
    elif "," in path:  # a name may contain commas; only what does not exist is a list
        for part in filter(None, map(str.strip, path.split(","))):
            yield from _at(part, pattern, include_open)
    else:
        raise PathError(f"{path}: no such file or folder")


def _in_folder(path: Path, pattern: str | None, include_open: bool) -> list[Capture]:
    """List the captures in a folder; log how much of it is skipped."""
    watch = Watch(path, pattern, include_open=include_open)
    found = watch.look()
    wait = "wait until the recorder has completed"
    report_skipped(path, watch.open, wait if include_open else "set include_open=true to read")
    return found


def report_skipped(folder: object, files: Collection[Capture], remedy: str) -> None:
    """Log the recordings in a folder that are not read."""
    # Spark runs this in a Python process beside the driver, with the driver's standard error: a
    # session on this machine prints it, a server of Spark Connect has it in its log.
    if files:
        sizes = [each.bytes for each in files]
        _LOG.warning("wirelake: %s", skipped_text(folder, sizes, remedy))


def _matched(
    paths: Iterable[Path], pattern: str | None, include_open: bool
) -> Iterator[list[Capture]]:
    """Yield the sources of the folders that a glob matches, and of the files by folder."""
    files: dict[Path, list[Capture]] = {}
    for path in paths:
        if path.is_dir():
            yield from _sources(_in_folder(path, pattern, include_open))
        else:
            files.setdefault(path.parent, []).append(identified(path, pattern))
    for found in files.values():
        yield from _sources(found)


def _sources(files: Iterable[Capture]) -> list[list[Capture]]:
    found: dict[str, list[Capture]] = {}
    for each in sorted(files, key=lambda file: (file.source, file.sequence, file.path)):
        found.setdefault(each.source, []).append(each)
    return list(found.values())


def _each_once(found: Iterable[Iterable[Capture]]) -> list[list[Capture]]:
    seen: set[str] = set()
    kept: list[list[Capture]] = []
    for files in found:
        new = list({each.path: each for each in files if each.path not in seen}.values())
        seen.update(each.path for each in new)
        if new:
            kept.append(new)
    return kept


def _local(path: str) -> str:
    """Return a path without the scheme `file:`, which Spark users often write."""
    try:
        return str(local_path(path))
    except AddressError as error:
        raise PathError(str(error)) from None


# -- offsets of a stream -----------------------------------------------------------------------

Offset: TypeAlias = dict[str, Any]
"""Position by source, as in the example of the module."""

_NOTHING: Final = -1
"""The sequence before the first one."""


class OffsetError(ValueError):
    """An offset that is invalid, or whose files no longer exist."""


def cursors(offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the last sequence of each source."""
    return {source: _last(value, source) for source, value in offset.items()}


def advance(start: Offset, taken: Iterable[Input]) -> Offset:
    """Return the offset after some files, which follow `start` and are in order by source."""
    # Gaps are stored because the listing may change: a number that was missing when its successors
    # were admitted may exist when the batch is repeated.
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


# -- the table `files` -------------------------------------------------------------------------

_TASK_FILES: Final = 256
"""Files of one task: reading the start of a file is cheaper than starting a task."""


def _column(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc})


FILE_SCHEMA: Final = pa.schema(
    [
        _column("source", pa.string(), "Source that the file belongs to."),
        _column("sequence", pa.int64(), "Position of the file in its source."),
        _column("path", pa.string(), "Absolute path."),
        _column("bytes", pa.int64(), "Size of the file."),
        _column("mtime_ns", pa.int64(), "Time of the last write, ns since 1970."),
        _column(
            "first_ns",
            pa.int64(),
            "Time of the first packet, ns since 1970; null if there is none.",
        ),
    ]
)
"""The columns of `files`."""


@dataclass
class Listing(InputPartition):
    """The files of one task."""

    files: tuple[Capture, ...]


def listings(files: Sequence[Capture]) -> list[Listing]:
    """Divide files into tasks."""
    starts = range(0, len(files), _TASK_FILES)
    return [Listing(tuple(files[start : start + _TASK_FILES])) for start in starts]


def file_rows(files: Sequence[Capture]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some files; reads the start of each."""
    seen = {"first_ns": [first_ns(each.path) for each in files]}
    known = [name for name in FILE_SCHEMA.names if name not in seen]
    columns = {name: [getattr(each, name) for each in files] for name in known}
    yield pa.RecordBatch.from_pydict({**columns, **seen}, FILE_SCHEMA)

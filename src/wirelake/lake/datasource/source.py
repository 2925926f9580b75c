"""The Spark data source `wirelake`: captures as tables, in batches and as a stream.

    spark.read.format("wirelake").option("table", "calls").load("captures/")
    spark.readStream.format("wirelake").option("table", "files").load("captures/")

`options.py` describes the options, `paths.py` which files are read, `pruning.py` which are not. The
rows are those of `wirelake read` of each source, however many tasks there are.

Captures are decoded inside `read`, which yields Arrow batches. A second Python step behind it (an
identity mapInArrow) would make a read take 2.5 times as long, tuples instead of Arrow 2.9 times.

A stream admits captures by source and sequence (`docs/concepts/lake.md`, section *Sources and
admission*). The files of a source in one batch are read as one capture. No state is carried to the
next batch: a frame that continues in a later file is not decoded. Tables that need state are made
by a lake.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from wirelake.capture.format.writer import is_being_written
from wirelake.columnar.read.options import DERIVED, table_schema
from wirelake.tables.inputs import Capture, Watch, admit
from wirelake.tables.snapshot import Input, Snapshot, Source
from wirelake.wire.errors import unknown

from ..spark.dataframes import spark_schema
from .options import FILES, PAYLOAD, OptionError, Request, parse
from .paths import (
    FILE_SCHEMA,
    Listing,
    Offset,
    advance,
    between,
    captures,
    cursors,
    file_rows,
    folder,
    listings,
    report_skipped,
)
from .pruning import pruned

if TYPE_CHECKING:
    from wirelake.columnar.pipeline.pipeline import Item

__all__ = [
    "CaptureReader",
    "CaptureStream",
    "FaultError",
    "Files",
    "ReadTask",
    "Share",
    "WirelakeSource",
    "pack",
    "plan",
    "read_share",
    "read_task",
    "whole_schema",
]


class WirelakeSource(DataSource):
    """The data source; creates readers from options."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))
        self._request = parse(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "wirelake"

    def schema(self) -> StructType:
        """Return the columns of the requested table."""
        return spark_schema(whole_schema(self._request))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader."""
        return CaptureReader(_narrowed(self._request, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a streaming reader."""
        try:
            return CaptureStream(_narrowed(self._request, schema))
        except (ValueError, OSError) as error:
            return RefusedStream(error)


def _narrowed(request: Request, schema: StructType) -> Request:
    """Restrict a request to the columns of a schema, which the user may have given."""
    # Spark 4.3 prunes no columns of a Python source. A schema with fewer columns is the standard
    # way to ask for that; the batches must then have exactly these, in type and nullability.
    known = whole_schema(request)
    requested = to_arrow_schema(schema, timezone="UTC")
    if requested.equals(known):
        return request
    for field in requested:
        if field.name not in known.names:
            raise OptionError(unknown("column", field.name, known.names))
        if known.field(field.name).type != field.type:
            kind = spark_schema(known)[field.name].dataType.simpleString()
            raise OptionError(f"invalid type of column {field.name!r}; expected {kind}")
    if request.files:
        raise OptionError(f"table {FILES} accepts no schema; use select")
    return replace(request, read=replace(request.read, columns=tuple(requested.names)))


# -- batches -----------------------------------------------------------------------------------


class CaptureReader(DataSourceReader):
    """Batch reader."""

    def __init__(self, request: Request):
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. Called on the driver for every plan, `explain` included."""
        request = self._request
        found = captures(request.paths, request.source_pattern, include_open=request.include_open)
        return plan(request, found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Called in a worker."""
        return read_task(self._request, partition)


# -- streams -----------------------------------------------------------------------------------


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader; the driver has one for each query.

    `commit` is not implemented: Spark calls it one batch late, and not at all for the last batch of
    an AvailableNow run, so nothing may depend on it.
    """

    def __init__(self, request: Request, *, clock: Callable[[], int] = time.time_ns):
        if not request.files and request.read.table in DERIVED:
            raise OptionError(
                f"table {request.read.table} needs state across files, which a stream does not"
                " keep; use a lake: wirelake lake run --from ... --to ... --stream"
            )
        if request.include_open:
            raise OptionError(
                "option 'include_open' does not apply to streams, which read a recording when it"
                " is complete"
            )
        self._request = request
        self._folder = folder(request.paths)
        self._watch = Watch(self._folder, request.source_pattern)
        self._reported: set[str] = set()
        self._clock = clock
        self._frozen: tuple[list[Capture], int] | None = None
        self._latest: Offset | None = None

    # The methods that Spark calls, in its order.

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new query."""
        return self._request.admission.after

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch; `latestOffset` applies a second limit, of bytes, itself."""
        admission = self._request.admission
        if admission.max_files is not None:
            return ReadMaxFiles(admission.max_files)
        return (
            ReadAllAvailable() if admission.max_bytes is None else ReadMaxBytes(admission.max_bytes)
        )

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore captures that arrive from now on."""
        self._frozen = self._look()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch; `start` if there is nothing to read."""
        # Admission is that of a lake: an offset stands for a lake that has read up to it.
        captures, now_ns = self._frozen or self._look()
        admission = self._request.admission
        admitted = functools.partial(
            admit,
            captures,
            _snapshot(cursors(start)),
            now_ns,
            lateness_s=admission.lateness_s,
            settle_s=admission.settle_s,
        )
        # Without limits first, which is what `reportLatestOffset` shows as the backlog.
        self._latest = advance(start, admitted().admitted)
        match limit:
            case ReadMaxFiles():
                found = admitted(max_files=limit.max_files, max_bytes=admission.max_bytes)
            case ReadMaxBytes():
                found = admitted(max_bytes=limit.max_bytes)
            case _:
                return self._latest
        return advance(start, found.admitted)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return how far the stream could advance when it last looked."""
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks of a batch, the same ones each time.

        The table `files` leaves out files that no longer exist.
        """
        # After a failure Spark asks for the same two offsets again, perhaps in another process. So
        # this must not depend on anything but them: not on the time, nor on what was admitted.
        found = between(self._watch.look(), start, end, whole=not self._request.files)
        return plan(self._request, list(found.values()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Called in a worker."""
        return read_task(self._request, partition)

    def _look(self) -> tuple[list[Capture], int]:
        found, now_ns = self._watch.look(), self._clock()
        # A recording that is being written will be complete; one that a killed recorder has left is
        # never read. Each is reported once.
        left = [
            each
            for each in self._watch.open
            if each.path not in self._reported and not is_being_written(each.path)
        ]
        self._reported |= {each.path for each in left}
        report_skipped(self._folder, left, "use 'wirelake capture repair' to complete")
        return found, now_ns


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that cannot be read: whatever Spark calls first raises the error.

    Of an error of `streamReader` itself, Spark 4.3 shows nothing but an UnboundLocalError.
    """

    def __init__(self, error: Exception):
        self._error = error

    def initialOffset(self) -> Offset:  # noqa: N802
        """Raise the error."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Raise the error."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802, ARG002
        """Raise the error."""
        raise self._error

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raise the error."""
        raise self._error


def _snapshot(last: Mapping[str, int]) -> Snapshot:
    """Return the snapshot of a lake that has read up to these sequences."""
    found = Snapshot()
    for source, sequence in last.items():
        found.sources[source] = Source()
        found.sources[source].add(
            Input(source=source, sequence=sequence, path="", bytes=0, mtime_ns=0)
        )
    return found


# -- tasks and their rows ----------------------------------------------------------------------

_TASK_BYTES: Final = 32 << 20
"""Bytes of a capture that are worth a task of their own."""
_MAX_SHARES: Final = 16
"""Every share scans every packet: with more shares, scanning costs more than decoding."""

_FAULTS = "faults"


class Files(NamedTuple):
    """One capture: its files in order, and their total size."""

    paths: tuple[str, ...]
    size: int


class Share(NamedTuple):
    """A share of the connections of one capture."""

    paths: tuple[str, ...]
    share: int = 0
    shares: int = 1


@dataclass
class ReadTask(InputPartition):
    """The shares that one task reads, one after the other."""

    shares: tuple[Share, ...]


def pack(captures: Sequence[Files], tasks: int | None = None) -> list[ReadTask]:
    """Divide captures into at most `tasks` tasks, or into as many as their size is worth."""
    # A capture is divided by connections, not by bytes: reassembly needs all packets of a
    # connection in order. Each share scans all packets and decodes its own connections.
    total = sum(each.size for each in captures)
    worth = _TASK_BYTES if tasks is None else max(1, -(-total // tasks))
    bins = 1 + total // worth if tasks is None else tasks
    most = _MAX_SHARES if tasks is None else tasks
    pieces: list[tuple[int, Share]] = []
    for each in captures:
        shares = _shares(each.size, worth, most, exactly=tasks is not None)
        pieces += [(each.size // shares, Share(each.paths, n, shares)) for n in range(shares)]
    return _spread(pieces, bins)


def _shares(size: int, worth: int, most: int, *, exactly: bool) -> int:
    return min(most, max(1, -(-size // worth)) if exactly else 1 + size // worth)


def _spread(pieces: list[tuple[int, Share]], bins: int) -> list[ReadTask]:
    """Give each piece, the largest first, to the task with the least bytes."""
    # The count breaks ties, so that empty pieces are spread as well.
    loads = [(0, 0, number) for number in range(min(bins, len(pieces)))]
    given: list[list[Share]] = [[] for _ in loads]
    for size, share in sorted(pieces, key=lambda piece: -piece[0]):
        load, count, number = heapq.heappop(loads)
        given[number].append(share)
        heapq.heappush(loads, (load + size, count + 1, number))
    return [ReadTask(tuple(shares)) for shares in given]


class FaultError(ValueError):
    """Bytes that do not decode, with the option mode=failfast."""


def whole_schema(request: Request) -> pa.Schema:
    """Return the columns of the requested table."""
    return FILE_SCHEMA if request.files else table_schema(request.read)


def plan(request: Request, captures: Sequence[Sequence[Capture]]) -> list[InputPartition]:
    """Return the tasks that read some captures."""
    if request.files:
        return list(listings([each for files in captures for each in files]))
    # Derived tables match messages across connections and sources, which one task must do.
    if request.read.table in DERIVED:
        paths = tuple(each.path for files in captures for each in files)
        return [ReadTask((Share(paths),))]
    whole = [
        Files(tuple(each.path for each in files), sum(each.bytes for each in files))
        for files in (pruned(each, request.read) for each in captures)
    ]
    return list(pack(whole, request.partitions))


def read_task(request: Request, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task."""
    if isinstance(task, Listing):
        yield from file_rows(task.files)
    else:
        assert isinstance(task, ReadTask)
        for share in task.shares:
            yield from read_share(request, share)


def read_share(request: Request, share: Share) -> Iterator[pa.RecordBatch]:
    """Return the rows of a share."""
    # Not at the top: Spark starts a process for each question about a query (its schema, filters,
    # tasks), and only those that read need the kernels. Their import takes 0.3 s of CPU time.
    from wirelake.columnar.read.reader import finished, open_pipeline

    options = replace(request.read, share=share.share, shares=share.shares)
    # By default faults are rows of `faults`, never errors: an exception fails the task four times
    # and then the query.
    also = (_FAULTS,) if request.failfast else ()
    windows: Iterable[Iterable[Item]] = open_pipeline(share.paths, options, also).windows()
    if request.failfast:
        windows = map(_failfast, windows)
    found = finished(options, windows)
    column = PAYLOAD.get(options.table) if request.hashed else None
    return found if column is None else (_hashed(batch, column) for batch in found)


def _failfast(window: Iterable[Item]) -> Iterator[Item]:
    """Pass items on. Raises FaultError at the first fault."""
    for table, found in window:
        if table == _FAULTS and isinstance(found, pa.RecordBatch) and found.num_rows:
            raise FaultError(_describe(found.slice(0, 1).to_pylist()[0]))
        yield table, found


def _describe(fault: dict[str, object]) -> str:
    return (
        f"{fault['file']}, offset {fault['offset']}: {fault['code']} ({fault['detail']}); the"
        " option mode=permissive makes it a row of table faults instead"
    )


def _hashed(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Replace the bytes of a column with their SHA-256."""
    place = batch.schema.get_field_index(column)
    if place < 0:
        return batch
    values = [
        None if each is None else hashlib.sha256(each).digest()
        for each in batch.column(place).to_pylist()
    ]
    return batch.set_column(place, batch.schema.field(place), pa.array(values, pa.binary()))

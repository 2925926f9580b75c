"""The streaming reader of the data source: captures as they arrive in a folder.

    spark.readStream.format("wirelake").option("table", "files").load("captures/")

Source and sequence decide which captures a batch has (`docs/concepts/lake.md`, section *Sources and
admission*). The files of a source in one batch are read as one capture. No state is carried to the
next batch: a frame that continues in a later file is not decoded. Tables that need state are made
by a lake.

Spark calls `commit` one batch late, and not at all for the last batch of an AvailableNow run; so
nothing here depends on it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from wirelake.columnar.read.reader import DERIVED
from wirelake.tables.entries import Input
from wirelake.tables.inputs import Capture, Watch, admit
from wirelake.tables.snapshot import Snapshot, Source

from .offsets import Offset, advance, between, cursors
from .options import OptionError, Request
from .paths import folder
from .reading import plan, read_task

__all__ = ["CaptureStream"]


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader; the driver has one for each query."""

    def __init__(self, request: Request, *, clock: Callable[[], int] = time.time_ns):
        if not request.files and request.read.table in DERIVED:
            raise OptionError(
                f"table {request.read.table} needs state across files, which a stream does not"
                " keep; use a lake: wirelake lake run --from ... --to ... --stream"
            )
        self._request = request
        self._watch = Watch(folder(request.paths))
        self._clock = clock
        self._frozen: tuple[list[Capture], int] | None = None
        self._latest: Offset | None = None

    # The methods that Spark calls, in its order.

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new query."""
        return self._request.pace.after

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch; `latestOffset` applies a second limit, of bytes, itself."""
        pace = self._request.pace
        if pace.max_files is not None:
            return ReadMaxFiles(pace.max_files)
        return ReadAllAvailable() if pace.max_bytes is None else ReadMaxBytes(pace.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore captures that arrive from now on."""
        self._frozen = self._look()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch; `start` if there is nothing to read."""
        captures, now_ns = self._frozen or self._look()
        pace = self._request.pace
        admitted = functools.partial(
            admit,
            captures,
            _snapshot(cursors(start)),
            now_ns,
            lateness_s=pace.lateness_s,
            settle_s=pace.settle_s,
        )
        self._latest = advance(start, admitted().admitted)
        match limit:
            case ReadMaxFiles():
                found = admitted(max_files=limit.max_files, max_bytes=pace.max_bytes)
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
        found = between(self._watch.look(), start, end, whole=not self._request.files)
        return plan(self._request, list(found.values()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Called in a worker."""
        return read_task(self._request, partition)

    def _look(self) -> tuple[list[Capture], int]:
        return self._watch.look(), self._clock()


def _snapshot(last: Mapping[str, int]) -> Snapshot:
    """Return the snapshot of a lake that has read up to these sequences."""
    found = Snapshot()
    for source, sequence in last.items():
        found.sources[source] = Source()
        found.sources[source].add(
            Input(source=source, sequence=sequence, path="", bytes=0, mtime_ns=0)
        )
    return found

"""The data source `wirelake` as a stream: captures as they come into a folder.

    spark.readStream.format("wirelake").option("table", "files").load("captures/")

Which captures a batch has is decided by source and sequence (`docs/concepts/lake.md`, section
*Sources and admission*). The files of a source in one batch are read as one capture; what is
under way when a batch ends, such as a frame that is cut, does not go on in the next. Tables that
need a memory are made by a lake.
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
from wirelake.tables.inputs import (
    Capture,
    Watch,
    admit,
)
from wirelake.tables.snapshot import Snapshot, Source

from .offsets import (
    Offset,
    between,
    cursors,
    moved_on,
)
from .options import OptionError, Request
from .paths import folder
from .reading import done, planned

__all__ = ["CaptureStream"]


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads captures as they come. The driver has one for each query."""

    def __init__(self, request: Request, *, clock: Callable[[], int] = time.time_ns):
        if not request.files and request.read.table in DERIVED:
            raise OptionError(
                f"table: {request.read.table} follows connections from one file to the next, which"
                " a stream cannot; make a lake: wirelake lake run --from ... --to ... --stream"
            )
        self._request = request
        self._watch = Watch(folder(request.paths))
        self._clock = clock
        self._frozen: tuple[list[Capture], int] | None = None
        self._latest: Offset | None = None

    # Spark's names, and its order: this is what a query calls.

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a new query begins."""
        return self._request.pace.after

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What a batch may have at most. Where both are limited, bytes are looked at as well."""
        pace = self._request.pace
        if pace.max_files is not None:
            return ReadMaxFiles(pace.max_files)
        return ReadAllAvailable() if pace.max_bytes is None else ReadMaxBytes(pace.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on, nothing that comes into the folder counts."""
        self._frozen = self._looked()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the next batch; `start` itself when there is nothing to do."""
        captures, now_ns = self._frozen or self._looked()
        pace = self._request.pace
        admitted = functools.partial(
            admit,
            captures,
            _taken(cursors(start)),
            now_ns,
            lateness_s=pace.lateness_s,
            settle_s=pace.settle_s,
        )
        self._latest = moved_on(start, admitted().admitted)
        match limit:
            case ReadMaxFiles():
                found = admitted(max_files=limit.max_files, max_bytes=pace.max_bytes)
            case ReadMaxBytes():
                found = admitted(max_bytes=limit.max_bytes)
            case _:
                return self._latest
        return moved_on(start, found.admitted)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """How far the stream could go, as of the last look."""
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch: the same whenever they are asked for.

        Where only files are listed, one that is gone is none of them.
        """
        found = between(self._watch.look(), start, end, whole=not self._request.files)
        return planned(self._request, list(found.values()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. Called in a worker."""
        return done(self._request, partition)

    def _looked(self) -> tuple[list[Capture], int]:
        return self._watch.look(), self._clock()


def _taken(last: Mapping[str, int]) -> Snapshot:
    """A lake that has come so far."""
    found = Snapshot()
    for source, sequence in last.items():
        found.sources[source] = Source()
        found.sources[source].add(
            Input(source=source, sequence=sequence, path="", bytes=0, mtime_ns=0)
        )
    return found

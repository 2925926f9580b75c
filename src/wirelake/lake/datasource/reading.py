"""Captures as tasks, and tasks as rows: what readers of batches and of streams have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from wirelake.columnar.pipeline.pipeline import Item
from wirelake.columnar.read.reader import (
    DERIVED,
    finished,
    open_pipeline,
    table_schema,
)
from wirelake.tables.inputs import Capture

from .files import (
    FILE_SCHEMA,
    Listing,
    file_rows,
    listings,
)
from .options import PAYLOAD, Request
from .partitions import (
    Files,
    Share,
    Work,
    packed,
)
from .pruning import pruned

__all__ = ["FaultError", "done", "planned", "rows", "whole_schema"]

_FAULTS = "faults"


class FaultError(ValueError):
    """Bytes did not decode, and the option mode=failfast makes that an error."""


def whole_schema(request: Request) -> pa.Schema:
    """The columns of the table that is asked for."""
    return FILE_SCHEMA if request.files else table_schema(request.read)


def planned(request: Request, captures: Sequence[Sequence[Capture]]) -> list[InputPartition]:
    """The tasks that read these captures."""
    if request.files:
        return list(listings([each for files in captures for each in files]))
    if request.read.table in DERIVED:
        paths = tuple(each.path for files in captures for each in files)
        return [Work((Share(paths),))]
    whole = [
        Files(tuple(each.path for each in files), sum(each.bytes for each in files))
        for files in (pruned(each, request.read) for each in captures)
    ]
    return list(packed(whole, request.partitions))


def done(request: Request, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task."""
    if isinstance(task, Listing):
        yield from file_rows(task.files)
    else:
        assert isinstance(task, Work)
        for share in task.shares:
            yield from rows(request, share)


def rows(request: Request, share: Share) -> Iterator[pa.RecordBatch]:
    """The rows of a share, as the request wants them."""
    options = replace(request.read, share=share.share, shares=share.shares)
    also = (_FAULTS,) if request.failfast else ()
    windows: Iterable[Iterable[Item]] = open_pipeline(share.paths, options, also).windows()
    if request.failfast:
        windows = map(_faultless, windows)
    found = finished(options, windows)
    column = PAYLOAD.get(options.table) if request.hashed else None
    return found if column is None else (_hashed(batch, column) for batch in found)


def _faultless(window: Iterable[Item]) -> Iterator[Item]:
    """The same items. Raises FaultError at the first fault."""
    for table, found in window:
        if table == _FAULTS and isinstance(found, pa.RecordBatch) and found.num_rows:
            raise FaultError(_said(found.slice(0, 1).to_pylist()[0]))
        yield table, found


def _said(fault: dict[str, object]) -> str:
    return (
        f"{fault['file']}, offset {fault['offset']}: {fault['code']} ({fault['detail']}); with the"
        " option mode=permissive it is a row of the table faults instead"
    )


def _hashed(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """The batch with SHA-256 in place of a column's bytes."""
    place = batch.schema.get_field_index(column)
    if place < 0:
        return batch
    values = [
        None if each is None else hashlib.sha256(each).digest()
        for each in batch.column(place).to_pylist()
    ]
    return batch.set_column(place, batch.schema.field(place), pa.array(values, pa.binary()))

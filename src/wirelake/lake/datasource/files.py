"""The table `files`: the captures themselves, one row for each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from wirelake.capture.format.items import Packet
from wirelake.capture.format.limits import Limits
from wirelake.capture.format.reader import knows, read
from wirelake.tables.inputs import Capture

__all__ = ["FILE_SCHEMA", "Listing", "file_rows", "first_ns", "listings"]

_FILES_OF_A_TASK: Final = 256
"""Looking into a file takes little, and starting a task more."""

_FIRST: Final = Limits(chunk_bytes=1 << 16)
"""Of a file, no more is read than it takes."""
_LOOKED_AT: Final = 4_096
"""Packets stand at the beginning of a file; facts, keys and damage may come before the first."""


def _column(name: str, kind: pa.DataType, doc: str) -> pa.Field:
    return pa.field(name, kind, metadata={"doc": doc})


FILE_SCHEMA: Final = pa.schema(
    [
        _column("source", pa.string(), "The capture that the file is a part of."),
        _column("sequence", pa.int64(), "Its place in that capture."),
        _column("path", pa.string(), "Where it is."),
        _column("bytes", pa.int64(), "How large it is."),
        _column("mtime_ns", pa.int64(), "When it was last written to, ns since 1970."),
        _column("first_ns", pa.int64(), "When its first packet was captured; null if it has none."),
    ]
)
"""Its columns."""


@dataclass
class Listing(InputPartition):
    """What one task looks at."""

    files: tuple[Capture, ...]


def listings(files: Sequence[Capture]) -> list[Listing]:
    """The tasks that look at these files."""
    starts = range(0, len(files), _FILES_OF_A_TASK)
    return [Listing(tuple(files[start : start + _FILES_OF_A_TASK])) for start in starts]


def file_rows(files: Sequence[Capture]) -> Iterator[pa.RecordBatch]:
    """Rows for these files; a look into each tells when it begins."""
    seen = {"first_ns": [first_ns(each.path) for each in files]}
    known = [name for name in FILE_SCHEMA.names if name not in seen]
    columns = {name: [getattr(each, name) for each in files] for name in known}
    yield pa.RecordBatch.from_pydict({**columns, **seen}, FILE_SCHEMA)


def first_ns(path: str | os.PathLike[str]) -> int | None:
    """When the first packet of a capture was captured; None when there is none to be seen."""
    try:
        if knows(path, limits=_FIRST):  # anything else would be read to its end
            for item in islice(read(path, limits=_FIRST), _LOOKED_AT):
                if isinstance(item, Packet):
                    return item.ts_ns
    except OSError:
        pass
    return None

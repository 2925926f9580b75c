"""The table `files`: one row for each capture file."""

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

_TASK_FILES: Final = 256
"""Files of one task: reading the start of a file is cheaper than starting a task."""

_START: Final = Limits(chunk_bytes=1 << 16)
"""Reads small chunks: only the start of a file is needed."""
_MAX_BLOCKS: Final = 4_096
"""Blocks to look at: facts, keys and damage may come before the first packet."""


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


def first_ns(path: str | os.PathLike[str]) -> int | None:
    """Return the time of the first packet of a capture; None if none is found."""
    try:
        if knows(path, limits=_START):  # an unknown format would be read to its end
            for item in islice(read(path, limits=_START), _MAX_BLOCKS):
                if isinstance(item, Packet):
                    return item.ts_ns
    except OSError:
        pass
    return None

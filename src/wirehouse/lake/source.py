"""The data source `wirehouse` of Spark: captures as tables.

    spark.read.format("wirehouse").option("table", "calls").load("captures/")

Options are described in `options.py`. A read is cut into tasks by connection: each task reads all
files and decodes its own share of the connections, because a connection may go on from one file
to the next. So the rows are those of `wirehouse read`, however many tasks there are.

Decoding happens in the worker that yields the batches. Each further step through Python would cost
about as much as the whole read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from wirehouse.columnar.read import read_batches, table_schema

from .options import OptionError, Request, parse
from .paths import captures
from .pushdown import conditions
from .schemas import spark_schema

__all__ = ["CaptureReader", "PushdownReader", "Share", "WirehouseSource"]

_BYTES_OF_A_SHARE: Final = 32 << 20
"""How much of a capture is worth a task of its own."""
_MOST_SHARES: Final = 16
"""Every task looks at every packet: with more of them, that would cost more than decoding."""
_CROSSING: Final = frozenset({"deliveries", "connections", "tunnels", "calls"})
"""Tables that follow clients and tunnels from one connection to another: read in one task."""


@dataclass
class Share(InputPartition):
    """What one task reads: its share of the connections in these files."""

    paths: tuple[str, ...]
    share: int
    shares: int


class CaptureReader(DataSourceReader):
    """Reads captures, once."""

    def __init__(self, request: Request):
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """The shares. Called on the driver, for every plan."""
        paths = tuple(captures(self._request.paths))
        shares = self._shares(paths)
        return [Share(paths, share, shares) for share in range(shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a share. Called in a worker."""
        assert isinstance(partition, Share)
        options = replace(self._request.read, share=partition.share, shares=partition.shares)
        yield from read_batches(partition.paths, options)

    def _shares(self, paths: tuple[str, ...]) -> int:
        if self._request.read.table in _CROSSING:
            return 1
        if self._request.partitions is not None:
            return self._request.partitions
        size = sum(os.path.getsize(path) for path in paths)
        return min(_MOST_SHARES, 1 + size // _BYTES_OF_A_SHARE)


class PushdownReader(CaptureReader):
    """Takes conditions of a query over. Spark refuses it in sessions that do not allow that."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Takes what the filter language can say; gives back the rest, for Spark to do."""
        options = self._request.read
        taken, rest = conditions(filters, table_schema(replace(options, columns=None)))
        if taken:
            whole = [f"({options.filter})"] if options.filter else []
            chosen = replace(options, filter=" and ".join([*whole, *taken]))
            self._request = replace(self._request, read=chosen)
        yield from rest


class WirehouseSource(DataSource):
    """Spark's way in: makes readers from options."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))
        self._request = parse(options)

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "wirehouse"

    def schema(self) -> StructType:
        """The columns of the table that is asked for."""
        return spark_schema(table_schema(self._request.read))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of captures as they are now."""
        request = _narrowed(self._request, schema)
        return PushdownReader(request) if request.pushdown else CaptureReader(request)


def _narrowed(request: Request, schema: StructType) -> Request:
    """The request for the columns of a schema, which the user may have given."""
    known = table_schema(request.read)
    wanted = to_arrow_schema(schema, timezone="UTC")
    if wanted.equals(known):
        return request
    for field in wanted:
        if field.name not in known.names:
            raise OptionError(f"no column is called {field.name!r}; there are {known.names}")
        if known.field(field.name).type != field.type:
            kind = spark_schema(known)[field.name].dataType.simpleString()
            raise OptionError(f"the column {field.name} is {kind}")
    return replace(request, read=replace(request.read, columns=tuple(wanted.names)))

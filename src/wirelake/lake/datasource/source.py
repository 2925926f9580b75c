"""The Spark data source `wirelake`: captures as tables.

    spark.read.format("wirelake").option("table", "calls").load("captures/")

`options.py` describes the options, `paths.py` which files are read, `reading.py` how a read is
divided into tasks. The rows are those of `wirelake read` of each source, however many tasks there
are. `stream.py` is the streaming reader.

Captures are decoded inside `read`, which yields Arrow batches. A second Python step behind it (an
identity mapInArrow) would make a read take 2.5 times as long, tuples instead of Arrow 2.9 times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from wirelake.columnar.read.reader import table_schema

from ..spark.dataframes import spark_schema
from .options import FILES, OptionError, Request, parse
from .paths import captures
from .pushdown import conditions
from .stream import CaptureStream, plan, read_task, whole_schema

__all__ = ["CaptureReader", "PushdownReader", "WirelakeSource"]


class CaptureReader(DataSourceReader):
    """Batch reader."""

    def __init__(self, request: Request):
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. Called on the driver for every plan, `explain` included."""
        return plan(self._request, captures(self._request.paths))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Called in a worker."""
        return read_task(self._request, partition)


class PushdownReader(CaptureReader):
    """Batch reader that applies filters of a query.

    A class of its own: Spark rejects any reader with `pushFilters` in a session that does not
    enable filter pushdown, and by default none does.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Apply what the filter language can express; return the rest to Spark."""
        options = self._request.read
        taken, rest = conditions(filters, table_schema(replace(options, columns=None)))
        if taken:
            whole = [f"({options.filter})"] if options.filter else []
            chosen = replace(options, filter=" and ".join([*whole, *taken]))
            self._request = replace(self._request, read=chosen)
        yield from rest


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
        request = _narrowed(self._request, schema)
        pushes_down = request.pushdown and not request.files
        return PushdownReader(request) if pushes_down else CaptureReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a streaming reader."""
        return CaptureStream(_narrowed(self._request, schema))


def _narrowed(request: Request, schema: StructType) -> Request:
    """Restrict a request to the columns of a schema, which the user may have given."""
    known = whole_schema(request)
    wanted = to_arrow_schema(schema, timezone="UTC")
    if wanted.equals(known):
        return request
    for field in wanted:
        if field.name not in known.names:
            raise OptionError(
                f"unknown column {field.name!r}; expected one of {', '.join(known.names)}"
            )
        if known.field(field.name).type != field.type:
            kind = spark_schema(known)[field.name].dataType.simpleString()
            raise OptionError(f"invalid type of column {field.name!r}; expected {kind}")
    if request.files:
        raise OptionError(f"table {FILES} accepts no schema; use select")
    return replace(request, read=replace(request.read, columns=tuple(wanted.names)))

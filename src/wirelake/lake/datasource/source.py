"""The data source `wirelake` of Spark: captures as tables.

    spark.read.format("wirelake").option("table", "calls").load("captures/")

Options are described in `options.py`, which files are read in `paths.py`, and how a read is cut
into tasks in `packing.py`. The rows are those of `wirelake read` of each source, however many
tasks there are. Captures as they come in are read by `stream.py`.

Decoding happens in the worker that yields the batches. Each further step through Python would cost
about as much as the whole read.
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

from ..spark.schemas import spark_schema
from .options import (
    FILES,
    OptionError,
    Request,
    parse,
)
from .paths import captures
from .pushdown import conditions
from .reading import (
    done,
    planned,
    whole_schema,
)
from .stream import CaptureStream

__all__ = ["CaptureReader", "PushdownReader", "WirelakeSource"]


class CaptureReader(DataSourceReader):
    """Reads captures, once."""

    def __init__(self, request: Request):
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """The tasks. Called on the driver, for every plan."""
        return planned(self._request, captures(self._request.paths))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. Called in a worker."""
        return done(self._request, partition)


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


class WirelakeSource(DataSource):
    """Spark's way in: makes readers from options."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))
        self._request = parse(options)

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "wirelake"

    def schema(self) -> StructType:
        """The columns of the table that is asked for."""
        return spark_schema(whole_schema(self._request))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of captures as they are now."""
        request = _narrowed(self._request, schema)
        takes_conditions = request.pushdown and not request.files
        return PushdownReader(request) if takes_conditions else CaptureReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader of captures as they come."""
        return CaptureStream(_narrowed(self._request, schema))


def _narrowed(request: Request, schema: StructType) -> Request:
    """The request for the columns of a schema, which the user may have given."""
    known = whole_schema(request)
    wanted = to_arrow_schema(schema, timezone="UTC")
    if wanted.equals(known):
        return request
    for field in wanted:
        if field.name not in known.names:
            raise OptionError(f"unknown column {field.name!r}; there are {known.names}")
        if known.field(field.name).type != field.type:
            kind = spark_schema(known)[field.name].dataType.simpleString()
            raise OptionError(f"the column {field.name} is {kind}")
    if request.files:
        raise OptionError(f"the table {FILES} has all of its columns; use select")
    return replace(request, read=replace(request.read, columns=tuple(wanted.names)))

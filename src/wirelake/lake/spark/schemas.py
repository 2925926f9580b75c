"""Arrow schemas as Spark has them: the same names and types, doc lines as comments of columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_type

__all__ = ["spark_schema"]


def spark_schema(schema: pa.Schema) -> t.StructType:
    """The schema of a table for Spark; batches of the Arrow schema fit it exactly."""
    return t.StructType([_field(each) for each in schema])


def _field(field: pa.Field) -> t.StructField:
    return t.StructField(field.name, _type(field.type), field.nullable, _comment(field))


def _comment(field: pa.Field) -> dict[str, Any] | None:
    doc = (field.metadata or {}).get(b"doc")
    return {"comment": doc.decode()} if doc else None


def _type(kind: pa.DataType) -> t.DataType:
    if pa.types.is_struct(kind):
        return t.StructType([_field(kind.field(place)) for place in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return t.ArrayType(_type(kind.value_type), kind.value_field.nullable)
    return from_arrow_type(kind)

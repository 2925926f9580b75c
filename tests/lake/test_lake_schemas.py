"""Schemas in Spark: exactly those of Arrow, for every table, with the doc lines as comments."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from wirelake.columnar.read.reader import TABLES
from wirelake.lake.spark.dataframes import spark_schema
from wirelake.protocols import registry
from wirelake.records.schema import schema


@pytest.mark.parametrize("table", TABLES)
def test_spark_derives_the_same_arrow_schema(table: str) -> None:
    assert to_arrow_schema(spark_schema(schema(table)), timezone="UTC").equals(schema(table))


@pytest.mark.parametrize("protocol", registry.names())
def test_so_it_does_with_the_struct_of_one_protocol(protocol: str) -> None:
    whole = schema("messages", [protocol])
    assert to_arrow_schema(spark_schema(whole), timezone="UTC").equals(whole)


def test_what_must_not_be_null_stays_so() -> None:
    strict = pa.field("x", pa.int64(), nullable=False)
    whole = pa.schema([strict, pa.field("l", pa.list_(strict)), pa.field("s", pa.struct([strict]))])
    assert to_arrow_schema(spark_schema(whole), timezone="UTC").equals(whole)


def test_doc_lines_are_comments() -> None:
    found = spark_schema(schema("calls"))["latency_ns"]
    assert found.metadata == {
        "comment": "From request_ns to response_ns; null without one of them."
    }

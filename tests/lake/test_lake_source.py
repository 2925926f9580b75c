"""The data source in Spark: every table, every option, and how it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from wirelake.capture.record.recorder import Recorder
from wirelake.columnar.read.reader import PLAIN, TABLES, ReadOptions, read_batches, table_schema
from wirelake.lake.spark.dataframes import spark_schema
from wirelake.protocols import registry


def load(spark: SparkSession, path: Path | list[str], **options: str) -> DataFrame:
    where = path if isinstance(path, list) else str(path)
    return spark.read.format("wirelake").options(**options).load(where)


def key_logs(captures: Path) -> str:
    return ",".join(map(str, sorted(captures.glob("*.keys"))))


def direct(captures: Path, **options: Any) -> list[dict[str, Any]]:
    """The same without Spark."""
    chosen = ReadOptions(keys=sorted(captures.glob("*.keys")), **options)
    found = read_batches(sorted(captures.glob("*.pcap*")), chosen)
    return pa.Table.from_batches(found, schema=table_schema(chosen)).to_pylist()


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_what_the_reader_yields(spark: SparkSession, captures: Path, table: str) -> None:
    shares = "3" if table in PLAIN else "1"
    keys = key_logs(captures)
    found = load(spark, captures, table=table, keys=keys, partitions=shares)
    assert found.schema == spark_schema(table_schema(ReadOptions(table=table)))
    rows = found.toArrow().to_pylist()
    assert rows or table == "faults"
    assert in_any_order(rows) == in_any_order(direct(captures, table=table))


def test_calls_are_the_truth(spark: SparkSession, captures: Path) -> None:
    found = load(spark, captures, table="calls", keys=key_logs(captures))
    truth = pq.read_table(captures / "truth" / "calls.parquet")
    assert in_any_order(found.toArrow().to_pylist()) == in_any_order(truth.to_pylist())


def test_one_protocol_has_its_own_struct_alone(spark: SparkSession, captures: Path) -> None:
    found = load(spark, captures, protocol="comet")
    assert found.columns[-1] == "comet"
    assert not set(found.columns) & (set(registry.names()) - {"comet"})
    assert {row.protocol for row in found.select("protocol").distinct().collect()} == {"comet"}


def test_columns_filter_and_payload(spark: SparkSession, captures: Path) -> None:
    wanted = {"columns": "ts_ns,comet.auth.client_id", "filter": 'name == "auth"'}
    found = load(spark, captures, **wanted)
    assert found.columns == ["ts_ns", "comet.auth.client_id"]
    rows = found.toArrow().to_pylist()
    assert rows
    assert in_any_order(rows) == in_any_order(
        direct(captures, columns=("ts_ns", "comet.auth.client_id"), filter='name == "auth"')
    )
    assert "body" not in load(spark, captures, payload="none").columns


def test_a_schema_chooses_columns(spark: SparkSession, captures: Path) -> None:
    reader = spark.read.format("wirelake").schema("target string, ts_ns long")
    rows = reader.load(str(captures)).toArrow().to_pylist()
    assert in_any_order(rows) == in_any_order(direct(captures, columns=("target", "ts_ns")))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("nothing int", "unknown column 'nothing'"),
        ("ts_ns int", "invalid type of column 'ts_ns'; expected bigint"),
    ],
)
def test_a_schema_that_does_not_fit(
    spark: SparkSession, captures: Path, columns: str, said: str
) -> None:
    reader = spark.read.format("wirelake").schema(columns)
    with pytest.raises(PySparkException, match=said):
        reader.load(str(captures)).count()


def test_conditions_of_a_query(spark: SparkSession, captures: Path) -> None:
    found = load(spark, captures, filter="size_bytes > 20").where(
        "protocol = 'tny' AND direction IN ('c2s') AND comet IS NULL AND body_bytes < 200"
        " AND target LIKE '%0%'"
    )
    condition = 'size_bytes > 20 and protocol == "tny" and direction == "c2s" and body_bytes < 200'
    wanted = direct(captures, filter=f'{condition} and target ~ "*0*"')
    assert wanted
    assert found.count() == len(wanted)


def test_a_dataframe_has_all_rows_after_a_query_with_a_condition(
    spark: SparkSession, captures: Path
) -> None:
    # Spark 4.3 reuses a reader that has accepted filters, where the session allows it to.
    allowed = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(allowed, "false")
    spark.conf.set(allowed, "true")
    try:
        found = load(spark, captures, columns="protocol,kind")
        every = found.count()
        some = found.where("protocol = 'tny'").count()
        assert 0 < some < every
        assert found.count() == every
        assert found.where("protocol = 'comet'").count() + some < every
        assert found.where("protocol = 'tny'").count() == some
    finally:
        spark.conf.set(allowed, before or "false")


def test_several_paths(spark: SparkSession, captures: Path) -> None:
    files = sorted(map(str, captures.glob("*.pcap*")))
    found = load(spark, files, columns="file").distinct().collect()
    assert sorted(row.file for row in found) == files


def test_sql_knows_the_source(spark: SparkSession, captures: Path) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW packets USING wirelake"
        f" OPTIONS (path '{captures}', table 'packets')"
    )
    found = spark.sql("SELECT count(*) FROM packets").collect()[0][0]
    assert found == len(direct(captures, table="packets"))


def test_a_protocol_of_another_package_is_read_as_rows(spark: SparkSession, tmp_path: Path) -> None:
    weather = registry.find("weather")
    layouts = {layout.name: layout.cls for layout in weather.layouts()}
    recorder = Recorder(tmp_path, source="harbour")
    recorder.open(3, ("10.0.0.9", 50_000), ("10.0.0.1", weather.port or 0), "weather", 1)
    for frame in (
        layouts["hello"](name="Old Tom", key=b"secret"),
        layouts["report"](sky=5, battery=9, air=-125, gusts=(2_890, 3_110), wave=7.5),
    ):
        recorder.record(3, "c2s", weather.encode(frame), 2)
    recorder.close(3, 3, "eof")
    recorder.stop()
    rows = load(spark, tmp_path, protocol="weather").collect()
    assert [row.name for row in rows] == ["hello", "report"]
    assert rows[0].weather.hello.name == "Old Tom"
    assert rows[0].weather.hello.key is None
    report = rows[1].weather.report.asDict()
    assert report == {"sky": 5, "battery": 9, "air": -125, "gusts": [2_890, 3_110], "wave": 7.5}
    revealed = load(spark, tmp_path, protocol="weather", reveal="true").first()
    assert revealed.weather.hello.key == b"secret"


# -- failures --------------------------------------------------------------------------------


def failure(found: DataFrame) -> str:
    with pytest.raises(PySparkException) as error:
        found.count()
    return str(error.value)


def test_a_bad_option_fails_at_once(spark: SparkSession, captures: Path) -> None:
    with pytest.raises(
        PySparkException, match="unknown table 'call'; expected one of messages, packets"
    ):
        load(spark, captures, table="call")
    with pytest.raises(PySparkException, match="unknown option 'tabel'; expected one of path"):
        load(spark, captures, tabel="calls")


def test_a_path_without_captures_fails_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    assert f"PathError: {tmp_path}: no captures" in failure(load(spark, tmp_path))


def test_an_error_in_a_worker_has_its_cause(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "bad.keys"
    keys.write_text("\nno json\n")
    assert f"ValueError: {keys}, line 2: not JSON" in failure(load(spark, captures, keys=str(keys)))


def test_bad_bytes_become_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "noise.pcap").write_bytes(b"\x00nothing that is known" * 20)
    assert load(spark, tmp_path).count() == 0
    faults = load(spark, tmp_path, table="faults").collect()
    assert [row.code for row in faults] == ["unknown_file"]


def test_failfast_raises_on_bad_bytes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "noise.pcap").write_bytes(b"\x00nothing that is known" * 20)
    said = failure(load(spark, tmp_path, mode="failfast"))
    assert f"FaultError: {tmp_path}/noise.pcap, offset 0: unknown_file" in said
    assert "mode=permissive" in said

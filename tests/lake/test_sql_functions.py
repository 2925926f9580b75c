"""Functions of SQL in Spark."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from wirelake.lake.spark.dataframes import register_functions
from wirelake.records.schema import schema
from wirelake.tables.query import var_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value(spark: SparkSession, expression: str) -> Any:
    return spark.sql(f"SELECT {expression} AS found").toArrow().to_pylist()[0]["found"]


def test_times(spark: SparkSession) -> None:
    register_functions(spark)
    cases = {
        1_700_000_000_123_456_789: 1_700_000_000_123_456,
        0: 0,
        999: 0,
        -1: -1,
        -1_000: -1,
        -1_001: -2,
    }
    found = value(spark, f"array({', '.join(f'ns({each})' for each in cases)})")
    assert found == [EPOCH + timedelta(microseconds=each) for each in cases.values()]
    assert value(spark, f"array(ns({-(2**63)}L), ns(NULL))") == [None, None]
    assert value(spark, "array(ms(1500000), ms(-1), ms(NULL))") == [1.5, -0.000001, None]


def test_masked(spark: SparkSession) -> None:
    register_functions(spark)
    found = value(spark, "array(masked('secret'), masked(''), masked(NULL))")
    assert found == ["*** (6)", "*** (0)", None]


def node(parent: int, kind: int, name: str | None = None, **value: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("int", "float", "text", "bytes"))
    return {"parent": parent, "name": name, "type": kind, **empty, **value}


def texts(spark: SparkSession, values: list[Any]) -> list[str | None]:
    """What Spark makes of values, in their order."""
    rows = [
        {"ts_ns": place, "esnp": {"rows_by_kind": {"data": [{"value": each}]}}}
        for place, each in enumerate(values)
    ]
    said = pa.Table.from_pylist(rows, schema=schema("messages", ("esnp",)))
    spark.createDataFrame(said).createOrReplaceTempView("said")
    found = spark.sql(
        "SELECT var_text(esnp.rows_by_kind.data[0].value) AS it FROM said ORDER BY ts_ns"
    )
    return [row["it"] for row in found.toArrow().to_pylist()]


def test_var_text(spark: SparkSession) -> None:
    register_functions(spark)
    value = [
        node(-1, 21),
        node(0, 24, "name", text='a "b" [c]'),
        node(0, 23, "sizes"),
        node(2, 6, int=-5),
        node(2, 14, float=2.5),
        node(2, 21),
        node(2, 23),
        node(6, 11, int=-1),
        node(0, 1, "yes", int=1),
        node(0, 1, "yes", int=0),
        node(0, 17, "key", bytes=b"\x00\xff"),
        node(0, 0, "none"),
    ]
    wanted = (
        '{"name": "a \\"b\\" [c]", "sizes": [-5, 2.5, {}, [18446744073709551615]],'
        ' "yes": true, "yes": false, "key": {"hex": "00ff"}, "none": null}'
    )
    assert texts(spark, [value, [], None]) == [wanted, "null", None]
    assert var_text(value) == wanted


def at_random(chance: random.Random) -> list[dict[str, Any]]:
    """A value with all that can be in one."""
    words = ("", "a", "é", "[]", "\\ /", "line\n", "é\x1b", "\u202e\u3000", "\U0001f600")
    floats = (0.0, -1.5, 1e20, 1e-7, math.nan, math.inf, -math.inf, 0.1)
    found = [node(-1, chance.choice((21, 23)))]
    open_at = [0]
    for place in range(1, chance.randrange(1, 12)):
        while len(open_at) > 1 and chance.random() < 0.3:
            open_at.pop()
        parent = open_at[-1]
        name = chance.choice(words) if found[parent]["type"] == 21 else None
        match chance.choice((1, 6, 11, 14, 17, 21, 23, 24)):
            case 14:
                found.append(node(parent, 14, name, float=chance.choice(floats)))
            case 17:
                data = chance.choice((b"\xff\xfe", chance.choice(words).encode()))
                found.append(node(parent, 17, name, bytes=data))
            case 24:
                found.append(node(parent, 24, name, text=chance.choice(words)))
            case 21 | 23 as kind:
                found.append(node(parent, kind, name))
                open_at.append(place)
            case kind:
                number = chance.randrange(2) if kind == 1 else chance.randrange(-9, 9)
                found.append(node(parent, kind, name, int=number))
    return found


def test_var_text_is_the_same_json_as_without_spark(spark: SparkSession) -> None:
    register_functions(spark)
    chance = random.Random(7)
    values = [at_random(chance) for _ in range(300)]
    found = [json.loads(text or "", object_pairs_hook=list) for text in texts(spark, values)]
    assert found == [json.loads(var_text(each), object_pairs_hook=list) for each in values]


def test_functions_can_be_registered_twice(spark: SparkSession) -> None:
    register_functions(spark)
    register_functions(spark)
    assert value(spark, "ms(2000000)") == 2.0

"""Work that is spread over Spark's workers: each task is a function call, one row comes back.

    results = run_tasks(spark, decode, [DecodeTask(...), DecodeTask(...)])

Tables never travel this way: a task writes them to the lake's folder, and its row names the files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

__all__ = ["run_tasks"]

Task = TypeVar("Task")
Result = TypeVar("Result")

_ROW: Final = StructType(
    [StructField("task", LongType(), False), StructField("result", StringType(), False)]
)
_ARROW_ROW: Final = pa.schema(
    [pa.field("task", pa.int64(), nullable=False), pa.field("result", pa.string(), nullable=False)]
)


def run_tasks(
    spark: SparkSession,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    result: type[Result],
) -> list[Result]:
    """What `function` gives for each task, in their order; `result` is its type.

    The function is called in a worker, perhaps more than once: it is to write nothing but files of
    its own. Tasks and results are msgspec Structs.
    """
    if not tasks:
        return []
    packed = [msgspec.msgpack.encode(task) for task in tasks]
    work = functools.partial(_work, function, packed, type(tasks[0]))
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    found = numbers.mapInArrow(work, _ROW).collect()
    texts = {row["task"]: row["result"] for row in found}
    return [msgspec.json.decode(texts[number], type=result) for number in range(len(tasks))]


def _work(
    function: Callable[[Any], Any],
    packed: Sequence[bytes],
    kind: type[Any],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            done = function(msgspec.msgpack.decode(packed[number], type=kind))
            text = msgspec.json.encode(done).decode()
            yield pa.RecordBatch.from_pylist([{"task": number, "result": text}], _ARROW_ROW)

"""Work that is spread over Spark's workers: each task is a function call, one row comes back.

    results = run_tasks(spark, decode, [DecodeTask(...), DecodeTask(...)])

Tables never travel this way: a task writes them to the lake's folder, and its row names the files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

__all__ = [
    "run_tasks",
    "shares_of",
    "workers_of",
]


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


# Into how many tasks the work of a step is divided.


_BYTES_OF_A_SHARE: Final = 8 << 20
"""How much of a source is worth a task of its own."""
_MOST_SHARES: Final = 16
"""Every share of a source looks at all of its packets: more of them would cost more than save."""
_LOCAL: Final = re.compile(r"local\[(\d+)[^\]]*\]")
_CLUSTER: Final = re.compile(r"local-cluster\[(\d+),\s*(\d+),.*\]")


def shares_of(sizes: Mapping[str, int], workers: int) -> dict[str, int]:
    """Into how many tasks each source is divided, so that all workers have something to do.

    A source is only divided when it is so big that others cannot keep the workers busy meanwhile.
    """
    total = sum(sizes.values())
    found: dict[str, int] = {}
    for source, size in sizes.items():
        even = -(-size * workers // total) if total else 1
        worth = 1 + size // _BYTES_OF_A_SHARE
        found[source] = max(1, min(even, worth, _MOST_SHARES))
    return found


def workers_of(spark: SparkSession) -> int:
    """How many tasks a session runs at once, as far as its settings tell; else 2."""
    master = spark.conf.get("spark.master", "") or ""
    if match := _LOCAL.fullmatch(master):
        return int(match[1])
    if match := _CLUSTER.fullmatch(master):
        return int(match[1]) * int(match[2])
    executors = spark.conf.get("spark.executor.instances", "") or ""
    cores = spark.conf.get("spark.executor.cores", "") or "1"
    if executors.isdecimal() and cores.isdecimal():
        return max(1, int(executors) * int(cores))
    most = spark.conf.get("spark.cores.max", "") or ""
    return int(most) if most.isdecimal() else 2

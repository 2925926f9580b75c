"""Of pages that Spark prints about a failure, the one line that says why."""

from __future__ import annotations

import pytest

from wirelake.cli.errors import CommandError
from wirelake.cli.lake.run import reason, spark_failures

PYTHON = """
Traceback (most recent call last):
  File "worker.py", line 7, in read
ValueError: the file is no lake
"""
JAVA = """An error occurred while calling o68.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 21 more
"""


def test_the_last_line_of_a_traceback() -> None:
    assert reason(RuntimeError(PYTHON)) == "ValueError: the file is no lake"
    assert reason(RuntimeError(JAVA)) == "java.io.IOException: No space left on device"
    without_cause = JAVA.partition("Caused by")[0]
    assert reason(RuntimeError(without_cause)) == (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 failed 1 times"
    )


def test_without_a_traceback_the_first_line() -> None:
    assert reason(RuntimeError("it is late\nand dark")) == "it is late"
    assert reason(RuntimeError()) == "RuntimeError"


class _JavaError(Exception):
    """An exception whose text the JVM has, like Py4JJavaError."""

    def __str__(self) -> str:
        raise KeyError("p")


def test_an_error_whose_text_is_gone_with_the_jvm() -> None:
    assert reason(_JavaError()) == "_JavaError"
    with pytest.raises(CommandError, match="Spark has ended"), spark_failures():
        raise _JavaError

"""A function called per stream batch: when, with what arguments, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from wirelake.lake.engine.streaming import Batch, StreamError, follow

NO_WAIT = {"settle": "0", "lateness": "0"}


@pytest.fixture
def folder(captures: Path, tmp_path: Path) -> Path:
    """The recordings of a simulation, 0 and 1 of the source edge-a."""
    for each in sorted(captures.glob("edge-a-*")):
        shutil.copy(each, tmp_path)
    return tmp_path


def test_what_is_there_step_by_step(spark: SparkSession, folder: Path) -> None:
    steps: list[Mapping[str, int]] = []
    batches: list[Batch] = []
    before = spark.conf.get("spark.sql.streaming.numRecentProgressUpdates")
    follow(
        spark,
        str(folder),
        steps.append,
        available_now=True,
        max_files=1,
        seen=batches.append,
        **NO_WAIT,
    )
    assert steps == [{"edge-a": 0}, {"edge-a": 1}]
    assert batches == [
        Batch(0, 1, {"edge-a": 0}, {"edge-a": 1}),
        Batch(1, 1, {"edge-a": 1}, {"edge-a": 1}),
    ]
    assert spark.streams.active == []
    assert spark.conf.get("spark.sql.streaming.numRecentProgressUpdates") == before


def test_stream_starts_at_the_given_position(spark: SparkSession, folder: Path) -> None:
    steps: list[Mapping[str, int]] = []
    options = {"available_now": True, **NO_WAIT}
    follow(spark, str(folder), steps.append, start={"edge-a": 0}, **options)  # type: ignore[arg-type]
    follow(spark, str(folder), steps.append, start={"edge-a": 1}, **options)  # type: ignore[arg-type]
    assert steps == [{"edge-a": 1}]


def test_it_continues_as_captures_arrive(spark: SparkSession, captures: Path, folder: Path) -> None:
    steps: list[Mapping[str, int]] = []

    def step(up_to: Mapping[str, int]) -> None:
        steps.append(dict(up_to))
        for each in sorted(captures.glob("tap-a-*.pcap")):
            shutil.copy(each, folder)

    follow(
        spark,
        str(folder),
        step,
        trigger_s=0.1,
        until=lambda: bool(steps) and steps[-1].get("tap-a") == 1,
        **NO_WAIT,
    )
    assert steps[0] == {"edge-a": 1}
    assert steps[-1] == {"edge-a": 1, "tap-a": 1}


def test_a_signal_ends_it_between_two_steps(
    spark: SparkSession, captures: Path, folder: Path
) -> None:
    steps: list[Mapping[str, int]] = []
    before = signal.getsignal(signal.SIGTERM)

    def step(up_to: Mapping[str, int]) -> None:
        assert not steps, "a step after the signal"
        for each in sorted(captures.glob("tap-a-*.pcap")):
            shutil.copy(each, folder)
        os.kill(os.getpid(), signal.SIGTERM)
        steps.append(up_to)

    follow(spark, str(folder), step, trigger_s=0.1, **NO_WAIT)
    assert steps == [{"edge-a": 1}]
    assert signal.getsignal(signal.SIGTERM) is before
    assert spark.streams.active == []


def test_a_step_that_fails_ends_it_and_is_tried_again(spark: SparkSession, folder: Path) -> None:
    steps: list[Mapping[str, int]] = []

    def fail(_: Mapping[str, int]) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        follow(spark, str(folder), fail, available_now=True, **NO_WAIT)
    assert spark.streams.active == []
    follow(spark, str(folder), steps.append, available_now=True, **NO_WAIT)
    assert steps == [{"edge-a": 1}]


def test_a_failed_stream_is_an_error_of_one_line(
    spark: SparkSession, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    away = tmp_path_factory.mktemp("away") / "captures"

    def step(_: Mapping[str, int]) -> None:
        folder.rename(away)

    with pytest.raises(StreamError, match=r"stream failed: .*no such folder") as found:
        follow(spark, str(folder), step, trigger_s=0.1, **NO_WAIT)
    assert "\n" not in str(found.value)

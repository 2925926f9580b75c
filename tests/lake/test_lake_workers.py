"""A step plans for the workers that its session has."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from wirelake.lake.engine.spark_workers import workers_of
from wirelake.lake.spark.session import settings


class Session:
    """A session with other settings, and by default so many cores."""

    def __init__(self, spark: SparkSession, conf: dict[str, str], cores: int):
        self.conf = conf
        self.range = lambda stop: spark.range(0, stop, 1, cores)


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.master": "local[*]"},
        {"spark.master": "local[*,4]"},
        {"spark.master": "spark://head:7077"},
        {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"},
        {},
    ],
)
def test_a_session_that_sets_no_limit_is_asked(spark: SparkSession, conf: dict[str, str]) -> None:
    for cores in (1, 3):
        session: Any = Session(spark, conf, cores)
        assert workers_of(session) == cores


def test_spark_divides_a_range_by_its_cores(spark: SparkSession) -> None:
    class Unlimited:
        conf: ClassVar = {"spark.master": "local[*]"}
        range = spark.range

    session: Any = Unlimited()
    assert workers_of(session) == 2  # of the session of all tests


class Silent:
    """A session that cannot be asked."""

    def __init__(self, conf: dict[str, str]):
        self.conf = conf


@pytest.mark.parametrize(
    ("conf", "workers"),
    [
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,4]"}, 3),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "spark://head:7077", "spark.cores.max": "16"}, 16),
        ({"spark.executor.instances": "4", "spark.executor.cores": "4"}, 16),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "8",
                "spark.executor.instances": "1",
                "spark.executor.cores": "2",
            },
            16,
        ),
    ],
)
def test_settings_that_fix_the_number_of_workers(conf: dict[str, str], workers: int) -> None:
    session: Any = Silent(conf)
    assert workers_of(session) == workers


@pytest.mark.parametrize(
    ("master", "partitions"),
    [("local[3]", 6), ("local", 2), ("local-cluster[2,3,1024]", 12), ("local[*,4]", 10)],
)
def test_local_shuffles_have_two_partitions_per_core(
    master: str, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert settings(master)["spark.sql.shuffle.partitions"] == str(partitions)

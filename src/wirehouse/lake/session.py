"""Spark sessions with settings that suit Wirehouse.

    spark = session()                                    two cores of this machine
    spark = session(master="spark://head:7077", **{"spark.executor.memory": "4g"})

Nothing here is needed to read captures: `spark.read.format("wirehouse")` works in any session. What
it adds is a Java (see `java.py`), workers that start with everything loaded (see `daemon.py`), UTC,
and silence on the terminal unless something is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from .java import java_home

__all__ = ["SparkSession", "session", "settings"]

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_LOOPBACK: Final = "127.0.0.1"


def session(
    app: str = "wirehouse", *, master: str | None = None, cores: int = 2, **conf: str
) -> SparkSession:
    """A Spark session; the one that runs already, if there is one.

    `master` is where Spark runs, by default `cores` of this machine. `conf` has further settings
    of Spark, by their full names; they win over the ones chosen here.
    """
    chosen = master or f"local[{cores}]"
    builder = SparkSession.builder.appName(app).master(chosen)
    for name, value in {**settings(chosen, cores), **conf}.items():
        builder = builder.config(name, value)
    with _environment(_for_java(chosen)):
        return builder.getOrCreate()


def settings(master: str, cores: int = 2) -> dict[str, str]:
    """The settings of Spark that a session gets on this master."""
    found = {
        "spark.pyspark.python": _python(),
        # Workers fork from a process that has kernels and pandas loaded.
        "spark.python.daemon.module": "wirehouse.lake.daemon",
        # A crash in a worker shows the Python stack in the driver's exception.
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        # Without it, a reader that takes filters is refused (option `pushdown`).
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }
    if _is_local(master):
        found |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            # The default of 200 is for clusters; a laptop would wait for empty tasks.
            "spark.sql.shuffle.partitions": str(2 * cores),
        }
    return found


def _is_local(master: str) -> bool:
    """Whether everything runs on this machine, as with local[2] or local-cluster[2,1,1024]."""
    return master.startswith("local")


def _python() -> str:
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


def _for_java(master: str) -> dict[str, str]:
    """What the JVM, and every process that it starts, must find in its environment."""
    found = {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": _python()}
    if _is_local(master):
        found["SPARK_LOCAL_IP"] = _LOOPBACK
    return found


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment with changes: the JVM inherits them, this process does not keep them."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

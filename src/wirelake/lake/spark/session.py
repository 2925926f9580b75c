"""Spark sessions with settings that suit Wirelake.

    spark = session()                                    two cores of this machine
    spark = session(master="spark://head:7077", **{"spark.executor.memory": "4g"})
    spark = session(remote="sc://head:15002")            a server of Spark Connect

Nothing here is needed to read captures: `spark.read.format("wirelake")` works in any session. What
it adds is a Java (see `java.py`), workers that start with everything loaded (see `daemon.py`), UTC,
and silence on the terminal unless something is wrong.

Spark is imported when a session is started, not before.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414 - for the types of others

__all__ = ["SessionError", "session", "settings"]

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_LOOPBACK: Final = "127.0.0.1"
_ANYWHERE: Final = {
    # A crash in a worker shows the Python stack in the driver's exception.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # Without it, a reader that takes filters is refused (option `pushdown`).
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that a session may choose for itself, wherever Spark runs."""
_ATTEMPTS: Final = 4
"""How often a task is tried: a worker may be killed, on one machine as on many."""
_CONNECT: Final = ("grpc", "grpc_status", "google.rpc")
"""What a client of Spark Connect needs besides Spark."""


class SessionError(RuntimeError):
    """A session cannot be started; the message says what to do about it."""


def session(
    app: str = "wirelake",
    *,
    master: str | None = None,
    remote: str | None = None,
    cores: int = 2,
    ui: bool = False,
    **conf: str,
) -> SparkSession:
    """A Spark session; the one that runs already, if there is one.

    `master` is where Spark runs, by default `cores` of this machine; `remote` is the address of a
    server of Spark Connect instead. `ui` switches Spark's web pages on. `conf` has further settings
    of Spark, by their full names; they win over the ones chosen here.
    """
    if remote is not None:
        if master is not None:
            raise SessionError("a session has a master or a remote, not both")
        return _connected(app, remote, conf)
    chosen = master or f"local[{cores},{_ATTEMPTS}]"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(chosen)
    for name, value in {**settings(chosen, cores, ui=ui), **conf}.items():
        builder = builder.config(name, value)
    with _environment(_for_java(chosen)):
        return builder.getOrCreate()


def _connected(app: str, remote: str, conf: Mapping[str, str]) -> SparkSession:
    missing = [each for each in _CONNECT if not _is_installed(each)]
    if missing:
        raise SessionError(
            f"Spark Connect needs {missing[0]}, which is missing: pip install 'wirelake[connect]'"
        )
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).remote(remote)
    for name, value in {**_ANYWHERE, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def settings(master: str, cores: int = 2, *, ui: bool = False) -> dict[str, str]:
    """The settings of Spark that a session gets on this master."""
    found = {
        **_ANYWHERE,
        "spark.pyspark.python": _python(),
        # Workers fork from a process that has kernels and pandas loaded.
        "spark.python.daemon.module": "wirelake.lake.spark.daemon",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.ui.enabled": "true" if ui else "false",
        "spark.ui.showConsoleProgress": "false",
        # A step of a lake has about 150 pieces of generated code, the same in each step. By
        # default Spark keeps 100, and so would compile all of them anew each time.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }
    if _is_local(master):
        found |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            # The default of 200 is for clusters; a laptop would wait for empty tasks.
            "spark.sql.shuffle.partitions": str(2 * cores),
            # Functions of SQL make this folder, by default wherever one happens to be.
            "spark.sql.warehouse.dir": f"file:{tempfile.gettempdir()}/wirelake-warehouse",
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

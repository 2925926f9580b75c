"""Spark sessions configured for Wirelake.

    spark = session()                                    two local cores
    spark = session(master="spark://head:7077", **{"spark.executor.memory": "4g"})
    spark = session(remote="sc://head:15002")            a Spark Connect server

None of this is needed to read captures: `spark.read.format("wirelake")` works in any session. A
session from here also finds a Java (`java.py`), forks workers that have everything loaded
(`daemon.py`), uses UTC, and is silent on the terminal unless something is wrong.

pyspark is imported when a session is started, not before.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import queue
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .class_archive import archive_options
from .java import JavaError, find_java, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414 - for the types of others

__all__ = [
    "SessionError",
    "reason",
    "session",
    "settings",
]

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_LOOPBACK: Final = "127.0.0.1"
_ANYWHERE: Final = {
    # A segfault in a worker then shows the Python stack in the driver's exception.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of a session, wherever Spark runs."""
_ATTEMPTS: Final = 4
"""Attempts of a task: a worker may be killed, on one machine as in a cluster."""
_RAISED: Final = re.compile(r"[\w.]+(?:Error|Exception): (?P<message>.+)")
_MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?$|yarn$|(spark|k8s)://.")
_STANDALONE: Final = "spark://"
_MASTERS: Final = "local, local[4], local[*], spark://HOST:7077, yarn or k8s://ADDRESS"
_CONTEXT_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_CONNECT: Final = ("grpc", "grpc_status", "google.rpc")
"""Modules that a Spark Connect client needs besides pyspark."""
_CONNECT_S: Final = 10.0
"""Time for each part of connecting to a master or to a Spark Connect server."""


class SessionError(RuntimeError):
    """A session cannot be started; the message says what to do."""


def session(
    app: str = "wirelake",
    *,
    master: str | None = None,
    remote: str | None = None,
    cores: int = 2,
    ui: bool = False,
    **conf: str,
) -> SparkSession:
    """Return a Spark session; the running one, if there is one.

    `master` defaults to `cores` local cores; `remote` is the address of a Spark Connect server
    instead. `ui` enables Spark's web UI. `conf` are further Spark settings by their full names,
    which override those chosen here.
    """
    _quieten()
    if remote is not None:
        if master is not None:
            raise SessionError("master conflicts with remote")
        return _connected(app, remote, conf)
    # Plain local[n] gives a task one attempt: a killed worker would fail the whole run.
    chosen = master or f"local[{cores},{_ATTEMPTS}]"
    if not _MASTER.match(chosen):
        # Java would print its stack, and say less.
        raise SessionError(f"invalid master {chosen!r}; expected {_MASTERS}")
    if chosen.startswith(_STANDALONE):
        _check_master(chosen)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(chosen)
    for name, value in {**settings(chosen, cores, ui=ui), **conf}.items():
        builder = builder.config(name, value)
    with _environment(_for_java(chosen)):
        return builder.getOrCreate()


def _quieten() -> None:
    """Keep pyspark from printing what it raises as well."""
    from pyspark import accumulators
    from pyspark.logger import PySparkLogger

    # A page of JSON for each error of a query.
    for name in _CONTEXT_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # A traceback when the JVM is killed.
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        setattr(server, "handle_error", lambda *_: None)  # noqa: B010 - not a method for mypy


def _connected(app: str, remote: str, conf: Mapping[str, str]) -> SparkSession:
    missing = [each for each in _CONNECT if not _is_installed(each)]
    if missing:
        raise SessionError(
            f"missing optional dependency {missing[0]}: pip install 'wirelake[connect]'"
        )
    from pyspark.sql import SparkSession

    _check_server(remote)
    builder = SparkSession.builder.appName(app).remote(remote)
    for name, value in {**_ANYWHERE, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _check_master(master: str) -> None:
    """Raise SessionError if no master of a standalone cluster accepts connections."""
    # Spark tries for a minute, and then says that its context was stopped.
    failure = ""
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except (OSError, ValueError) as error:
            failure = f"{address}: {getattr(error, 'strerror', None) or error}"
        else:
            return
    raise SessionError(f"no Spark master answers at {failure}")


def _check_server(remote: str) -> None:
    """Raise SessionError if a Spark Connect server does not accept connections."""
    # The client of Spark tries again for ten minutes, and ignores SIGTERM meanwhile.
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        builder = DefaultChannelBuilder(remote)
    except (PySparkException, ValueError) as error:
        raise SessionError(
            f"invalid remote {remote!r}; expected an address such as sc://head:15002"
        ) from error
    found: queue.SimpleQueue[grpc.ChannelConnectivity] = queue.SimpleQueue()
    ready, failed = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE
    with builder.toChannel() as channel:
        channel.subscribe(found.put, try_to_connect=True)
        state = None
        with contextlib.suppress(queue.Empty):
            while state not in (ready, failed):
                state = found.get(timeout=_CONNECT_S)
    if state is not ready:
        raise SessionError(f"no Spark Connect server answers at {builder.endpoint}")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def settings(master: str, cores: int = 2, *, ui: bool = False) -> dict[str, str]:
    """Return the Spark settings of a session on a master."""
    found = {
        **_ANYWHERE,
        # Workers must run the Python that has wirelake installed, not the first one on the path.
        "spark.pyspark.python": _python(),
        # The first call of a worker takes 0.01 s instead of 0.85 s with kernels and pandas loaded.
        "spark.python.daemon.module": "wirelake.lake.spark.daemon",
        "spark.python.worker.faulthandler.enabled": "true",
        # The UI takes a port, and commands have no use for it.
        "spark.ui.enabled": "true" if ui else "false",
        "spark.ui.showConsoleProgress": "false",
        # A step of a lake has about 150 generated classes, the same in each step. Spark caches
        # 100 by default, and would compile all of them again each time.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.driver.extraJavaOptions": " ".join(_java_options()),
    }
    if _is_local(master):
        found |= {
            # By default Spark listens on the address of the host's name, for the whole network.
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            # The default of 200 is for clusters; locally most of these tasks would be empty.
            "spark.sql.shuffle.partitions": str(2 * _local_cores(master, cores)),
            # SQL functions create this folder, by default in the current directory.
            "spark.sql.warehouse.dir": f"file:{tempfile.gettempdir()}/wirelake-warehouse",
        }
    return found


def _java_options() -> list[str]:
    found = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    with contextlib.suppress(JavaError):  # reported when a session is started
        found += [f'"{option}"' for option in archive_options(find_java())]
    return found


def _is_local(master: str) -> bool:
    """Return whether everything runs locally, as with local[2] or local-cluster[2,1,1024]."""
    return master.startswith("local")


def _local_cores(master: str, cores: int) -> int:
    """Return the cores of a local master: local[4], local[*], local-cluster[2,1,1024]."""
    counts = re.findall(r"[\d*]+", master)
    if master.startswith("local-cluster"):
        return int(counts[0]) * int(counts[1]) if len(counts) > 1 else cores
    if master == "local":
        return 1
    first = counts[0] if counts else ""
    return (os.cpu_count() or cores) if first == "*" else int(first or cores)


def _python() -> str:
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


def _for_java(master: str) -> dict[str, str]:
    """Return the environment that the JVM and its child processes need."""
    found = {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": _python()}
    if _is_local(master):
        found["SPARK_LOCAL_IP"] = _LOOPBACK
    return found


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change the environment for the JVM to inherit, and restore it."""
    # The JVM reads it once, when it is started; the environment of the caller is not ours to keep.
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


def reason(text: str) -> str:
    """Return the message that a Python traceback ends with, else the first line of the text.

    Errors of Spark contain the traceback of a worker in the middle of a Java stack trace.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    messages = [found["message"] for line in lines if (found := _RAISED.fullmatch(line))]
    return messages[-1] if messages else "".join(lines[:1])

"""A Spark Connect server for tests, on a free local port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from wirelake.lake.spark.java import java_home
from wirelake.lake.spark.session import settings

_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 180


@contextmanager
def connect_server(work: Path, master: str = "local[2]") -> Iterator[str]:
    """Start a server; yield its address. `work` is a folder for its log."""
    port = _free_port()
    home = Path(pyspark.__file__).parent
    conf = {
        **settings(master),
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
    }
    arguments = [part for each in conf.items() for part in ("--conf", "=".join(each))]
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_LOG_DIR": str(work),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_PID_DIR": str(work),
    }
    said = work / "connect-server.txt"
    with said.open("wb") as out:
        server = subprocess.Popen(
            [home / "sbin" / "start-connect-server.sh", "--master", master, *arguments],
            env=environment,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await(server, port, said)
        yield f"sc://{_LOOPBACK}:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(_PATIENCE_S)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


def _await(server: subprocess.Popen[bytes], port: int, said: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection((_LOOPBACK, port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"the server does not start: {said.read_text(errors='replace')[-2000:]}")

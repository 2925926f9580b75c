"""A lake on a cluster: a master and two workers of Spark, as the guide on clusters starts them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from wirelake.lake.spark.java import java_home
from wirelake.traffic import simulate

from .lakes import untrue

LOOPBACK = "127.0.0.1"
HOME = Path(pyspark.__file__).parent
PATIENCE_S = 180
RUN = (sys.executable, "-m", "wirelake.cli", "lake", "run")


def environment() -> dict[str, str]:
    """Everything stays on this machine, and no JVM lives long enough to be worth optimizing for."""
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }


@contextmanager
def started(log: Path, what: str, *arguments: str) -> Iterator[None]:
    """A process of the cluster, from when it is ready until it is ended."""
    program = [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{what}", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            program, env=environment(), stdout=out, stderr=subprocess.STDOUT, cwd=log.parent
        )
    try:
        _await(process, log, r"elected leader|Successfully registered with master")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _await(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if re.search(words, log.read_text(errors="replace")):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


@contextmanager
def cluster(work: Path) -> Iterator[str]:
    """A master and two workers with a core each; gives the master's address."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    address = f"spark://{LOOPBACK}:{port}"
    here = ("--host", LOOPBACK, "--webui-port", "0")
    with ExitStack() as stack:
        log = work / "master.txt"
        stack.enter_context(started(log, "master.Master", *here, "--port", str(port)))
        for number in (1, 2):
            mine = ("--cores", "1", "--memory", "1g", "--work-dir", str(work / f"work{number}"))
            log = work / f"worker{number}.txt"
            stack.enter_context(started(log, "worker.Worker", *here, *mine, address))
        yield address


@pytest.mark.soak
def test_a_lake_built_by_two_workers_equals_the_truth(tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    simulate(captures, size="300kB", seed=11, faults=0.003, jobs=1)
    keys = [part for path in sorted(captures.glob("*.keys")) for part in ("--keys", str(path))]
    conf = {
        "spark.driver.host": LOOPBACK,
        # No spark.cores.max: a step plans for the workers that are there.
        "spark.sql.shuffle.partitions": "2",
    }
    options = [part for each in conf.items() for part in ("--conf", "=".join(each))]
    with cluster(tmp_path) as address:
        done = subprocess.run(
            [*RUN, "--from", captures, "--to", lake, "--master", address, *options, *keys],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert untrue(lake, captures) == []
    for number in (1, 2):
        said = [path.read_text("utf-8") for path in tmp_path.glob(f"work{number}/*/*/stderr")]
        assert any("Finished task" in text for text in said), f"worker {number} had nothing to do"

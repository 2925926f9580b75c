"""A process with a Spark session of its own, which does one job after the other.

    with Worker(cores=2, conf={}) as worker:
        worker.do("lake", captures="captures", to="lake")

Jobs are the functions of `lake_jobs`. The process reads one line of JSON for each, and writes one
when it is done; it ends when there are no more. What takes long to start is not timed: a job says
itself how long it took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["Taken", "Worker"]

_END_S = 30.0
"""How long a process may take to end."""


class Taken(NamedTuple):
    """What a job took."""

    seconds: float
    bytes: int
    """Of the captures that it read; 0 when it read none."""
    rows: int
    """Messages that it wrote."""

    @property
    def mb_per_s(self) -> float:
        """Megabytes of captures for each second."""
        return self.bytes / self.seconds / 1e6


class Worker:
    """The process, seen from outside."""

    def __init__(self, cores: int, conf: Mapping[str, str]):
        """Starts it. `conf` has settings of Spark."""
        command = [sys.executable, "-m", "benchmarks.lake_worker", str(cores), json.dumps(conf)]
        self._process = subprocess.Popen(
            command,
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        """Of the driver; Spark's processes are below it."""

    def do(self, job: str, **arguments: Any) -> Taken:
        """Does a job."""
        self.start(job, **arguments)
        return self.result()

    def start(self, job: str, **arguments: Any) -> None:
        """Begins a job."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"job": job, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def result(self) -> Taken:
        """What the job took that was begun. Raises RuntimeError when it failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker has ended with {self._process.wait()}")
        said = json.loads(line)
        if "error" in said:
            raise RuntimeError(said["error"])
        return Taken(**said)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _main(cores: str, conf: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever Spark prints is no answer
    from wirelake.lake import session

    from .lake_jobs import JOBS

    spark = session("wirelake benchmark", cores=int(cores), **json.loads(conf))
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said: dict[str, Any] = JOBS[asked["job"]](spark, **asked["arguments"])._asdict()
        except Exception:
            said = {"error": traceback.format_exc()}
        answers.write(json.dumps(said) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])

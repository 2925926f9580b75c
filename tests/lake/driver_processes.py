"""Lake drivers in separate processes, to be killed with their workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from tests.lake.lake_driver import Done, Order

__all__ = ["Driver", "killed_at", "killed_writing", "left_over", "started", "worker_killed"]

_ROOT = Path(__file__).parents[2]
_DAEMON = b"wirelake.lake.spark.daemon"
_LOOK_S = 0.02
_PATIENCE_S = 900


class Driver:
    """A running driver."""

    def __init__(self, process: subprocess.Popen[str], said: Path, lake: Path):
        self._process = process
        self._said = said
        self._staging = lake / "_staging"
        self.result = ""
        """The last line that it printed."""

    def steps(self) -> Iterator[str]:
        """Names of parts of steps, each before it is done, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.result = line.strip()
            yield self.result

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        for _ in self.steps():
            pass
        return self._process.wait(_PATIENCE_S)

    def done(self) -> Done:
        """The result of a run."""
        assert self.wait() == 0, self.last_words()
        return msgspec.json.decode(self.result, type=Done)

    def last_words(self) -> str:
        """Return the last line of standard error."""
        return (self._said.read_text(errors="replace").splitlines() or [""])[-1]

    def kill(self) -> None:
        """Kill it together with Spark."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def writing(self) -> list[int]:
        """Workers that are writing files of a task."""
        return [
            int(process.name)
            for process in Path("/proc").iterdir()
            if process.name.isdecimal()
            and _is_worker(process)
            and _writes_to(process, self._staging)
        ]


@contextmanager
def started(order: Order, work: Path) -> Iterator[Driver]:
    """Start a driver and kill it at the end. `work` is for temporary files."""
    work.mkdir(parents=True, exist_ok=True)
    said = work / "said.txt"
    environment = {**os.environ, "TMPDIR": str(work), "SPARK_LOCAL_DIRS": str(work)}
    program = [sys.executable, "-m", "tests.lake.lake_driver", msgspec.json.encode(order).decode()]
    with (
        said.open("wb") as errors,
        subprocess.Popen(
            program,
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        driver = Driver(process, said, Path(order.lake))
        try:
            yield driver
        finally:
            driver.kill()


def killed_at(order: Order, work: Path) -> bool:
    """Run a driver that kills itself; return False if it finished first."""
    with started(order, work) as driver:
        code = driver.wait()
        assert code in (0, -signal.SIGKILL), driver.last_words()
        return code != 0


def killed_writing(order: Order, work: Path, *, after_s: float = 0.0) -> bool:
    """Kill a driver while its workers write; return False if it finished first."""
    with started(order, work) as driver:
        while driver.is_alive():
            if driver.writing():
                time.sleep(after_s)
                driver.kill()
            time.sleep(_LOOK_S)
        return driver.wait() != 0


def worker_killed(driver: Driver) -> bool:
    """Kill a worker while it writes; return False if the driver finished first."""
    while driver.is_alive():
        for worker in driver.writing():
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGSTOP)  # it may have finished since
                if worker in driver.writing():
                    os.kill(worker, signal.SIGKILL)
                    return True
                os.kill(worker, signal.SIGCONT)
        time.sleep(_LOOK_S)
    return False


def left_over(lake: Path) -> list[str]:
    """Return the content of staging."""
    staging = lake / "_staging"
    return sorted(each.name for each in staging.iterdir()) if staging.is_dir() else []


def _is_worker(process: Path) -> bool:
    with suppress(OSError):
        return _DAEMON in (process / "cmdline").read_bytes()
    return False


def _writes_to(process: Path, folder: Path) -> bool:
    """Whether a process has a file in a folder open for writing."""
    with suppress(OSError):
        for each in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(each).startswith(f"{folder}/"):
                    flags = re.search(
                        r"flags:\s*(\d+)", (process / "fdinfo" / each.name).read_text()
                    )
                    if flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False

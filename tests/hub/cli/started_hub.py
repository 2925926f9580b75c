"""A hub as a process of its own, as `wirelake hub` runs it.

with hub_process(folder, "--demo") as hub:
    hub.address("comet"); hub.end() ...
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hub.stores import configured

DEADLINE_S = 60.0
FREE_PORTS = "".join(
    f"[{name}]\nport = 0\n" for name in ("esnp", "tny", "relay", "magline", "comet", "admin")
)
"""A configuration in which every port is free."""


class HubProcess:
    """A hub that has said `ready`, or is about to."""

    def __init__(self, process: subprocess.Popen[str], data: Path):
        self.process = process
        self.data = data
        self.lines: list[str] = []

    def wait_ready(self) -> None:
        """Until all listeners are up."""
        while "ready" not in self.lines:
            line = self._line()
            assert line, f"it ended: {self.lines} {self._errors()}"
            self.lines.append(line.rstrip("\n"))

    def address(self, name: str) -> tuple[str, int]:
        """Where a listener listens, as it said itself."""
        for line in self.lines:
            words = line.split()
            if words[:2] == ["listening", name]:
                host, _, port = words[2].rpartition(":")
                return host.strip("[]"), int(port)
        raise AssertionError(f"no listener {name} in {self.lines}")

    def hear(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Ends it; its exit code, and what it said on standard error."""
        self.hear(number)
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors

    def _line(self) -> str:
        """The next line; empty when it ends, which it does when it is silent for too long."""
        assert self.process.stdout is not None
        too_late = threading.Timer(DEADLINE_S, self.process.kill)
        too_late.start()
        try:
            return self.process.stdout.readline()
        finally:
            too_late.cancel()
            too_late.join()

    def _errors(self) -> str:
        return self.process.communicate(timeout=DEADLINE_S)[1]


def wirelake(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "wirelake.cli", *args],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        cwd=cwd,
        check=False,
    )


@contextmanager
def hub_process(
    folder: Path, *args: str, config: str = FREE_PORTS, cwd: Path | None = None
) -> Iterator[HubProcess]:
    """A hub with its data in a folder, ready; it is killed if the test does not end it."""
    file = folder / "hub.toml"
    data = folder / "data"
    file.write_text(config if "[store]" in config else config + configured(data))
    command = [sys.executable, "-m", "wirelake.cli", "hub", "--data", str(data)]
    process = subprocess.Popen(
        [*command, "--config", str(file), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=cwd,
    )
    made = HubProcess(process, data)
    try:
        made.wait_ready()
        yield made
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


def eventually(condition: object, what: str) -> None:
    """Waits until a function gives something true."""
    assert callable(condition)
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.01)

"""A demo in a separate process, and a check of what it leaves behind.

with started(folder, "--seconds", "3") as demo:
    demo.wait_for("simulating traffic")
    demo.send(signal.SIGINT)
    assert demo.wait() == 130
assert demo.left_over() == []
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wirelake.tables.check import check
from wirelake.tables.log import Log

__all__ = ["SMALL", "STEPS", "DemoProcess", "started"]

SMALL = ("--any-port", "--seconds", "3", "--scale", "0.05")
"""Options of the smallest demo."""
STEPS = (
    "checking requirements",
    "starting a hub",
    "starting Spark",
    "simulating traffic",
    "stopping the hub",
    "reading the last recordings",
    "comparing all figures",
    "writing ",
)
"""Starts of the progress lines, one per step."""
_MARK = "WIRELAKE_DEMO_TEST"
_PATIENCE_S = 300.0
_LOOK_S = 0.02
_HEARING = ("env", "--default-signal=INT,TERM,HUP")
"""Signals that may be ignored on start, in the background or under nohup, are reset."""
_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class DemoProcess:
    """A running demo."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]):
        self.folder = folder
        """Working directory."""
        self.temporary = folder / "temporary files"
        """Folder for temporary files."""
        self.temporary.mkdir(parents=True)
        self.kept = folder / "kept"
        """Folder for --keep."""
        self._mark = uuid.uuid4().hex
        self._addresses: list[tuple[str, int]] = []
        with (folder / "out.txt").open("wb") as out, (folder / "err.txt").open("wb") as err:
            self.process = subprocess.Popen(
                [*_HEARING, sys.executable, "-m", "wirelake.cli", "demo", *arguments],
                cwd=folder,
                env={
                    **os.environ,
                    _MARK: self._mark,
                    "TMPDIR": str(self.temporary),
                    "JDK_JAVA_OPTIONS": _LIGHT_JAVA,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        """Standard output so far."""
        return (self.folder / "out.txt").read_text("utf-8")

    @property
    def err(self) -> str:
        """Standard error so far."""
        return (self.folder / "err.txt").read_text("utf-8")

    def wait_for(self, text: str, where: Callable[[], str] | None = None) -> bool:
        """Wait for this output; return False if the demo ended without it."""
        said = where or (lambda: self.err)
        deadline = time.monotonic() + _PATIENCE_S
        while text not in said():
            assert time.monotonic() < deadline, f"no {text!r} in {said()!r}"
            if self.process.poll() is not None:
                return text in said()
            time.sleep(_LOOK_S)
        return True

    def send(self, number: int) -> None:
        """Send a signal to the demo only; its children have their own sessions."""
        self._addresses = self._listening()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(_PATIENCE_S)

    def members(self) -> dict[int, str]:
        """Return its running processes, itself included, with their command lines."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"{_MARK}={self._mark}".encode() in path.read_bytes().split(b"\0"):
                    name = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(path.parent.name)] = name.decode("utf-8", "replace")[:200]
        return found

    def member(self, part: str) -> int | None:
        """Return the process whose command line contains this."""
        return next((number for number, name in self.members().items() if part in name), None)

    def left_over(self) -> list[str]:
        """Return what is left over after its end, as text."""
        found = [f"left running: {each}" for each in self.members().values()]
        found += [f"left behind: {each.name}" for each in self.temporary.iterdir()]
        found += [f"left behind: {each}" for each in self.folder.glob(".*.part")]
        found += [f"port {port} is held" for host, port in self._addresses if _held(host, port)]
        if "Traceback" in self.err or "Exception" in self.err:
            found.append(f"it says {self.err[-500:]!r}")
        if (self.kept / "scratch").exists():
            found.append("left behind: scratch")
        return found + self._lake_problems()

    def kill_all(self) -> None:
        """Kill all its processes, by id."""
        for number in self.members():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait(_PATIENCE_S)

    def _lake_problems(self) -> list[str]:
        """Return the problems of a kept lake; unreferenced files do not count."""
        lake = self.kept / "lake"
        if not Log(lake).exists():
            return []
        return [f"lake: {each}" for each in check(lake) if not each.harmless]

    def _listening(self) -> list[tuple[str, int]]:
        """Return the known addresses of its hub."""
        for folder in (self.kept, *self.temporary.glob("wirelake-demo-*")):
            with suppress(OSError):
                said = (folder / "scratch" / "hub.out").read_text("utf-8").splitlines()
                words = [line.split() for line in said if line.startswith("listening ")]
                pairs = [each[2].rpartition(":") for each in words if len(each) == 3]
                return [(host, int(port)) for host, _, port in pairs]
        return []


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[DemoProcess]:
    """Start a demo in a folder; kill what is left at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    demo = DemoProcess(folder, arguments)
    try:
        yield demo
    finally:
        demo.kill_all()


def _held(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False

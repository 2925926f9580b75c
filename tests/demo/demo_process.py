"""A demo in a process of its own, as its users run it, and what it leaves behind.

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
"""As small as it gets."""
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
"""How the lines begin that it says, one for each step."""
_MARK = "WIRELAKE_DEMO_TEST"
_PATIENCE_S = 300.0
_LOOK_S = 0.02
_HEARING = ("env", "--default-signal=INT,TERM,HUP")
"""In the background, or below nohup, a signal may be ignored from the start; and so it would be."""
_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class DemoProcess:
    """A demo that was started."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]):
        self.folder = folder
        """Where it runs."""
        self.temporary = folder / "temporary files"
        """Where it puts what is temporary."""
        self.temporary.mkdir(parents=True)
        self.kept = folder / "kept"
        """What a test should name with --keep."""
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
        """What it printed."""
        return (self.folder / "out.txt").read_text("utf-8")

    @property
    def err(self) -> str:
        """What it said about what it does."""
        return (self.folder / "err.txt").read_text("utf-8")

    def wait_for(self, text: str, where: Callable[[], str] | None = None) -> bool:
        """Waits until it says this; False when it has ended without."""
        said = where or (lambda: self.err)
        deadline = time.monotonic() + _PATIENCE_S
        while text not in said():
            assert time.monotonic() < deadline, f"no {text!r} in {said()!r}"
            if self.process.poll() is not None:
                return text in said()
            time.sleep(_LOOK_S)
        return True

    def send(self, number: int) -> None:
        """Sends a signal to the demo alone, as a terminal does: the others have own sessions."""
        self._addresses = self._listening()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(_PATIENCE_S)

    def members(self) -> dict[int, str]:
        """Processes that come from it and run, itself included, and what they are."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"{_MARK}={self._mark}".encode() in path.read_bytes().split(b"\0"):
                    name = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(path.parent.name)] = name.decode("utf-8", "replace")[:200]
        return found

    def member(self, part: str) -> int | None:
        """The process whose command line has this."""
        return next((number for number, name in self.members().items() if part in name), None)

    def left_over(self) -> list[str]:
        """What is there after its end and should not be, in words."""
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
        """Ends everything that comes from it, by id."""
        for number in self.members():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait(_PATIENCE_S)

    def _lake_problems(self) -> list[str]:
        """What is wrong with a lake that was kept; files that nobody names are no harm."""
        lake = self.kept / "lake"
        if not Log(lake).exists():
            return []
        return [f"lake: {each}" for each in check(lake) if not each.harmless]

    def _listening(self) -> list[tuple[str, int]]:
        """Where its hub listens, as far as it has said so."""
        for folder in (self.kept, *self.temporary.glob("wirelake-demo-*")):
            with suppress(OSError):
                said = (folder / "scratch" / "hub.out").read_text("utf-8").splitlines()
                words = [line.split() for line in said if line.startswith("listening ")]
                pairs = [each[2].rpartition(":") for each in words if len(each) == 3]
                return [(host, int(port)) for host, _, port in pairs]
        return []


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[DemoProcess]:
    """Starts a demo in a folder; whatever is left of it in the end is killed."""
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

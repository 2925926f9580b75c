"""Processes of the demo: those that it starts, whatever they start, and signals that end it.

Each runs in a session of its own, so that Ctrl-C reaches the demo alone. This module is also the
program that they run in: `python -m wirelake.cli.demo.processes MODULE ARGUMENTS` runs a module
until standard input ends. That is a pipe whose other end the demo holds, so the module is ended as
by SIGTERM when the demo wants it, and also when the demo is killed.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from threading import Thread
from types import FrameType
from typing import Any, Final

__all__ = [
    "Child",
    "Interrupts",
    "ProcessTree",
    "Stopped",
    "descendants",
    "main",
]


_END_TIMEOUT_S: Final = 10.0
"""Time for a process to end after SIGTERM; a hub drains in less than half of it."""
_POLL_S: Final = 0.02
_PR_SET_CHILD_SUBREAPER: Final = 36


class Child:
    """A Python module in a process of its own."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], logs: Path):
        self.name = name
        self._out = logs / f"{name}.out"
        self._log = logs / f"{name}.log"
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = Popen(
                [sys.executable, "-m", "wirelake.cli.demo.processes", module, *arguments],
                stdin=PIPE,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs."""
        return self._process.poll()

    def output_lines(self) -> list[str]:
        """Return the complete lines of its standard output."""
        text = self._out.read_text("utf-8", "replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def error(self) -> str:
        """Return the last line of its standard error, or else its exit code."""
        lines = [line.strip() for line in self._log.read_text("utf-8", "replace").splitlines()]
        found = next((line for line in reversed(lines) if line), "")
        return found.removeprefix("wirelake: ") or f"exit code {self.code}"

    def wait(self) -> None:
        """Wait until it ends by itself."""
        self._process.wait()

    def end(self) -> int:
        """Terminate it, or kill it after a while; return its exit code."""
        with self._process as process:
            process.terminate()
            try:
                return process.wait(_END_TIMEOUT_S)
            except TimeoutExpired:
                process.kill()
                return process.wait()


class ProcessTree:
    """All processes that this one starts, directly or not, from now on."""

    def __init__(self) -> None:
        # Spark's daemon outlives the JVM that started it. Adopted by init it could not be found
        # again; as a subreaper this process becomes its parent.
        self._before = set(descendants())
        _adopt_orphans(True)

    def members(self) -> list[int]:
        """Return the ids of those that run."""
        return [each for each in descendants() if each not in self._before]

    def end(self, *, gently: bool) -> None:
        """End them all, with SIGTERM first if `gently`, and wait until they are gone."""
        if gently:
            self._send(signal.SIGTERM)
            self._wait()
        self._send(signal.SIGKILL)
        self._wait()
        _adopt_orphans(False)

    def _send(self, number: int) -> None:
        for each in self.members():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, number)

    def _wait(self) -> None:
        deadline = time.monotonic() + _END_TIMEOUT_S
        while (left := self.members()) and time.monotonic() < deadline:
            for each in left:
                with suppress(ChildProcessError):
                    os.waitpid(each, os.WNOHANG)
            time.sleep(_POLL_S)


def descendants() -> list[int]:
    """Return the running descendants of this process; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    is_running: dict[int, bool] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The command name may contain blanks and brackets; the fields after it do not.
            state, parent = path.read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            number = int(path.parent.name)
            children.setdefault(int(parent), []).append(number)
            # A zombie is over, but one of ours still has to be waited for.
            is_running[number] = state != "Z" or int(parent) == os.getpid()
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        started = children.get(waiting.pop(), [])
        found += started
        waiting += started
    return [each for each in found if is_running[each]]


def _adopt_orphans(enabled: bool) -> None:
    """Make this process the parent of orphaned descendants (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


# -- signals -----------------------------------------------------------------------------------

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NAMES: Final = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "the end of the terminal",
}


class Stopped(BaseException):
    """A signal arrived."""

    def __init__(self, number: int):
        super().__init__(_NAMES[signal.Signals(number)])
        self.code = 128 + number
        """The exit code: 128 and the number of the signal."""


class Interrupts:
    """While it is entered, the first signal raises `Stopped` in the main thread."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._deferrals = 0
        self._pending: int | None = None
        self._is_raised = False

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            # An ignored signal stays ignored: nohup and background jobs rely on it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def defer(self) -> None:
        """Defer signals from here on."""
        self._deferrals += 1

    def release(self) -> None:
        """Stop deferring; a deferred signal takes effect."""
        self._deferrals -= 1
        self._raise_if_due()

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer signals until the end of the block."""
        self.defer()
        try:
            yield
        finally:
            self.release()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._pending is None:
            self._pending = number
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._pending is not None and not self._is_raised and self._deferrals == 0:
            self._is_raised = True
            raise Stopped(self._pending)


# -- the program of a child --------------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    """Run the module that the first argument names, with the others as its arguments."""
    Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    # Not sys.stdin: a blocked reader holds its lock, and the interpreter could not exit.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1:])

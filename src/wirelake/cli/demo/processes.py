"""The processes of the demo: those that it starts, and whatever they start.

Each runs in a session of its own, so that Ctrl-C reaches the demo alone, and through
`demo_child.py`, so that it ends with the demo even when that is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Final

__all__ = ["Child", "Family", "descendants"]

_PATIENCE_S: Final = 10.0
"""How long a process that was told to end may take: a hub that drains has half of it."""
_LOOK_S: Final = 0.02
_PR_SET_CHILD_SUBREAPER: Final = 36


class Child:
    """A module of Python that runs in a process."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], logs: Path):
        self.name = name
        self._out = logs / f"{name}.out"
        self._log = logs / f"{name}.log"
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = Popen(
                [sys.executable, "-m", "wirelake.cli.demo.child", module, *arguments],
                stdin=PIPE,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def said(self) -> list[str]:
        """The whole lines of its standard output."""
        text = self._out.read_text("utf-8", "replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def last_words(self) -> str:
        """The last line of what it complained about; without one, how it ended."""
        lines = [line.strip() for line in self._log.read_text("utf-8", "replace").splitlines()]
        found = next((line for line in reversed(lines) if line), "")
        return found.removeprefix("wirelake: ") or f"exit code {self.code}"

    def wait(self) -> None:
        """Returns when it has ended by itself."""
        self._process.wait()

    def end(self) -> int:
        """Tells it to end, and sees to it; its exit code."""
        with self._process as process:
            process.terminate()
            try:
                return process.wait(_PATIENCE_S)
            except TimeoutExpired:
                process.kill()
                return process.wait()


class Family:
    """All processes that come from this one, from now on."""

    def __init__(self) -> None:
        self._before = set(descendants())
        _adopt_orphans(True)

    def members(self) -> list[int]:
        """Those that run."""
        return [each for each in descendants() if each not in self._before]

    def end(self, *, gently: bool) -> None:
        """Ends them all, by asking first or at once, and waits until they are gone."""
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
        deadline = time.monotonic() + _PATIENCE_S
        while (left := self.members()) and time.monotonic() < deadline:
            for each in left:
                with suppress(ChildProcessError):
                    os.waitpid(each, os.WNOHANG)
            time.sleep(_LOOK_S)


def descendants() -> list[int]:
    """Processes that come from this one and run. None are known where there is no /proc."""
    children: dict[int, list[int]] = {}
    is_running: dict[int, bool] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name may have blanks and brackets in it; what comes behind it has none.
            state, parent = path.read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            number = int(path.parent.name)
            children.setdefault(int(parent), []).append(number)
            is_running[number] = state != "Z" or int(parent) == os.getpid()
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        born = children.get(waiting.pop(), [])
        found += born
        waiting += born
    return [each for each in found if is_running[each]]


def _adopt_orphans(wanted: bool) -> None:
    """Makes grandchildren whose parent is gone come to this process, where Linux does that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)

"""Single key presses from a terminal, without Enter; restores the terminal afterwards."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = ["Keys", "terminal_keys"]

_TERMINATED = 128 + signal.SIGTERM


class Keys:
    """Key presses; none if standard input is not a terminal."""

    def __init__(self, handle: int | None):
        self._handle = handle

    def wait(self, seconds: float) -> str:
        """Wait for a key; return an empty string on timeout."""
        if self._handle is None:
            time.sleep(max(0.0, seconds))
            return ""
        ready, _, _ = select.select([self._handle], [], [], max(0.0, seconds))
        if not ready:
            return ""
        pressed = os.read(self._handle, 64)
        if not pressed:  # the terminal was closed
            raise KeyboardInterrupt
        return pressed[:1].decode("ascii", "replace")


@contextmanager
def terminal_keys() -> Iterator[Keys]:
    """Read keys unbuffered and without echo; also restores the terminal on SIGTERM."""
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        if not sys.stdin.isatty():
            yield Keys(None)
            return
        import termios
        import tty

        handle = sys.stdin.fileno()
        saved = termios.tcgetattr(handle)
        try:
            tty.setcbreak(handle)
            yield Keys(handle)
        finally:
            termios.tcsetattr(handle, termios.TCSADRAIN, saved)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _terminate(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)

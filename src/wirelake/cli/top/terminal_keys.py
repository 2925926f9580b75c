"""Single keys from a terminal, without Enter; the terminal is put back as it was."""

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
    """What is pressed; never anything when standard input is no terminal."""

    def __init__(self, handle: int | None):
        self._handle = handle

    def wait(self, seconds: float) -> str:
        """The next key; empty when the time is over first."""
        if self._handle is None:
            time.sleep(max(0.0, seconds))
            return ""
        ready, _, _ = select.select([self._handle], [], [], max(0.0, seconds))
        if not ready:
            return ""
        pressed = os.read(self._handle, 64)
        if not pressed:  # the terminal is gone: nobody looks any more
            raise KeyboardInterrupt
        return pressed[:1].decode("ascii", "replace")


@contextmanager
def terminal_keys() -> Iterator[Keys]:
    """Keys at once and unseen, for as long as this lasts. SIGTERM leaves a clean terminal, too."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        if not sys.stdin.isatty():
            yield Keys(None)
            return
        import termios
        import tty

        handle = sys.stdin.fileno()
        kept = termios.tcgetattr(handle)
        try:
            tty.setcbreak(handle)
            yield Keys(handle)
        finally:
            termios.tcsetattr(handle, termios.TCSADRAIN, kept)
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)

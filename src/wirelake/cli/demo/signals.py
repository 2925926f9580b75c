"""Signals that end the demo: an exception in the main thread, once, and never while it cleans up.

with Interrupts() as interrupts:
    with interrupts.held():          nothing happens in between
        process = start()
        clean_up.callback(process.end)
    ...
    interrupts.hold()                from here on, nothing interrupts any more
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

__all__ = ["Interrupts", "Stopped"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WORDS: Final = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "the end of its terminal",
}


class Stopped(BaseException):
    """A signal came."""

    def __init__(self, number: int):
        super().__init__(_WORDS[signal.Signals(number)])
        self.code = 128 + number
        """The exit code that says so."""


class Interrupts:
    """While it is entered, the first signal raises `Stopped` in the main thread."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._holds = 0
        self._came: int | None = None
        self._is_raised = False

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            # What is ignored stays so: that is how nohup and background jobs work.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """From here on signals wait."""
        self._holds += 1

    def release(self) -> None:
        """They do not any more; one that came meanwhile takes effect."""
        self._holds -= 1
        self._raise_if_due()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals that come meanwhile take effect at the end."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def _note(self, number: int, _: FrameType | None) -> None:
        if self._came is None:
            self._came = number
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._came is not None and not self._is_raised and self._holds == 0:
            self._is_raised = True
            raise Stopped(self._came)

"""Signals that end the demo: one exception in the main thread, and none during cleanup.

with Interrupts() as interrupts:
    with interrupts.held():          no signal takes effect in between
        process = start()
        clean_up.callback(process.end)
    ...
    interrupts.hold()                from here on, no signal takes effect
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

__all__ = ["Interrupts", "Stopped"]

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
        self._holds = 0
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

    def hold(self) -> None:
        """Defer signals from here on."""
        self._holds += 1

    def release(self) -> None:
        """Stop deferring; a deferred signal takes effect."""
        self._holds -= 1
        self._raise_if_due()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer signals until the end of the block."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._pending is None:
            self._pending = number
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._pending is not None and not self._is_raised and self._holds == 0:
            self._is_raised = True
            raise Stopped(self._pending)

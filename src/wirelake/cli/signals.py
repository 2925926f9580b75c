"""What signals do to a command: end it with an exception, or stop its inputs.

SIGHUP stays ignored where it was: `nohup` has it ignored so that a command outlives its terminal.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeAlias

__all__ = ["ended_by_signals", "stopped_by_signals"]

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that unfinished files are removed."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    with _handled(_ENDS, end):
        yield


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal to end, and interrupt at the second."""
    stopped = False

    def end(*_: object) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True
        stop()

    with _handled((signal.SIGINT, *_ENDS), end):
        yield


@contextmanager
def _handled(signals: Iterable[signal.Signals], handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the program that runs a command in a thread
        return
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    chosen = [each for each in signals if not (ignored and each is signal.SIGHUP)]
    before = {each: signal.signal(each, handler) for each in chosen}
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)

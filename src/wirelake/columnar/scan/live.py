"""Live inputs to packets: each is scanned by a thread of its own, and one reader gets all windows.

    inputs = LiveInputs([open_input("-")])
    for number, rows in inputs.windows(limits=Limits(), facts=True):
        ...                             # inputs.stop() ends all inputs, from a signal handler

A window holds what arrived while the reader was busy, and at least what came within 60 ms
(`capture/live/feed.py`). So it is small when there is little to do, and as large as a file's when
the reader is behind; then pipes fill and their writers wait.

Windows of several inputs are handed out in the order of their first packets, as far as they have
arrived: one is taken when each of the others has a window, or waits for bytes. So files that are
followed are read in the order of their times up to their ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Final

from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import FileFault
from wirelake.capture.live.feed import LiveFeed
from wirelake.capture.live.inputs import Input

from .blocks import TS
from .scanner import PacketRows, Scanner

__all__ = ["LiveInputs"]

_WINDOW_BYTES: Final = 8 << 20
"""The most that makes a window: half a second at the speed of decoding, and little memory."""
_SHARED_WINDOW_BYTES: Final = 1 << 20
"""The same for several inputs: their packets come out of order by at most what a window spans."""
_TICK_S: Final = 0.2
"""How often `on_tick` is called while nothing arrives."""
_PROBLEMS: Final = {
    "unknown_file": "not a capture: neither pcap nor pcapng",
    "truncated_file": "ends in the middle of a packet: the rest of the capture is missing",
    "bomb": "expands to more than a capture can have",
}
"""Faults of a file after which nothing more of it is read."""


class _State(Enum):
    """What the thread of an input does."""

    READING = "reading"
    IDLE = "idle"
    """It waits for bytes."""
    ENDED = "ended"


class LiveInputs:
    """Inputs that are read at the same time, as one capture."""

    def __init__(self, inputs: Sequence[Input], *, on_tick: Callable[[], None] = lambda: None):
        """`on_tick` is called now and then while windows are waited for; what it raises is
        raised there."""
        self.paths = [each.name for each in inputs]
        """The names of the inputs, by number."""
        self.problems: dict[str, str] = {}
        """By name: why the capture of an input is not complete."""
        self.packets = 0
        """How many have been read."""
        self._inputs = list(inputs)
        self._on_tick = on_tick
        self._changed = threading.Condition()
        self._needed = False
        self._closed = False
        self._stopped = False
        self._scans: list[_Scan] = []

    @property
    def ended_empty(self) -> bool:
        """Whether the inputs were stopped before anything arrived."""
        return self._stopped and all(each.is_empty for each in self._scans)

    def stop(self) -> None:
        """End all inputs; what has arrived is still read. Safe in a signal handler."""
        self._stopped = True
        for each in self._inputs:
            each.stop()

    def windows(self, *, limits: Limits, facts: bool) -> Generator[tuple[int, PacketRows]]:
        """Yield windows, each with the number of its input, until all inputs have ended."""
        size = _WINDOW_BYTES if len(self._inputs) == 1 else _SHARED_WINDOW_BYTES
        self._scans = [
            _Scan(each, self._changed, self._is_needed, size, limits, facts=facts)
            for each in self._inputs
        ]
        try:
            for each in self._scans:
                each.start()
            while (found := self._take()) is not None:
                yield found
        finally:
            self.close()

    def close(self) -> None:
        """Stop all threads and release the inputs."""
        if self._closed:
            return
        self._closed = True
        for scan in self._scans:
            scan.abandon()
        for scan in self._scans:
            scan.join()
        for each in self._inputs:
            each.close()

    def _is_needed(self) -> bool:
        return self._needed

    def _take(self) -> tuple[int, PacketRows] | None:
        """Wait for the next window; None when all inputs have ended."""
        self._on_tick()
        with self._changed:
            self._needed = True
            while any(each.window is None and each.state is _State.READING for each in self._scans):
                self._wait()
            # Here and not only while waiting: a thread may fail while the reader is busy.
            self._check()
            while all(each.window is None for each in self._scans):
                if all(each.state is _State.ENDED for each in self._scans):
                    return None
                self._wait()
            self._needed = False
            number = min(
                (at for at, each in enumerate(self._scans) if each.window is not None),
                key=lambda at: self._scans[at].first_ns,
            )
            scan = self._scans[number]
            rows = scan.taken()
        if scan.problem is not None:
            self.problems[self.paths[number]] = scan.problem
        self.packets += rows.count
        return number, rows

    def _wait(self) -> None:
        if not self._changed.wait(_TICK_S):
            self._on_tick()
        self._check()

    def _check(self) -> None:
        """Raise the error of a thread that has failed, once its windows are taken."""
        for each in self._scans:
            if each.error is not None and each.window is None:
                raise each.error


class _Scan(threading.Thread):
    """Scans one input. Fields are guarded by the condition."""

    def __init__(
        self,
        source: Input,
        changed: threading.Condition,
        needed: Callable[[], bool],
        window_bytes: int,
        limits: Limits,
        *,
        facts: bool,
    ):
        super().__init__(name=f"scan {source.name}", daemon=True)
        self.state = _State.READING
        self.window: PacketRows | None = None
        """The next window, until the reader takes it."""
        self.first_ns = 0
        """The time of its first packet."""
        self.problem: str | None = None
        """Why the capture of the input is not complete."""
        self.error: Exception | None = None
        """What the thread failed with."""
        self._source = source
        self._changed = changed
        self._window_bytes = window_bytes
        self._limits = limits
        self._facts = facts
        self._abandoned = False
        self._feed = LiveFeed(source, limits, needed=needed, idle=self._set_idle)

    @property
    def is_empty(self) -> bool:
        """Whether no byte has arrived."""
        return self._feed.is_empty

    def taken(self) -> PacketRows:
        """Return the window and make room for the next."""
        rows, self.window = self.window, None
        assert rows is not None
        self._changed.notify_all()
        return rows

    def abandon(self) -> None:
        """End the thread; its windows are not read any more."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()
        self._source.abandon()

    def run(self) -> None:
        """Scan the input."""
        try:
            self._scan()
        except Exception as error:  # whatever it is, the reader raises it
            self.error = error
        finally:
            self._set(_State.ENDED)

    def _scan(self) -> None:
        scanner = Scanner(
            self._feed, window_bytes=self._window_bytes, limits=self._limits, facts=self._facts
        )
        for rows in scanner.windows():
            if scanner.done:
                self.problem = self._source.problem or self._found_problem(rows)
            with self._changed:
                self._changed.wait_for(lambda: self.window is None or self._abandoned)
                if self._abandoned:
                    return
                self.first_ns = int(rows.packet_i64[TS, 0]) if rows.count else 0
                self.window = rows
                self._changed.notify_all()

    def _found_problem(self, rows: PacketRows) -> str | None:
        if self.is_empty:
            return "empty: no capture was written to it"
        for _, item in rows.items:
            if isinstance(item, FileFault) and item.code in _PROBLEMS:
                return _PROBLEMS[item.code]
        return None

    def _set_idle(self, idle: bool) -> None:
        self._set(_State.IDLE if idle else _State.READING)

    def _set(self, state: _State) -> None:
        with self._changed:
            self.state = state
            self._changed.notify_all()

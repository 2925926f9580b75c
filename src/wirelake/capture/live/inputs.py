"""Inputs whose bytes arrive while they are read: pipes, and files that grow.

    source = open_input("-")
    while chunk := source.read(None):
        ...

An input is read by one thread and stopped by another. It ends with its bytes, or when it is
stopped; `problem` then says why the capture is not complete, if it is not. Nothing here knows what
the bytes mean.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import BinaryIO, Final

from wirelake.wire.paths import local_path

__all__ = [
    "CHUNK_BYTES",
    "DRAIN_S",
    "STANDARD_INPUT",
    "GrowingFile",
    "Input",
    "Pipe",
    "is_live",
    "open_input",
]

STANDARD_INPUT: Final = "-"
_STANDARD_INPUT_NUMBER: Final = 0
CHUNK_BYTES: Final = 1 << 20
"""How much is read at a time, and how much a pipe is asked to hold: a tenth of a second at ten
times the traffic of 20,000 messages a second. It is as much as Linux allows without rights."""
DRAIN_S: Final = 1.0
"""How long a stopped pipe is still read. Ctrl-C ends all programs of a pipeline at once, and the
capture program then writes what it has and closes the pipe."""
_POLL_S: Final = 0.05
"""How often the end of a growing file is looked at. inotify would need a library or ctypes, and
does not work on network file systems."""
_IDENTITY_POLLS: Final = 10
"""After so many looks at the end of the file, whether its name still leads to it."""


class Input(ABC):
    """Bytes that arrive. `read` belongs to one thread; `stop` may be called from any other."""

    def __init__(self, name: str):
        self.name = name
        """As it was given by the user."""
        self.problem: str | None = None
        """Why the capture is incomplete, once the input has ended."""
        self.stopped = False
        """Whether the reader ended it."""
        self.copy: BinaryIO | None = None
        """Where its bytes are written as they are read."""
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._deadline: float | None = None

    @abstractmethod
    def read(self, timeout_s: float | None) -> bytes | None:
        """Return the next bytes; none at the end, None when none came in time.

        Without a time limit it waits for the next byte or the end. Raises OSError.
        """

    def stop(self) -> None:
        """End the input soon; safe in a signal handler."""
        self.stopped = True
        # It has been woken often enough, or is closed.
        with suppress(OSError):
            os.write(self._waker, b"\0")

    def abandon(self) -> None:
        """End the input at once: what has arrived is not wanted either."""
        self._deadline = 0.0
        self.stop()

    def close(self) -> None:
        """Release everything; the reading thread must have ended."""
        # First forgotten: a signal may come in between, and numbers are used again.
        waker, self._waker = self._waker, -1
        os.close(waker)
        os.close(self._wake)

    def _has_drained(self) -> bool:
        """Return whether the time to read what is left after a stop has passed."""
        if self.stopped and self._deadline is None:
            self._deadline = time.monotonic() + DRAIN_S
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _sleep(self, timeout_s: float) -> None:
        """Wait for this time, or until `stop`."""
        if not self.stopped:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.poll(timeout_s * 1_000)


class Pipe(Input):
    """A pipe, FIFO, socket or terminal; also a file that is given as standard input."""

    def __init__(self, name: str, number: int, *, owned: bool = True):
        super().__init__(name)
        self._number = number
        self._owned = owned
        mode = os.fstat(number).st_mode
        # A regular file always has its bytes, and the kernel refuses to wait for it.
        self._waits = not stat.S_ISREG(mode)
        if stat.S_ISFIFO(mode):
            # Another system has no such call, and a user may have too many pipes: then bursts are
            # written more slowly.
            with suppress(AttributeError, OSError):
                fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)

    def read(self, timeout_s: float | None) -> bytes | None:
        """Return the next bytes."""
        if self._waits and not self._wait(timeout_s):
            return b"" if self._has_drained() else None
        if self._has_drained():
            return b""
        try:
            return os.read(self._number, CHUNK_BYTES)
        except BlockingIOError:  # somebody else reads the same pipe
            return None

    def close(self) -> None:
        """Close the pipe."""
        super().close()
        if self._owned:
            os.close(self._number)

    def _wait(self, timeout_s: float | None) -> bool:
        """Wait until there are bytes or the writer has gone; False if not in time, or if stopped.

        A FIFO that no process has opened for writing yet is waited for.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._has_drained():
            poll = select.poll()
            poll.register(self._number, select.POLLIN)
            if not self.stopped:
                poll.register(self._wake, select.POLLIN)
            limits = [each for each in (until, self._deadline) if each is not None]
            left_s = max(0.0, min(limits) - time.monotonic()) if limits else None
            ready = poll.poll(None if left_s is None else left_s * 1_000)
            if any(number == self._number for number, _ in ready):
                return True
            if until is not None and time.monotonic() >= until:
                return False
        return False


class GrowingFile(Input):
    """A regular file that another process appends to. It ends when it is stopped, or when its name
    no longer leads to it: then its bytes up to the end are read first."""

    def __init__(self, path: str):
        super().__init__(path)
        self._path = local_path(path)
        self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._at = 0
        self._polls = 0
        self._last = False

    def read(self, timeout_s: float | None) -> bytes | None:
        """Return the next bytes."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._has_drained():
                return b""
            if chunk := self._file.read(CHUNK_BYTES):
                self._at += len(chunk)
                return chunk
            if self._is_over():
                return b""
            if until is not None and time.monotonic() >= until:
                return None
            left_s = _POLL_S if until is None else until - time.monotonic()
            self._sleep(max(0.0, min(_POLL_S, left_s)))

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()

    def _is_over(self) -> bool:
        """Return whether there are no bytes to come; at the end of what there is."""
        if self.problem is not None or self._last:
            return True
        size = os.fstat(self._file.fileno()).st_size
        if size < self._at:
            self.problem = (
                f"shrank to {size:,} bytes after {self._at:,} were read; what it has now is not"
                " read: start again"
            )
            return True
        if size > self._at:
            return False
        if self.stopped:
            return True
        self._polls += 1
        if self._polls % _IDENTITY_POLLS == 0 and not self._is_there():
            # What was written before the name changed may have come since the last look.
            self._last = True
            return os.fstat(self._file.fileno()).st_size == self._at
        return False

    def _is_there(self) -> bool:
        """Return whether the name still leads to the file; note it if it leads to another."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False  # renamed when it was complete, or deleted: all of it has been read
        if os.path.samestat(found, os.fstat(self._file.fileno())):
            return True
        self.problem = "was replaced by another file, which is not read: start again"
        return False


def is_live(path: str) -> bool:
    """Return whether a path names bytes that arrive: standard input, a pipe or a device."""
    if path == STANDARD_INPUT:
        return True
    try:
        mode = os.stat(local_path(path)).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def open_input(path: str, *, follow: bool = False) -> Input:
    """Open an input. With `follow`, a regular file is read on as it grows. Raises OSError."""
    if path == STANDARD_INPUT:
        return Pipe(path, _STANDARD_INPUT_NUMBER, owned=False)
    if follow and stat.S_ISREG(os.stat(local_path(path)).st_mode):
        return GrowingFile(path)
    # Without O_NONBLOCK, opening a FIFO waits for its writer, and no signal handler could end that.
    return Pipe(path, os.open(local_path(path), os.O_RDONLY | os.O_NONBLOCK))

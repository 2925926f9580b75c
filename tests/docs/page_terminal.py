"""A terminal that runs one command of a page and collects its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .pages import fits

__all__ = ["PageError", "Terminal", "ended"]

_ROWS_AND_COLUMNS = struct.pack("HHHH", 50, 100, 0, 0)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Variables and working directory carry over to the next command, as in one shell.
_SHELL = """
source "$1"; eval "$2"; code=$?
{ printf 'cd %q\\n' "$PWD"; export -p; } >"$1.new" && mv "$1.new" "$1"
exit $code
"""


_HEARING = ("env", "--default-signal=INT")
"""A process that was started in the background ignores SIGINT, and so do its children."""


class PageError(Exception):
    """A page differs from reality; the text gives the line and the difference."""


class Terminal:
    """A shell that runs one command."""

    def __init__(self, command: str, state: Path, environment: Mapping[str, str]) -> None:
        self.command = command
        master, slave = pty.openpty()
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, _ROWS_AND_COLUMNS)
            self._process = subprocess.Popen(
                [*_HEARING, "bash", "-c", _SHELL, "page", str(state), command],
                stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(slave)
        self._bytes = b""
        self._over = False
        self._shown = 0
        self._changed = threading.Condition()
        self._listener = threading.Thread(target=self._listen, args=(master,))
        self._listener.start()

    def said(self) -> str:
        """Return the output as plain text."""
        text = _CONTROL.sub("", self._bytes.decode(errors="replace")).replace("\r\n", "\n")
        kept = (line for line in text.splitlines() if "Picked up JDK_JAVA_OPTIONS" not in line)
        return "\n".join(kept)

    def expect(self, output: tuple[str, ...], patience_s: float) -> None:
        """Wait for this output after the part that was already matched."""

        def done() -> bool:
            return self._over or fits(output, self._news(), whole=False)

        with self._changed:
            self._changed.wait_for(done, patience_s)
            if not fits(output, self._news(), whole=False):
                shown = "\n".join(output)
                raise PageError(f"the page shows\n{shown}\n--- and it says\n{self._news()}")
            self._shown += self._lines_that_fit(output)

    def _lines_that_fit(self, output: tuple[str, ...]) -> int:
        lines = self._news().splitlines()
        texts = ("\n".join(lines[:count]) for count in range(len(lines) + 1))
        return next(n for n, text in enumerate(texts) if fits(output, text, whole=True))

    def _news(self) -> str:
        return "\n".join(self.said().splitlines()[self._shown :])

    def wait(self, patience_s: float) -> int:
        """Wait for the end; return the exit code."""
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise PageError(f"it has not ended; so far it says\n{self.said()}") from None
        self._listener.join(patience_s)
        return code

    def interrupt(self, patience_s: float) -> int:
        """Send Ctrl-C unless it has ended; return the exit code."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
        return self.wait(patience_s)

    def kill(self) -> None:
        """Kill the command and its children, if any are left."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()

    def _listen(self, master: int) -> None:
        try:
            while True:
                try:
                    data = os.read(master, 65_536)
                except OSError:  # the last writer is gone
                    return
                if not data:
                    return
                with self._changed:
                    self._bytes += data
                    self._changed.notify_all()
        finally:
            os.close(master)
            with self._changed:
                self._over = True
                self._changed.notify_all()


@contextmanager
def ended(terminal: Terminal) -> Iterator[None]:
    """Kill the terminal on exit."""
    try:
        yield
    finally:
        terminal.kill()

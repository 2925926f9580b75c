"""Runs commands on a pseudo-terminal, and renders its screen as an HTML page for screenshots."""

from __future__ import annotations

import fcntl
import html
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyte

__all__ = ["COLUMNS", "Terminal", "terminal_page"]

COLUMNS: Final = 100
_LINES: Final = 40
_HISTORY_LINES: Final = 2_000
"""Lines kept after they scroll off the screen."""
_EXIT_S: Final = 20.0
"""Time for a command to exit after Ctrl-C."""

_COLOURS: Final = {
    "black": "#3b4252", "red": "#ef6b6a", "green": "#5ccf95", "brown": "#f0b75a",
    "blue": "#7aa8f5", "magenta": "#c98be0", "cyan": "#5cc9dc", "white": "#e4e8ee",
    "brightblack": "#8b95a3", "brightred": "#ff8a80", "brightgreen": "#7fe0ac",
    "brightbrown": "#ffd07a", "brightblue": "#9dc1ff", "brightmagenta": "#dcaaf0",
    "brightcyan": "#86dcea", "brightwhite": "#ffffff",
}  # fmt: skip
"""Colours by their names in pyte."""
_SYMBOLS: Final = ("\u25a0", "\u2bff")
"""Geometric shapes up to arrows; check marks and spinners are among them."""
_FOREGROUND: Final = "#d7dde6"
_BACKGROUND: Final = "#161a20"

_PAGE: Final = """\
<!DOCTYPE html>
<meta charset="utf-8">
<style>
  body {{ margin: 0; background: transparent; display: inline-block; }}
  figure {{ margin: 0; background: {background}; color: {foreground}; border-radius: 10px;
    overflow: hidden; }}
  figcaption {{ padding: 9px 14px; background: #232932; color: #aab3c0;
    font: 13px/1.3 sans-serif; }}
  figcaption i {{ display: inline-block; width: 11px; height: 11px; margin-right: 7px;
    border-radius: 50%; background: #4b5563; }}
  b {{ display: inline-block; width: 1ch; font-weight: inherit; }}
  pre {{ margin: 0; padding: 12px 16px 16px;
    font: 13.5px/1.18 "DejaVu Sans Mono", "Liberation Mono", monospace; }}
</style>
<figure><figcaption><i></i><i></i><i></i> {title}</figcaption><pre>{text}</pre></figure>
"""
_ENV: Final = ("env", "--default-signal=INT")
"""A process that was started in the background ignores SIGINT, and so do its children."""


class Terminal:
    """A command on a pseudo-terminal; leaving the context ends the command."""

    def __init__(self, command: Sequence[str], folder: Path, *, lines: int = _LINES):
        self._screen = pyte.HistoryScreen(COLUMNS, lines, history=_HISTORY_LINES, ratio=1.0)
        self._stream = pyte.ByteStream(self._screen)
        self._controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [*_ENV, *command], stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )  # fmt: skip
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.interrupt()
            try:
                self.wait(_EXIT_S)
            except TimeoutError:
                self._process.kill()
        self._process.wait()
        os.close(self._controller)

    def lines(self) -> list[str]:
        """Return all lines, including those that have scrolled off the screen."""
        return ["".join(char.data for char in row).rstrip() for row in self.rows()]

    def rows(self) -> list[list[Any]]:
        """Return all lines as characters of pyte, without empty lines at the end."""
        screen = self._screen
        found = [
            [row[at] for at in range(COLUMNS)]
            for row in (*screen.history.top, *(screen.buffer[y] for y in range(screen.lines)))
        ]
        while found and not "".join(char.data for char in found[-1]).strip():
            found.pop()
        return found

    def until(self, shown: Callable[[list[str]], bool], seconds: float) -> None:
        """Wait for a condition on the lines. Raises TimeoutError, or EOFError at the end."""
        deadline = time.monotonic() + seconds
        while not shown(self.lines()):
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(self.lines()))
            if not self._read():
                raise EOFError("\n".join(self.lines()))

    def wait(self, seconds: float) -> int:
        """Wait until the command ends; return its exit code. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while self._read():
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(self.lines()))
        return self._process.wait(seconds)

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def _read(self) -> bool:
        """Read what the command has written; return whether more may follow."""
        ready, _, _ = select.select([self._controller], [], [], 0.1)
        if not ready:
            return True
        try:
            data = os.read(self._controller, 65_536)
        except OSError:  # EIO: the other end is closed
            return False
        self._stream.feed(data)
        return bool(data)


def terminal_page(title: str, rows: Sequence[Sequence[Any]]) -> str:
    """Return rows of a terminal as an HTML page."""
    text = "\n".join("".join(_span(key, list(run)) for key, run in _runs(row)) for row in rows)
    return _PAGE.format(
        background=_BACKGROUND, foreground=_FOREGROUND, title=html.escape(title), text=text
    )


def _runs(row: Sequence[Any]) -> Any:
    return groupby(row, key=lambda char: (char.fg, char.bg, char.bold, char.reverse))


def _span(key: tuple[str, str, bool, bool], run: list[Any]) -> str:
    foreground, background, bold, reverse = key
    text = "".join(_character(char.data) for char in run)
    colours = [_colour(foreground, _FOREGROUND), _colour(background, _BACKGROUND)]
    if reverse:
        colours.reverse()
    style = f"color:{colours[0]}" if colours[0] != _FOREGROUND else ""
    style += f";background:{colours[1]}" if colours[1] != _BACKGROUND else ""
    style += ";font-weight:bold" if bold else ""
    return f'<span style="{style.lstrip(";")}">{text}</span>' if style else text


def _character(text: str) -> str:
    """Return a character as HTML. Symbols that the font may lack get a fixed width."""
    return f"<b>{text}</b>" if _SYMBOLS[0] <= text <= _SYMBOLS[1] else html.escape(text)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return _COLOURS.get(name, f"#{name}")

"""Single keys from a terminal."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator

import pytest

from wirelake.cli.top.view import terminal_keys


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of a terminal that is standard input."""
    ours, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours
    os.close(ours)


def _echoes(handle: int) -> bool:
    return bool(termios.tcgetattr(handle)[3] & termios.ECHO)


def test_a_key_is_read_without_enter_and_without_echo(terminal: int) -> None:
    assert _echoes(terminal)
    with terminal_keys() as keys:
        assert not _echoes(terminal)
        assert keys.wait(0) == ""
        os.write(terminal, b"q")
        assert keys.wait(20) == "q"
    assert _echoes(terminal)


def test_a_key_of_several_bytes_is_one(terminal: int) -> None:
    with terminal_keys() as keys:
        os.write(terminal, b"\x1b[A")
        assert keys.wait(20) == "\x1b"
        assert keys.wait(0) == ""


def test_the_terminal_is_always_restored(terminal: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, terminal_keys():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 143
    assert _echoes(terminal)
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with terminal_keys() as keys:
            assert keys.wait(0) == ""

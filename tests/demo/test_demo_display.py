"""The display: plain lines in a file, ticks and a panel on a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from wirelake.cli.demo.display import Display, redirected_stderr


def test_without_a_terminal_each_step_is_a_line() -> None:
    said = io.StringIO()
    display = Display(said)
    with display.shown():
        with display.step("one") as step, display.panel(lambda: [("a", "b")]):
            step.text = "one is done"
        with display.step("two"):
            pass
    assert said.getvalue() == "one\ntwo\n"


class Terminal:
    """A terminal with its output."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> str:
        """Output so far."""
        self.stream.close()
        self._reader.join()
        os.close(self._master)
        return self.seen.decode()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # a closed terminal reads as an error
                return
            if not data:
                return
            self.seen += data


def test_a_terminal_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    display = Display(terminal.stream)
    displayed = threading.Event()

    def rows() -> list[tuple[str, str]]:
        displayed.set()
        return [("calls", "12 [of] many")]

    def work() -> None:
        with display.step("first") as step:
            step.text = "first is done"
        with display.step("second"), display.panel(rows):
            assert displayed.wait(60)
        with display.step("third"):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), display.shown():
        work()
    seen = terminal.close()
    for each in ("✓", "first is done", "second", "✗", "third", "live", "12 [of] many"):
        assert each in seen


def test_standard_error_is_set_aside(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from wirelake.cli.demo.display import redirected_stderr\n"
        "with redirected_stderr(Path('log')) as stream:\n"
        "    os.write(2, b'noise\\n')\n"
        "    os.system('echo child >&2')\n"
        "    stream.write('shown\\n')\n"
        "sys.stderr.write('after\\n')\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "WIRELAKE_DEBUG"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == "shown\nafter\n"
    assert (tmp_path / "log").read_text() == "noise\nchild\n"


def test_nothing_is_set_aside_when_all_is_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WIRELAKE_DEBUG", "1")
    with redirected_stderr(tmp_path / "log"):
        os.write(2, b"noise\n")
    assert capfd.readouterr().err == "noise\n"

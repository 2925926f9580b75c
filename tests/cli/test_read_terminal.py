"""`wirelake read` on a terminal: a table that fits, a bar meanwhile, and never raw bytes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from .conftest import SOURCES
from .simulated import rows, traffic

pytestmark = pytest.mark.slow

__all__ = ["traffic"]

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(width: int, *args: str) -> tuple[int, str]:
    """The exit code of a command, and all that its terminal got to see."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "wirelake.cli", *args],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        seen = b""
        while chunk := _read(mine):
            seen += chunk
        code = process.wait(60)
    os.close(mine)
    return code, seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # how a terminal says that nobody writes any more
        return b""


def test_a_table_and_a_bar(traffic: Path) -> None:
    code, seen = on_terminal(90, "read", str(traffic), "--limit", "4")
    assert code == 0
    bar, _, after = seen.rpartition("\x1b[?25h")  # the bar hides the cursor, and shows it again
    assert "━" in bar
    assert "kB" in bar
    lines = ESCAPES.sub("", after).replace("\r", "").splitlines()
    header = lines[0].split()
    assert header[:4] == ["ts_ns", "direction", "protocol", "kind"]
    assert {"target", "status"} <= set(header)
    assert "connection" not in header
    assert all(len(line) <= 90 for line in lines[:5])
    count = len(rows(traffic))
    assert lines[5] == (
        f"first 4 of {count:,} rows by ts_ns; --limit 0 shows all; times are on 2026-01-05 UTC"
    )
    assert lines[6].startswith("hidden columns: ")
    assert "; for details: wirelake read " in lines[7]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_bytes_are_not_for_a_terminal(traffic: Path, form: str) -> None:
    code, seen = on_terminal(80, "read", str(traffic), "--to", form)
    assert code == 2
    assert seen.startswith(f"wirelake: {form} cannot be written to a terminal: add -o FILE")

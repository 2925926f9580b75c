"""Terminal screenshots show the output of a command with its colours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools.chromium import chromium
from tools.terminal import COLUMNS, Terminal, terminal_page

COLOURED = r"""
import sys
print("plain <b>")
print("\x1b[1;32mgreen\x1b[0m \x1b[38;2;1;2;3mown\x1b[0m \x1b[7mturned\x1b[0m")
for number in range(60):
    print(number)
print("\x1b[1A\x1b[2Klast")
sys.exit(3)
"""


def test_all_that_was_written_is_seen(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", COLOURED], tmp_path) as terminal:
        assert terminal.wait(60) == 3
        lines, rows = terminal.lines(), terminal.rows()
    assert lines == ["plain <b>", "green own turned", *map(str, range(59)), "last"]
    assert {len(row) for row in rows} == {COLUMNS}
    page = terminal_page("a <title>", rows)
    assert "plain &lt;b&gt;" in page
    assert "a &lt;title&gt;" in page
    assert '<span style="color:#5ccf95;font-weight:bold">green</span>' in page
    assert '<span style="color:#010203">own</span>' in page
    assert '<span style="color:#161a20;background:#d7dde6">turned</span>' in page


def test_waiting_for_output(tmp_path: Path) -> None:
    program = "print('ready', flush=True); input()"
    with Terminal([sys.executable, "-c", program], tmp_path) as terminal:
        terminal.until(lambda lines: "ready" in lines, 60)
        terminal.interrupt()
        assert terminal.wait(60) != 0
    with Terminal([sys.executable, "-c", "pass"], tmp_path) as terminal, pytest.raises(EOFError):
        terminal.until(bool, 60)
    with (
        pytest.raises(TimeoutError),
        Terminal([sys.executable, "-c", program], tmp_path) as terminal,
    ):
        terminal.until(lambda lines: "never" in lines, 0)


def test_a_picture_has_the_width_of_the_terminal(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", "print('x' * 100)"], tmp_path) as terminal:
        terminal.wait(60)
        rows = terminal.rows()
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(terminal_page("wide", rows))
        wide, figure = page.locator("pre").bounding_box(), page.locator("figure").bounding_box()
        page.close()
    assert wide is not None
    assert figure is not None
    assert wide["width"] == figure["width"]
    assert 600 < wide["width"] < 1100

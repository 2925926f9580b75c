"""Tables of text: names are cut, figures are not, and what can be done without goes."""

from __future__ import annotations

import io
import sys

import pytest

from wirelake.cli.output.text import print_table

from .test_read_terminal import ESCAPES

HEADINGS = ("name", "calls", "mean", "p99")
NUMBERS = (False, True, True, True)
ROWS = [("a-name-that-is-rather-long", "1,234,567", "12.3 ms", "4.5 s")]


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, width: int) -> tuple[list[str], list[str]]:
    """The lines on a terminal, and what there was no room for."""
    screen = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        hidden = print_table(HEADINGS, NUMBERS, ROWS, ("mean", "calls"))
    lines = ESCAPES.sub("", screen.getvalue()).splitlines()
    return [line.rstrip() for line in lines], hidden


@pytest.mark.parametrize(
    ("width", "hidden", "row"),
    [
        (80, [], "a-name-that-is-rather-long  1,234,567  12.3 ms  4.5 s"),
        (41, [], "a-name-that-i…  1,234,567  12.3 ms  4.5 s"),
        (39, [], "a-name-that…  1,234,567  12.3 ms  4.5 s"),
        (38, ["mean"], "a-name-that-is-rath…  1,234,567  4.5 s"),
        (20, ["calls", "mean"], "a-name-that-…  4.5 s"),
    ],
)
def test_what_fits(
    monkeypatch: pytest.MonkeyPatch, width: int, hidden: list[str], row: str
) -> None:
    lines, missing = printed(monkeypatch, width)
    assert missing == hidden
    assert lines[2] == row
    assert lines[0].split() == [name for name in HEADINGS if name not in hidden]


def test_a_pipe_gets_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table(HEADINGS, NUMBERS, ROWS, ("mean",)) == []
    assert capsys.readouterr().out.splitlines()[2].split() == " ".join(ROWS[0]).split()

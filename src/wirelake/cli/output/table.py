"""A text table that fits the terminal: numbers are never truncated, names may be."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

__all__ = ["print_table"]

_PIPE_WIDTH: Final = 200
"""Width when the output is not a terminal."""
_GAP: Final = 2
"""Characters between two columns."""
_MIN_NAME_WIDTH: Final = 12
"""Narrowest column of names."""


def print_table(
    headings: Sequence[str],
    numbers: Sequence[bool],
    rows: Sequence[Sequence[str]],
    minor: Collection[str] = (),
) -> list[str]:
    """Print a table and return the columns that did not fit.

    Minor columns are dropped first, starting with the last.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
    widths = [_width(headings, rows, at) for at in range(len(headings))]
    shown = _fitting(widths, numbers, [each in minor for each in headings], console.width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for at, width in shown.items():
        table.add_column(
            headings[at],
            justify="right" if numbers[at] else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    console.print(table)
    return [heading for at, heading in enumerate(headings) if at not in shown]


def _fitting(
    widths: Sequence[int], numbers: Sequence[bool], minor: Sequence[bool], room: int
) -> dict[int, int]:
    """Return the columns that fit, and their widths."""
    shown = {
        at: width if numbers[at] else min(width, _MIN_NAME_WIDTH) for at, width in enumerate(widths)
    }
    for at in reversed(range(len(widths))):
        if _left(shown, room) >= 0:
            break
        if minor[at]:
            del shown[at]
    for at, narrow in shown.items():  # names share the remaining width
        shown[at] = min(widths[at], narrow + max(0, _left(shown, room)))
    return shown


def _left(shown: Mapping[int, int], room: int) -> int:
    return room - sum(shown.values()) - _GAP * (len(shown) - 1)


def _width(headings: Sequence[str], rows: Sequence[Sequence[str]], at: int) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, [headings[at], *(row[at] for row in rows)]))

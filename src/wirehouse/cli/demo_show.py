"""How the demo looks: tables on standard output, and what it is doing, when somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .demo_figures import Figures, Section, in_order

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Steps", "print_section", "watched_steps"]


class Steps:
    """What is being done, as a line that moves; silent when nobody watches."""

    def __init__(self, progress: Progress | None):
        self._progress = progress

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Shows what is being done; yields a function to be told how much of how much is done."""
        progress = self._progress
        if progress is None:
            yield lambda _done, _total: None
            return
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
        progress.update(task, completed=1, total=1)


@contextmanager
def watched_steps() -> Iterator[Steps]:
    """Steps on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        yield Steps(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Steps(progress)


def print_section(section: Section, figures: Figures) -> None:
    """A section as a table."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=section.title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False
    )
    for name in section.keys:
        table.add_column(name, overflow="fold")
    for name in section.values:
        table.add_column(_heading(name), justify="right")
    columns = (*section.keys, *section.values)
    for key in in_order(figures):
        table.add_row(*map(_cell, columns, (*key, *figures[key])))
    # A pipe has no width of its own, and the widest table has seven columns.
    console = Console() if sys.stdout.isatty() else Console(width=100)
    console.print(table)


def _heading(column: str) -> str:
    return column.replace("_ns", "_ms").replace("_", " ")


def _cell(column: str, value: str | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value / 1e6:,.3f}" if column.endswith("_ns") else f"{value:,}"

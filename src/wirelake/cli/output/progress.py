"""Progress on standard error, only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["byte_progress", "second_progress", "spinner"]


@contextmanager
def byte_progress(
    name: str, *, enabled: bool = True
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar of bytes; yields a function that takes bytes done and in total."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import DownloadColumn, TransferSpeedColumn

    with _bar(name, DownloadColumn(), TransferSpeedColumn()) as update:
        yield update


@contextmanager
def second_progress(name: str) -> Iterator[Callable[[float, float], None] | None]:
    """Show a bar of seconds; yields a function that takes seconds passed and in total."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import TextColumn

    with _bar(name, TextColumn("{task.completed:.0f} s")) as update:
        yield update


@contextmanager
def spinner(name: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner; yields a function that takes what is being done now."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(name) as status:
        yield lambda what: status.update(f"{name} {what}")


@contextmanager
def _bar(name: str, *columns: Any) -> Iterator[Callable[[float, float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    shown = (TextColumn(name), BarColumn(), *columns)
    with Progress(*shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

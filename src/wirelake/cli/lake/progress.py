"""What a run of a lake shows: what it is doing while somebody watches, and what it has done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from ..output.common import json_line
from ..read.formatting import counted, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from wirelake.lake.engine.run import Committed, Outcome

__all__ = ["DOING", "Watcher", "print_outcome", "watching"]

DOING: Final = {
    "decode": "decoding captures",
    "tunnels": "following tunnels",
    "join": "joining across connections",
}
"""By part of a step: what it does. All others are parts of a commit."""
_SHOWN: Final = 10
"""Captures that are named; the others are counted."""


class Watcher:
    """Is told what a run does; silent when nobody watches."""

    def __init__(self, progress: Progress | None, task: TaskID | None, *, stream: bool):
        self._progress = progress
        self._task = task
        self._stream = stream
        self.commit: int | None = None
        """The last commit."""
        self._files = 0
        self._bytes = 0

    def ready(self) -> None:
        """Spark is there, or a step is over."""
        self._say("waiting for captures" if self._stream else "looking for captures")

    def step(self, name: str) -> None:
        """A part of a step begins."""
        self._say(DOING.get(name, "committing"))

    def committed(self, found: Committed) -> None:
        """A step was committed."""
        record = found.record
        self.commit = record.commit
        taken = sum(each.fault is None for each in record.inputs)
        size = record.figures.get("bytes", 0)
        self._files += taken
        self._bytes += size
        if self._progress is not None and self._stream:
            seconds = record.figures.get("seconds", 0.0)
            self._progress.console.print(
                f"commit {record.commit}: {counted(taken, 'capture')}, {size / 1e6:,.1f} MB"
                f" in {seconds:.1f} s; {len(found.waiting):,} waiting",
                highlight=False,
            )
        self.ready()

    def _say(self, what: str) -> None:
        if self._progress is not None and self._task is not None:
            done = f"{counted(self._files, 'capture')}, {self._bytes / 1e6:,.1f} MB in"
            self._progress.update(self._task, description=f"{what} ({done})")


@contextmanager
def watching(*, stream: bool) -> Iterator[Watcher]:
    """A line on standard error that moves, when that is a terminal."""
    if not sys.stderr.isatty():
        yield Watcher(None, None, stream=stream)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting Spark", total=None)
        yield Watcher(progress, task, stream=stream)


# -- what was done ---------------------------------------------------------------------------


def print_outcome(lake: str, outcome: Outcome, commit: int | None, *, as_json: bool) -> None:
    """Says what a run has done."""
    if as_json:
        click.echo(json_line(_as_json(outcome, commit)))
        return
    click.echo(f"{lake}: {_summary(outcome, commit)}")
    for title, files in (
        ("refused", [(each.path, each.fault or "") for each in outcome.refused]),
        ("waiting", [(each.path, why) for each, why in outcome.waiting]),
    ):
        _print_files(title, files)
    if outcome.rows:
        width = max(map(len, outcome.rows))
        click.echo("  rows added:")
        for table, count in outcome.rows.items():
            click.echo(f"    {table:<{width}}  {count:>14,}")


def _as_json(outcome: Outcome, commit: int | None) -> dict[str, Any]:
    return {
        "commit": commit,
        "commits": outcome.commits,
        "files": outcome.files,
        "bytes": outcome.bytes,
        "seconds": round(outcome.seconds, 3),
        "refused": [{"path": each.path, "fault": each.fault} for each in outcome.refused],
        "waiting": [{"path": each.path, "why": why} for each, why in outcome.waiting],
        "rows": outcome.rows,
    }


def _summary(outcome: Outcome, commit: int | None) -> str:
    if commit is None:
        return "there was nothing new to read"
    speed = outcome.bytes / 1e6 / outcome.seconds if outcome.seconds else 0.0
    return (
        f"commit {commit}; {counted(outcome.files, 'capture')} taken,"
        f" {outcome.bytes / 1e6:,.1f} MB in {outcome.seconds:,.1f} s ({speed:,.1f} MB/s)"
    )


def _print_files(title: str, files: list[tuple[str, str]]) -> None:
    if not files:
        return
    click.echo(f"  {title}: {counted(len(files), 'capture')}")
    for path, why in files[:_SHOWN]:
        click.echo(f"    {printable(path)}: {printable(why)}")
    if len(files) > _SHOWN:
        click.echo(f"    and {len(files) - _SHOWN:,} more")

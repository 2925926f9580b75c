"""The display of the running demo: steps, and a panel of live figures, on standard error.

Without a terminal each step is a plain line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["Display", "Step", "redirected_stderr"]

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PER_S: Final = 8


@dataclass
class Step:
    """A step of the demo."""

    text: str
    """What it does; when it is done, its result."""
    began: float = field(default_factory=time.monotonic)
    seconds: float | None = None
    """How long it took; None while it runs."""
    is_failed: bool = False


class Display:
    """Steps on a stream; live if it is a terminal."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._steps: list[Step] = []
        self._panel: Callable[[], Sequence[tuple[str, str]]] | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw the display while the block runs."""
        if not self._stream.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream)
        with Live(
            get_renderable=lambda: self._drawn(console),
            console=console,
            refresh_per_second=_PER_S,
            redirect_stdout=False,
            # The descriptor is redirected (`redirected_stderr`), because the JVM writes to it.
            redirect_stderr=False,
        ):
            yield

    @contextmanager
    def step(self, doing: str) -> Iterator[Step]:
        """Show a step while the block runs."""
        if not self._stream.isatty():
            self._stream.write(f"{doing}\n")
            self._stream.flush()
        found = Step(doing)
        self._steps.append(found)
        try:
            yield found
        except BaseException:
            found.is_failed = True
            raise
        finally:
            found.seconds = time.monotonic() - found.began

    @contextmanager
    def panel(self, rows: Callable[[], Sequence[tuple[str, str]]]) -> Iterator[None]:
        """Show names and values below the steps while the block runs."""
        self._panel = rows
        try:
            yield
        finally:
            self._panel = None

    def _drawn(self, console: Console) -> RenderableType:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        steps = Table.grid(padding=(0, 1))
        for each in self._steps:
            steps.add_row(_mark(each), Text(each.text), Text(_time(each), style="dim"))
        if self._panel is None:
            return steps
        live = Table.grid(padding=(0, 2))
        for name, value in self._panel():
            live.add_row(Text(name, style="bold"), Text(value))
        width = min(console.width, 100)
        return Group(steps, Panel(live, title="live", title_align="left", width=width))


def _mark(step: Step) -> str:
    if step.is_failed:
        return "[red]✗[/red]"
    if step.seconds is not None:
        return "[green]✓[/green]"
    return f"[cyan]{_FRAMES[int(time.monotonic() * _PER_S) % len(_FRAMES)]}[/cyan]"


def _time(step: Step) -> str:
    seconds = time.monotonic() - step.began if step.seconds is None else step.seconds
    return f"{seconds:.1f} s"


@contextmanager
def redirected_stderr(log: Path) -> Iterator[TextIO]:
    """Redirect standard error to a file, and yield a stream to the original.

    Java writes to it when it is killed. With WIRELAKE_DEBUG nothing is redirected.
    """
    # By file descriptor, not `sys.stderr`: the JVM and the workers inherit the descriptor.
    sys.stderr.flush()
    kept = os.dup(2)
    if not os.environ.get("WIRELAKE_DEBUG"):
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8", errors="replace") as stream:
            yield stream
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)

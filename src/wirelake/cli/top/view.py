"""The screen of `wirelake top`: figures as tables that fit the terminal, and key presses.

wirelake top  http://127.0.0.1:9680            1.0.0, up 0:12:03, 34 % of a core, recording
protocol  open  opened/s  closed/s   in/s  out/s  calls/s  pushes/s
…
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Final, NoReturn

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..output.text import duration_text, printable
from .figures import FailedConnection, Figures, Line, Target, Topic

__all__ = [
    "SORT_ORDERS",
    "Keys",
    "ViewState",
    "next_sort_order",
    "terminal_keys",
    "top_view",
]


SORT_ORDERS: Final = ("p99", "calls/s", "failed")
"""Sort orders of targets."""
_WIDE: Final = 140
"""Minimum width for two tables side by side."""
_NARROW: Final = 80
"""Width below which tables leave out their less important columns."""
_TALL: Final = 36
"""Minimum height for blank lines between tables."""
_FIXED_LINES: Final = 8
"""Fixed lines: two of the head, two of protocols, three of totals, and the keys."""
_SPARKS: Final = " ▁▂▃▄▅▆▇█"
_SPARK_WIDTH: Final = 30
_SPARK_LABEL: Final = " calls and pushes"


class ViewState:
    """Size of the terminal, sort order, and recent activity."""

    def __init__(self, url: str, width: int, height: int | None = None):
        self.url = url
        self.width = width
        self.height = height
        """Lines of the terminal; None is unlimited."""
        self.sort = SORT_ORDERS[0]
        self.paused = False
        self.past: list[float] = []
        """Calls and pushes per second, one value per sample."""

    def remember(self, figures: Figures) -> None:
        """Add the activity of a sample to the sparkline."""
        total = figures.total
        self.past = [*self.past, total.calls_per_s + total.delivered_per_s][-_SPARK_WIDTH:]

    @property
    def beside(self) -> bool:
        """Whether targets and topics are side by side."""
        return self.width >= _WIDE

    @property
    def narrow(self) -> bool:
        """Whether tables leave out columns."""
        return self.width < _NARROW

    @property
    def spaced(self) -> bool:
        """Whether there are blank lines."""
        return self.height is None or self.height >= _TALL

    def rows(self, figures: Figures) -> tuple[int, int, int]:
        """Return how many targets, topics and failed connections fit."""
        found = len(figures.targets), len(figures.topics), len(figures.failed_connections)
        if self.height is None:
            return found[0], found[1], min(found[2], 10)
        tables = 2 if self.beside else 3
        fixed = _FIXED_LINES + len(figures.protocols) + tables + (tables + 3) * self.spaced
        room = max(tables, self.height - fixed)
        # What is left is shared equally, but failures get no more than they need: they are the
        # only table that is often empty.
        failed = min(max(1, found[2]), room // tables)
        left = (room - failed) // (tables - 1)
        return min(found[0], left), min(found[1], left), failed


def top_view(figures: Figures, state: ViewState) -> RenderableType:
    """Return the whole screen."""
    most_targets, most_topics, most_failed = state.rows(figures)
    targets = _targets(figures, state.sort, most_targets)
    topics = _topics(figures, most_topics, narrow=state.narrow)
    both: list[RenderableType] = [targets, topics]
    if state.beside:
        both = [_side_by_side(targets, topics)]
    parts: list[RenderableType] = [
        _head(figures, state),
        _protocols([*figures.protocols, figures.total], narrow=state.narrow),
        Group(_calls(figures), _notifications(figures), _refusals(figures)),
        *both,
        _failed_connections(
            figures.failed_connections[:most_failed],
            len(figures.failed_connections),
            narrow=state.narrow,
        ),
    ]
    if state.height is not None:
        parts += [_keys(state)]
    if state.spaced:
        parts = [each for part in parts for each in (part, Text())][:-1]
    return Padding(Group(*parts), (0, 1))


def _side_by_side(left: Table, right: Table) -> Table:
    grid = Table.grid(padding=(0, 3), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(left, right)
    return grid


# -- lines -----------------------------------------------------------------------------------


def _head(figures: Figures, state: ViewState) -> RenderableType:
    up = timedelta(seconds=int(figures.uptime_s))
    summary = Text.assemble(f"{printable(figures.version)}, up {up}, {figures.cpu:.0%} of a core, ")
    summary.append_text(_recording(figures.recording))
    if figures.draining:
        summary.append(", shutting down", style="bold yellow")
    title = Text.assemble(("wirelake top", "bold"), f"  {printable(state.url)}")
    if state.paused:
        title.append("  paused", style="bold yellow")
    if title.cell_len + summary.cell_len + 3 > state.width:
        return Group(title, summary)
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(title, summary)
    return line


def _recording(state: str) -> Text:
    if state == "off":
        return Text("not recording", style="dim")
    if state == "on":
        return Text("recording", style="green")
    return Text(f"recording {printable(state)}", style="bold red")


def _sums(title: str, text: str = "") -> Text:
    """Return the start of a line that is truncated at the edge of the terminal."""
    line = Text(no_wrap=True, overflow="ellipsis")
    return line.append(f"{title:<15}", style="bold").append(text)


def _calls(figures: Figures) -> Text:
    total = figures.total
    line = _sums("calls", f"{_rate(total.calls_per_s)}/s, ")
    line.append(
        f"{_rate(figures.calls_failed_per_s)}/s failed",
        style="red" if figures.calls_failed_per_s else "",
    )
    line.append(f", p50 {_time(figures.p50_ns)}, p99 {_time(figures.p99_ns)}")
    line.append(f", {figures.calls_running:,} running")
    return line


def _notifications(figures: Figures) -> Text:
    line = _sums(
        "notifications",
        f"{_rate(figures.published_per_s)}/s published, {_rate(figures.stored_per_s)}/s stored, "
        f"{_rate(figures.total.delivered_per_s)}/s pushed, {_rate(figures.acked_per_s)}/s acked",
    )
    for count, noun in (
        (figures.refused_per_s, "/s refused"),
        (figures.skipped, " skipped"),
        (figures.dead, " dead letters"),
    ):
        if count:
            line.append(f", {_rate(count)}{noun}", style="yellow")
    return line


def _refusals(figures: Figures) -> Text:
    line = _sums("refused")
    for number, (count, noun) in enumerate(
        (
            (figures.turned_away, "connections over limits"),
            (figures.auth_failures, "authentication failures"),
            (figures.broken_rules, "protocol errors"),
        )
    ):
        line.append(f"{', ' * bool(number)}{count:,} {noun}", style="yellow" if count else "")
    line.append(" since start")
    return line


def _keys(state: ViewState) -> Text:
    line = Text.assemble(("q", "bold"), " quit  ", ("p", "bold"), " pause  ", ("s", "bold"))
    line.append(f" sort by {next_sort_order(state.sort)}  ")
    room = state.width - 2 - line.cell_len - len(_SPARK_LABEL)
    spark = _spark(state.past[-room:]) if room > 0 else ""
    line.append(spark, style="cyan")
    if spark:
        line.append(_SPARK_LABEL, style="dim")
    return line


def next_sort_order(sort: str) -> str:
    """Return the order after this one."""
    return SORT_ORDERS[(SORT_ORDERS.index(sort) + 1) % len(SORT_ORDERS)]


def _spark(past: Sequence[float]) -> str:
    most = max(past, default=0.0)
    if not most:
        return ""
    return "".join(_SPARKS[round(each / most * (len(_SPARKS) - 1))] for each in past)


# -- tables ----------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    """Return a table whose first column is truncated when space is short."""
    table = Table(
        box=None, pad_edge=False, expand=True, padding=(0, 2, 0, 0), header_style="bold cyan"
    )
    table.add_column(title, ratio=1, no_wrap=True, overflow="ellipsis")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _protocols(lines: Sequence[Line], *, narrow: bool) -> Table:
    changes = () if narrow else ("opened/s", "closed/s")
    table = _table("protocol", "open", *changes, "in/s", "out/s", "calls/s", "pushes/s")
    for each in lines:
        cells: list[RenderableType] = [
            _name(each.protocol),
            f"{each.connections:,}",
            *(() if narrow else (_rate(each.opened_per_s), _rate(each.closed_per_s))),
            _bytes(each.bytes_in_per_s),
            _bytes(each.bytes_out_per_s),
            _rate(each.calls_per_s),
            _rate(each.delivered_per_s),
        ]
        table.add_row(*cells, style="bold" if each is lines[-1] else None)
    return table


def _targets(figures: Figures, sort: str, most: int) -> Table:
    found = _sorted(figures.targets, sort)
    title = "target" if most >= len(found) else f"target ({most} of {len(found)})"
    table = _table(f"{title}, by {sort}", "calls/s", "p50", "p99", "failed")
    for each in found[:most]:
        failed = Text(f"{each.failed:,}", style="red" if each.failed else "dim")
        table.add_row(
            _name(each.name),
            _rate(each.calls_per_s),
            _time(each.p50_ns),
            _time(each.p99_ns),
            failed,
        )
    if not found:
        table.add_row(Text("no calls yet", style="dim"))
    return table


def _sorted(targets: Sequence[Target], sort: str) -> list[Target]:
    if sort == "calls/s":
        return sorted(targets, key=lambda each: (-each.calls_per_s, -each.calls))
    if sort == "failed":
        return sorted(targets, key=lambda each: (-each.failed, -each.calls_per_s))
    return list(targets)


def _topics(figures: Figures, most: int, *, narrow: bool) -> Table:
    count = figures.topic_count
    title = "topic" if most >= count else f"topic ({most} of {count:,})"
    headings = ("subscribers", "online", "published/s", "pushes/s", "stored")
    shown = [at for at, each in enumerate(headings) if not narrow or each in _NARROW_TOPICS]
    table = _table(title, *(headings[at] for at in shown))
    for each in figures.topics[:most]:
        cells = _topic_cells(each)
        table.add_row(_name(each.name), *(cells[at] for at in shown))
    if not figures.topics:
        table.add_row(Text("no subscriptions", style="dim"))
    return table


_NARROW_TOPICS: Final = ("online", "pushes/s", "stored")
"""Columns of topics on a narrow terminal."""


def _topic_cells(topic: Topic) -> list[str]:
    return [
        f"{topic.subscribers:,}",
        f"{topic.online:,}",
        _rate(topic.published_per_s),
        _rate(topic.delivered_per_s),
        f"{topic.stored:,}",
    ]


def _failed_connections(failed: Sequence[FailedConnection], count: int, *, narrow: bool) -> Table:
    title = "failed at" if len(failed) == count else f"failed at (last {len(failed)})"
    table = Table(
        box=None, pad_edge=False, expand=True, padding=(0, 2, 0, 0), header_style="bold cyan"
    )
    table.add_column(title, no_wrap=True, min_width=11)
    for name, ratio in (("protocol", None), ("reason", 2), ("side", None), ("client", 3)):
        if not (narrow and name == "side"):
            table.add_column(name, ratio=ratio, no_wrap=True, overflow="ellipsis")
    for each in failed:
        at = datetime.fromtimestamp(each.closed_ns / 1e9, UTC)
        who = f"{each.client} at {each.peer}" if each.client else each.peer
        table.add_row(
            f"{at:%H:%M:%S}",
            _name(each.protocol),
            Text(printable(each.reason), style="red"),
            *(() if narrow else (_name(each.side),)),
            _name(who),
        )
    if not failed:
        table.add_row(Text("none", style="dim"))
    return table


# -- cells -----------------------------------------------------------------------------------


def _name(text: str) -> Text:
    """Return text from a peer with control characters escaped and markup disabled."""
    return Text(printable(text))


def _rate(value: float) -> str:
    """Return a rate with about three digits."""
    if value >= 100_000:
        return f"{value / 1000:,.0f}k"
    if value >= 10 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _time(ns: int | None) -> str:
    return "-" if ns is None else duration_text(ns).replace("us", "µs")


# -- keys --------------------------------------------------------------------------------------

_TERMINATED = 128 + signal.SIGTERM


class Keys:
    """Key presses; none if standard input is not a terminal."""

    def __init__(self, handle: int | None):
        self._handle = handle

    def wait(self, seconds: float) -> str:
        """Wait for a key; return an empty string on timeout."""
        if self._handle is None:
            time.sleep(max(0.0, seconds))
            return ""
        ready, _, _ = select.select([self._handle], [], [], max(0.0, seconds))
        if not ready:
            return ""
        # Up to 64 bytes: the rest of an escape sequence, such as that of an arrow key, is dropped
        # with it.
        pressed = os.read(self._handle, 64)
        if not pressed:  # the terminal was closed
            raise KeyboardInterrupt
        return pressed[:1].decode("ascii", "replace")


@contextmanager
def terminal_keys() -> Iterator[Keys]:
    """Read keys unbuffered and without echo; also restores the terminal on SIGTERM."""
    # Without a handler SIGTERM would leave the terminal without echo: `finally` would not run.
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        if not sys.stdin.isatty():
            yield Keys(None)
            return
        import termios
        import tty

        handle = sys.stdin.fileno()
        saved = termios.tcgetattr(handle)
        try:
            tty.setcbreak(handle)
            yield Keys(handle)
        finally:
            termios.tcsetattr(handle, termios.TCSADRAIN, saved)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _terminate(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)

"""Text on a terminal: values, JSON lines, notices, tables and progress bars.

Text that came from a peer or a file is escaped, so that it cannot control the terminal. Progress
goes to standard error, and only if that is a terminal. pyarrow is not imported here, and rich only
when something is drawn: every command imports this module, also for `--help`.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from ..errors import BAD_USAGE, CommandError

__all__ = [
    "body_text",
    "byte_progress",
    "counted",
    "duration_text",
    "json_line",
    "json_text",
    "names_text",
    "print_notice",
    "print_table",
    "printable",
    "second_progress",
    "spinner",
    "time_text",
    "unsigned",
    "unsigned_values",
    "write_files",
]


def printable(text: str) -> str:
    """Return the text with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def body_text(body: bytes) -> str:
    """Return bytes as text if they are printable UTF-8, else as hexadecimal digits."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body.hex()
    return text if text.replace("\n", "").replace("\t", "").isprintable() else body.hex()


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def time_text(ns: int) -> str:
    """Return a time in UTC, to the microsecond."""
    try:
        whole = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ns)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{ns % 1_000_000_000 // 1_000:06d}"


def duration_text(ns: int) -> str:
    """Return a duration with its unit, to three digits or the millisecond."""
    if abs(ns) >= 1_000_000_000:
        return f"{ns / 1_000_000_000:,.3f} s"
    if abs(ns) >= 1_000_000:
        return f"{ns / 1_000_000:.3g} ms"
    return f"{ns / 1_000:.3g} us" if abs(ns) >= 1_000 else f"{ns} ns"


def unsigned(kind: int | None, value: int) -> int:
    """Return the integer of a self-describing value with this type number.

    Tables have an unsigned 64-bit integer as the signed one of the same bits.
    """
    if kind is None or value >= 0:
        return value
    return value + (1 << 64) if kind in _unsigned_types() else value


def unsigned_values(value: Any) -> Any:
    """Return JSON data with the integers of all self-describing values in it as they are meant."""
    if isinstance(value, list):
        return [unsigned_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: unsigned_values(each) for name, each in value.items()}
    if "parent" in found and isinstance(found.get("int"), int | str):
        from wirelake.records.exact_json import exact

        found["int"] = exact(unsigned(found.get("type"), int(found["int"])))
    return found


@functools.cache
def _unsigned_types() -> frozenset[int]:
    from wirelake.protocols import registry
    from wirelake.wire.model import Varint

    return frozenset(
        number
        for number, kind in registry.value_types().items()
        if isinstance(kind, Varint) and kind.bits == 64 and not kind.signed
    )


def json_line(data: Any) -> str:
    """Return JSON on one line, with control characters and Unicode line separators escaped."""
    text = json.dumps(data, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def json_text(value: Any) -> str:
    """Return a value as JSON on one line, with control characters escaped."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    # msgspec escapes only what JSON requires: U+2028 and C1 controls remain.
    return text if text.isprintable() else json_line(value)


def print_notice(text: str) -> None:
    """Print a notice on standard error; it may have several lines."""
    lines = (printable(line) for line in text.split("\n"))
    click.echo("wirelake: " + "\n".join(lines), err=True)


def names_text(names: Sequence[str]) -> str:
    """Return the first of some files or folders, and how many more there are."""
    first = Path(names[0]).absolute().name
    more = len(names) - 1
    return f"{first} and {more:,} more" if more else first


def write_files(folder: str, files: dict[str, str]) -> None:
    """Write texts into a folder, which is created if needed, and print their paths."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise CommandError(f"{folder}: not a folder", BAD_USAGE)
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
        click.echo(str(root / name))


# -- tables ------------------------------------------------------------------------------------

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

    # Rich assumes 80 columns where there is no terminal, and would cut values in a pipe.
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
        # Not str: rich would read brackets in a value as markup.
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


# -- progress ----------------------------------------------------------------------------------


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

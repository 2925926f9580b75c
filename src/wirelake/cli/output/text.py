"""Numbers, times, bytes and JSON as text on a terminal.

Text that came from a peer or a file is escaped, so that it cannot control the terminal.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ..errors import BAD_USAGE, CommandError

__all__ = [
    "body_text",
    "counted",
    "duration_text",
    "json_line",
    "print_notice",
    "printable",
    "time_text",
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


def json_line(data: Any) -> str:
    """Return JSON on one line, with control characters and Unicode line separators escaped."""
    text = json.dumps(data, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def print_notice(text: str) -> None:
    """Print a notice on standard error; it may have several lines."""
    lines = (printable(line) for line in text.split("\n"))
    click.echo("wirelake: " + "\n".join(lines), err=True)


def write_files(folder: str, files: dict[str, str]) -> None:
    """Write texts into a folder, which is created if needed, and print their paths."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise CommandError(f"{folder}: not a folder", BAD_USAGE)
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
        click.echo(str(root / name))

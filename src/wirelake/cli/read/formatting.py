"""Numbers, times and texts in words, for people at a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["counted", "duration_text", "printable", "time_text"]


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def counted(count: int, noun: str) -> str:
    """So many of them."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def time_text(ns: int) -> str:
    """A time in UTC, to the microsecond."""
    try:
        whole = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ns)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{ns % 1_000_000_000 // 1_000:06d}"


def duration_text(ns: int) -> str:
    """A duration with its unit, to three digits or the millisecond."""
    if abs(ns) >= 1_000_000_000:
        return f"{ns / 1_000_000_000:,.3f} s"
    if abs(ns) >= 1_000_000:
        return f"{ns / 1_000_000:.3g} ms"
    return f"{ns / 1_000:.3g} us" if abs(ns) >= 1_000 else f"{ns} ns"

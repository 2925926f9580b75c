"""Option types: sizes (256MB), durations (30d), times and fractions (1/16)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

__all__ = ["TimePoint", "duration", "fraction", "size", "time_point"]

_SIZES: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TIMES: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AMOUNT: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)")
_SECOND: Final = 1_000_000_000


def size(text: str) -> int:
    """Parse a size, such as 256MB, to bytes."""
    match = _AMOUNT.fullmatch(text.strip())
    unit = _SIZES.get(match["unit"].upper()) if match else None
    if match is None or unit is None or not 1 <= float(match["number"]) * unit < math.inf:
        raise click.BadParameter(f"{text!r}; expected a number with kB, MB or GB, such as 256MB")
    return int(float(match["number"]) * unit)


def duration(text: str) -> float:
    """Parse a duration, such as 30d, to seconds."""
    seconds = _seconds(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r}; expected seconds, or a number with s, m, h, d or w")
    return seconds


def fraction(text: str) -> int:
    """Parse 1/N, or 1 for everything, to N."""
    match = re.fullmatch(r"1/(\d{1,6})|1", text.strip())
    count = int(match[1] or 1) if match else 0
    if not count:
        raise click.BadParameter(f"{text!r}; expected 1 or a fraction such as 1/16")
    return count


@dataclass(frozen=True)
class TimePoint:
    """A time, or a duration before the end of the data."""

    ns: int
    from_end: bool = False

    def at(self, end_ns: int | None) -> int | None:
        """Return the time in nanoseconds; None if it is relative and there is no data."""
        if not self.from_end:
            return self.ns
        return None if end_ns is None else end_ns - self.ns


def time_point(text: str) -> TimePoint:
    """Parse a time, such as 2026-01-31T12:00, or a duration before the end, such as 2h."""
    seconds = _seconds(text) if re.search("[a-z]$", text) else None
    if seconds is not None:
        return TimePoint(int(seconds * _SECOND), from_end=True)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}; expected a time in UTC such as 2026-01-31T12:00, or a duration"
            " before the end such as 2h"
        ) from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return TimePoint(round(aware.timestamp() * 1_000_000) * 1_000)


def _seconds(text: str) -> float | None:
    match = _AMOUNT.fullmatch(text.strip())
    unit = _TIMES.get(match["unit"]) if match else None
    if match is None or unit is None:
        return None
    found = float(match["number"]) * unit
    return found if math.isfinite(found) else None

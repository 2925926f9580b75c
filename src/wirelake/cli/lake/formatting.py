"""Sizes, durations, times and shares as options of lakes take them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

__all__ = ["When", "duration", "pairs", "share", "size", "when"]

_SIZES: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TIMES: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AMOUNT: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)")
_SECOND: Final = 1_000_000_000


def size(text: str) -> int:
    """Bytes, as 256MB."""
    match = _AMOUNT.fullmatch(text.strip())
    unit = _SIZES.get(match["unit"].upper()) if match else None
    if match is None or unit is None or not 1 <= float(match["number"]) * unit < math.inf:
        raise click.BadParameter(f"{text!r}: wanted a number and KB, MB or GB, as 256MB")
    return int(float(match["number"]) * unit)


def duration(text: str) -> float:
    """Seconds, as 30d."""
    found = _seconds(text)
    if found is None:
        raise click.BadParameter(f"{text!r}: wanted seconds, or a number and s, m, h, d or w")
    return found


def share(text: str) -> int:
    """Of how many parts one is meant, as 1/16."""
    match = re.fullmatch(r"1/(\d{1,6})|1", text.strip())
    count = int(match[1] or 1) if match else 0
    if not count:
        raise click.BadParameter(f"{text!r}: wanted 1 for all, or 1/16 for a part")
    return count


@dataclass(frozen=True)
class When:
    """A time, or so long before the end of what there is."""

    ns: int
    from_end: bool = False

    def at(self, end_ns: int | None) -> int | None:
        """The time, given where things end; None when nothing has an end."""
        if not self.from_end:
            return self.ns
        return None if end_ns is None else end_ns - self.ns


def when(text: str) -> When:
    """A time, as 2026-01-31T12:00 or 2h."""
    seconds = _seconds(text) if re.search("[a-z]$", text) else None
    if seconds is not None:
        return When(int(seconds * _SECOND), from_end=True)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: wanted a time in UTC, as 2026-01-31T12:00, or a time before the end, as 2h"
        ) from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return When(round(aware.timestamp() * 1_000_000) * 1_000)


def _seconds(text: str) -> float | None:
    match = _AMOUNT.fullmatch(text.strip())
    unit = _TIMES.get(match["unit"]) if match else None
    if match is None or unit is None:
        return None
    found = float(match["number"]) * unit
    return found if math.isfinite(found) else None


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """Settings that were given as NAME=VALUE."""
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{option} {text}: wanted NAME=VALUE")
        found[name] = value
    return found

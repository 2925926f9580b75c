"""Sizes, durations, times and shares as options of lakes take them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

__all__ = ["DURATION", "SHARE", "SIZE", "WHEN", "When", "pairs"]

_SIZES: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TIMES: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AMOUNT: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)")
_SECOND: Final = 1_000_000_000


class _Size(click.ParamType):
    """Bytes, as 256MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _AMOUNT.fullmatch(value.strip())
        unit = _SIZES.get(match["unit"].upper()) if match else None
        if match is None or unit is None or float(match["number"]) * unit < 1:
            self.fail(f"{value!r}: wanted a number and KB, MB or GB, as 256MB", param, ctx)
        return int(float(match["number"]) * unit)


class _Duration(click.ParamType):
    """Seconds, as 30d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        found = _seconds(value)
        if found is None:
            self.fail(f"{value!r}: wanted seconds, or a number and s, m, h, d or w", param, ctx)
        return found


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


class _When(click.ParamType):
    """2026-01-31T12:00, or 2h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> When:
        if isinstance(value, When):
            return value
        seconds = _seconds(value) if re.search("[a-z]$", value) else None
        if seconds is not None:
            return When(int(seconds * _SECOND), from_end=True)
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r}: wanted a time in UTC, as 2026-01-31T12:00, or how long before the end,"
                " as 2h",
                param,
                ctx,
            )
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return When(round(aware.timestamp() * 1_000_000) * 1_000)


class _Share(click.ParamType):
    """One of so many, as 1/16."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"1/(\d{1,6})|1", value.strip())
        count = int(match[1] or 1) if match else 0
        if not count:
            self.fail(f"{value!r}: wanted 1 for all, or 1/16 for a part", param, ctx)
        return count


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


SIZE: Final = _Size()
DURATION: Final = _Duration()
WHEN: Final = _When()
SHARE: Final = _Share()

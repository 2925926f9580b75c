"""Axes and labels of the plots of a report.

Names from the wire are cut and escaped here, because plotly takes labels for a kind of HTML.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from .sheets import duration_text, name_text

__all__ = [
    "COUNTS",
    "DATES",
    "LONGEST",
    "SHARES",
    "cut",
    "durations",
    "escaped",
    "height_of",
    "label",
    "log",
    "names_axis",
    "step_name",
    "time_of",
]

DATES: Final = {"type": "date"}
"""An axis of time."""
COUNTS: Final = {"rangemode": "tozero", "tickformat": ",~s"}
"""An axis of counts."""
SHARES: Final = {"tickformat": ".0%", "range": [0, 1], "dtick": 0.25}
"""An axis of parts of a whole."""
LONGEST: Final = 40
"""Characters of a name where the pointer is."""

_DECADES: Final = range(15)
"""Powers of ten of a nanosecond that an axis may show: up to a day."""
_WIDE: Final = 32
_NARROW: Final = 16
"""Characters of a name: beside an axis, and beside one on a phone."""
_ROW: Final = 26
"""Pixels of a horizontal bar with the room around it."""
_SECOND_NS: Final = 1_000_000_000


def time_of(ns: int) -> str:
    """A time as plotly takes it, in UTC."""
    seconds, rest = divmod(ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03}"


def step_name(step_ns: int) -> str:
    """What a point of a plot stands for, in words."""
    seconds = step_ns // _SECOND_NS
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return word if seconds == size else f"{seconds // size} {word}s"
    return "second" if seconds == 1 else f"{seconds} seconds"


def log(ns: int) -> float:
    """Where a duration is on an axis of powers of ten."""
    return math.log10(max(ns, 1))


def durations(low: float, high: float) -> dict[str, Any]:
    """An axis of powers of ten."""
    decades = [each for each in _DECADES if low - 0.01 <= each <= high + 0.01]
    ticks = decades if len(decades) > 1 else [low, high]
    return {
        "range": [low, high],
        "tickvals": ticks,
        "ticktext": [duration_text(round(10**each)) for each in ticks],
    }


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names from top to bottom; two that look alike stay two. Phones get short ones."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [escaped(cut(name, _WIDE)) for name in names],
        "shorttext": [escaped(cut(name, _NARROW)) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def height_of(rows: Iterable[object]) -> int:
    """Pixels of a plot with a horizontal bar for each row."""
    return 90 + _ROW * len(list(rows))


def label(value: str | None) -> str:
    """A name where the pointer is."""
    return escaped(cut(name_text(value), LONGEST))


def escaped(text: str) -> str:
    """Text that plotly does not take for a tag."""
    return html.escape(text, quote=False)


def cut(text: str, most: int) -> str:
    """No more than so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"

"""Axes and labels of the plots of a report.

Names from the wire are truncated and escaped here, because plotly interprets tags in labels.
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
    "MAX_HOVER",
    "SHARES",
    "durations",
    "escaped",
    "height_of",
    "label",
    "log",
    "names_axis",
    "step_name",
    "time_of",
    "truncated",
]

DATES: Final = {"type": "date"}
"""Time axis."""
COUNTS: Final = {"rangemode": "tozero", "tickformat": ",~s"}
"""Axis of counts."""
SHARES: Final = {"tickformat": ".0%", "range": [0, 1], "dtick": 0.25}
"""Axis of percentages."""
MAX_HOVER: Final = 40
"""Longest name in a hover label."""

_DECADES: Final = range(15)
"""Powers of ten of an axis of durations, in nanoseconds: up to a day."""
_WIDE: Final = 32
_NARROW: Final = 16
"""Longest names beside an axis, on a desktop and on a phone."""
_ROW: Final = 26
"""Pixels per horizontal bar, with its margin."""
_SECOND_NS: Final = 1_000_000_000


def time_of(ns: int) -> str:
    """Return a time in UTC in plotly's format."""
    seconds, rest = divmod(ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03}"


def step_name(step_ns: int) -> str:
    """Return the name of a step, such as `5 minutes`."""
    seconds = step_ns // _SECOND_NS
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return word if seconds == size else f"{seconds // size} {word}s"
    return "second" if seconds == 1 else f"{seconds} seconds"


def log(ns: int) -> float:
    """Return the position of a duration on a logarithmic axis."""
    return math.log10(max(ns, 1))


def durations(low: float, high: float) -> dict[str, Any]:
    """Return a logarithmic axis of durations."""
    decades = [each for each in _DECADES if low - 0.01 <= each <= high + 0.01]
    ticks = decades if len(decades) > 1 else [low, high]
    return {
        "range": [low, high],
        "tickvals": ticks,
        "ticktext": [duration_text(round(10**each)) for each in ticks],
    }


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return an axis of names from top to bottom, with shorter ones for phones.

    Ticks are numbers, so that two names that are equal when truncated stay apart.
    """
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [escaped(truncated(name, _WIDE)) for name in names],
        "shorttext": [escaped(truncated(name, _NARROW)) for name in names],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def height_of(rows: Iterable[object]) -> int:
    """Return the pixels of a plot with one horizontal bar per row."""
    return 90 + _ROW * len(list(rows))


def label(value: str | None) -> str:
    """Return a name for a hover label."""
    return escaped(truncated(name_text(value), MAX_HOVER))


def escaped(text: str) -> str:
    """Return text in which plotly finds no tags."""
    return html.escape(text, quote=False)


def truncated(text: str, width: int) -> str:
    """Return at most `width` characters of a text."""
    return text if len(text) <= width else f"{text[: width - 1]}…"

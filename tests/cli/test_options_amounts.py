"""Option types: sizes, durations, times and fractions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from wirelake.cli.options import TimePoint, duration, fraction, size, time_point

NOON = 1_769_860_800_000_000_000


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (size, "1", 1),
        (size, "256MB", 256_000_000),
        (size, "1.5 gb", 1_500_000_000),
        (duration, "10", 10.0),
        (duration, "30d", 30 * 86_400.0),
        (duration, "1.5h", 5_400.0),
        (duration, "2w", 14 * 86_400.0),
        (fraction, "1", 1),
        (fraction, "1/16", 16),
        (time_point, "2026-01-31T12:00", TimePoint(NOON)),
        (time_point, "2026-01-31 12:00:00Z", TimePoint(NOON)),
        (time_point, "2026-01-31T13:00+01:00", TimePoint(NOON)),
        (time_point, "2026-01-31", TimePoint(NOON - 43_200_000_000_000)),
        (time_point, "2h", TimePoint(7_200_000_000_000, from_end=True)),
    ],
)
def test_what_is_understood(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((size, each) for each in ("", "MB", "-1", "0", "1XB", "0.2B")),
        *((duration, each) for each in ("", "x", "-5", "5y", "1d2h", "9" * 400)),
        *((fraction, each) for each in ("", "0", "2", "1/0", "2/16", "0.5", "1/x")),
        *((time_point, each) for each in ("", "noon", "2026-13-01", "5y", "-2h", "12:00")),
    ],
)
def test_what_is_not(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected "):
        parse(text)


def test_a_time_before_the_end() -> None:
    assert TimePoint(5, from_end=True).at(12) == 7
    assert TimePoint(5, from_end=True).at(None) is None
    assert TimePoint(5).at(None) == 5

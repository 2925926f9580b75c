"""Sizes, durations, times and shares, as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from wirelake.cli.lake.formatting import (
    When,
    duration,
    pairs,
    share,
    size,
    when,
)

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
        (share, "1", 1),
        (share, "1/16", 16),
        (when, "2026-01-31T12:00", When(NOON)),
        (when, "2026-01-31 12:00:00Z", When(NOON)),
        (when, "2026-01-31T13:00+01:00", When(NOON)),
        (when, "2026-01-31", When(NOON - 43_200_000_000_000)),
        (when, "2h", When(7_200_000_000_000, from_end=True)),
    ],
)
def test_what_is_understood(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((size, each) for each in ("", "MB", "-1", "0", "1XB", "1e9", "0.2B")),
        *((duration, each) for each in ("", "x", "-5", "5y", "1d2h", "9" * 400)),
        *((share, each) for each in ("", "0", "2", "1/0", "2/16", "0.5", "1/x")),
        *((when, each) for each in ("", "noon", "2026-13-01", "5y", "-2h", "12:00")),
    ],
)
def test_what_is_not(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(click.BadParameter, match="wanted "):
        parse(text)


def test_a_time_before_the_end() -> None:
    assert When(5, from_end=True).at(12) == 7
    assert When(5, from_end=True).at(None) is None
    assert When(5).at(None) == 5


def test_pairs() -> None:
    assert pairs("--conf", ("a.b=1", "c=", "a.b=x=y")) == {"a.b": "x=y", "c": ""}
    for bad in ("a", "=1", ""):
        with pytest.raises(click.UsageError, match="wanted NAME=VALUE"):
            pairs("--conf", (bad,))

"""Figures in words, and names from the wire that are harmless."""

from __future__ import annotations

import pytest

from wirehouse.tables import report_sheets as words


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (12_345_678, "12.3 ms"),
        (999_600_000, "1,000 ms"),
        (1_000_000_000, "1 s"),
        (119_000_000_000, "119 s"),
        (150_000_000_000, "2.5 min"),
        (-2_000_000, "-2 ms"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    assert words.duration_text(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (5_270_653, "5.27 MB"),
     (2_000_000_000, "2 GB"), (3 * 10**15, "3,000 TB")],
)  # fmt: skip
def test_bytes(count: int | None, text: str) -> None:
    assert words.bytes_text(count) == text


def test_times() -> None:
    assert words.time_text(1_767_621_600_000_000_000) == "2026-01-05 14:00"
    assert words.time_text(None) == "–"
    assert words.time_text(1 << 70).endswith(" ns")


def test_names_are_harmless() -> None:
    assert words.name_text("a/b") == "a/b"
    assert words.name_text(None) == "–"
    assert words.name_text("\x1b[2J\u202eevil\n") == "\\x1b[2J\\u202eevil\\n"
    assert words.topic_text(None) == "(no topic)"

"""Figures in words, and names from the wire that are harmless."""

from __future__ import annotations

import msgspec
import pytest

from wirelake.tables.report import sheets as words
from wirelake.tables.report.report import Coverage, Overview, Report


@pytest.fixture
def report() -> Report:
    """A report with nothing in it."""
    nothing = Overview(0, 0, 0, 0, 0, 0, 0, None, None)
    lists = [name for name, kind in Report.__annotations__.items() if kind.startswith("list")]
    return Report(
        lake="", commit=None, since_ns=None, until_ns=None, step_ns=1, complete_ns=None,
        overview=nothing,
        **{name: [] for name in lists},
    )  # fmt: skip


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


def test_only_the_whole_is_a_hundred_percent(report: Report) -> None:
    almost = Coverage(
        protocol="tny", streams=2, span_bytes=100_000, gap_bytes=0, duplicate_bytes=0,
        new_bytes=100_000, decoded_bytes=99_999, faulty_bytes=1, undecryptable_bytes=0,
        ignored_bytes=0,
    )  # fmt: skip
    replace = msgspec.structs.replace
    rows = [
        almost,
        replace(almost, decoded_bytes=100_000, faulty_bytes=0),
        replace(almost, new_bytes=0, decoded_bytes=0),
    ]
    (sheet,) = [each for each in words.sheets(replace(report, coverage=rows)) if each.rows]
    at = sheet.headings.index("decoded %")
    assert [row[at] for row in sheet.rows] == ["99.9 %", "100.0 %", "–"]


def test_a_small_part_is_not_nothing() -> None:
    shares = [words.share_text(part, 10_000) for part in (0, 1, 4, 5, 10_000)]
    assert shares == ["0.0 %", "< 0.1 %", "< 0.1 %", "0.1 %", "100.0 %"]


def test_every_sheet_names_its_minor_columns(report: Report) -> None:
    for sheet in words.sheets(report):
        assert set(sheet.minor) < set(sheet.headings)
        assert len(sheet.numbers) == len(sheet.headings)


def test_targets_have_the_names_of_their_protocol() -> None:
    names = {
        ("tny", "10"): "hub/auth (10)",
        ("tny", "1001"): "1001",
        ("magline", "11"): "hub/subscribe (11)",
        ("magline", "4097"): "0x1001 (4097)",
        ("esnp", "10"): "10",
        ("magline", None): "–",
        (None, "10"): "10",
        ("not installed", "10"): "10",
        ("magline", "\u0661"): "\u0661",
    }
    assert {each: words.target_text(*each) for each in names} == names


def test_rows_have_what_they_are_sorted_by(report: Report) -> None:
    row = Coverage(
        protocol="tny", streams=2, span_bytes=100, gap_bytes=0, duplicate_bytes=0, new_bytes=100,
        decoded_bytes=50, faulty_bytes=50, undecryptable_bytes=0, ignored_bytes=0,
    )  # fmt: skip
    empty = msgspec.structs.replace(row, new_bytes=0)
    found = msgspec.structs.replace(report, coverage=[row, empty])
    (sheet,) = [each for each in words.sheets(found) if each.rows]
    at = sheet.headings.index("decoded %")
    assert [keys[at] for keys in sheet.keys] == [0.5, None]
    assert [keys[1] for keys in sheet.keys] == [2, 2]
    assert sheet.protocols == ["tny", "tny"]

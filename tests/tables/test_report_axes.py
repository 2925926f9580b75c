"""Axes and labels: what plotly is told, and what it must not take for a tag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols import registry
from wirelake.tables.report import plots as axes

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(1, "second"), (5, "5 seconds"), (60, "minute"), (300, "5 minutes"), (3_600, "hour"),
     (7_200, "2 hours"), (86_400, "day"), (604_800, "7 days")],
)  # fmt: skip
def test_steps_as_text(seconds: int, name: str) -> None:
    assert axes.step_name(seconds * SECOND) == name


def test_times_have_parts_of_a_second() -> None:
    assert axes.time_of(1_767_621_600_500_000_000) == "2026-01-05 14:00:00.500"


def test_durations_are_marked_at_powers_of_ten() -> None:
    assert axes.durations(5.5, 9.2)["ticktext"] == ["1 ms", "10 ms", "100 ms", "1 s"]
    close = axes.durations(axes.log(2_000), axes.log(3_000))
    assert close["ticktext"] == ["2 µs", "3 µs"]  # no two powers of ten: the ends
    assert axes.log(0) == 0


@given(st.integers(0, 10**12))
def test_counts_are_marked_at_whole_numbers(highest: int) -> None:
    axis = axes.counts(highest)
    assert isinstance(axis["dtick"], int)
    assert str(axis["dtick"]).rstrip("0") in ("1", "2", "5")
    assert highest / axis["dtick"] <= 6
    assert axis["dtick"] == 1 or highest / axis["dtick"] > 2


def test_a_protocol_has_the_same_colour_in_every_report() -> None:
    colours = axes.colours()
    built_in = [colours[name] for name in registry.BUILT_IN]
    assert len({*built_in}) == len(built_in)
    assert colours[None] not in built_in


def test_names_go_from_top_to_bottom() -> None:
    axis = axes.names_axis(["a" * 40, "<b>", "<b>"])
    assert axis["tickvals"] == [0, 1, 2]
    assert axis["range"] == [2.5, -0.5]
    assert [len(axis[each][0]) for each in ("ticktext", "shorttext")] == [32, 16]
    assert axis["ticktext"][1:] == ["&lt;b&gt;", "&lt;b&gt;"]
    assert axes.height_of([1, 2]) - axes.height_of([1]) == 26


def test_labels_are_harmless_and_short() -> None:
    assert axes.label(None) == "–"
    assert axes.label("<img>\x1b") == "&lt;img&gt;\\x1b"
    assert axes.label("x" * 100) == "x" * 39 + "…"

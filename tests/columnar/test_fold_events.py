"""Whatever the events: folds give the rows of the engines."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.columnar.folding import Window, differences, engine_rows, fold_rows, read_rows
from tests.columnar.folding_scenes import (
    ALL,
    APART,
    BACK_AND_FORTH,
    CUTS,
    FORWARD,
    TUNNELS,
    cut,
    drawn_events,
)
from tests.records.scenes import SECOND

from wirelake.columnar.fold import fold as folding
from wirelake.columnar.fold import memory
from wirelake.records.rows import Closed, Event, Opened

pytestmark = pytest.mark.slow

SHARES = st.lists(st.integers(1, 3), min_size=8, max_size=8)
"""Of each step."""


def _agree(windows: list[Window], shares: list[int]) -> None:
    """After each step and after the last, with these shares."""
    steps = [(number + 1, shares[number]) for number in range(len(windows))]
    for number, rows in enumerate(fold_rows(windows, steps)):
        assert differences(engine_rows(windows[: number + 1]), rows) == []
    assert differences(engine_rows(windows), read_rows(windows)) == []


@given(events=drawn_events(ALL, FORWARD), cuts=CUTS, shares=SHARES)
def test_the_rows_are_those_of_the_engines(
    events: list[Event], cuts: list[int], shares: list[int]
) -> None:
    _agree(cut(events, cuts), shares)


@given(events=drawn_events(TUNNELS, FORWARD), cuts=CUTS)
def test_tunnels_and_their_links(events: list[Event], cuts: list[int]) -> None:
    _agree(cut(events, cuts), [1, 2, 3, 2])


@given(
    events=drawn_events(APART, BACK_AND_FORTH),
    cuts=CUTS,
    shares=SHARES,
    waiting=st.lists(
        st.dictionaries(st.integers(1, 4), st.integers(0, 30 * SECOND), max_size=3),
        min_size=4,
        max_size=4,
    ),
)
def test_while_connections_wait(
    events: list[Event], cuts: list[int], shares: list[int], waiting: list[dict[int, int]]
) -> None:
    _agree(cut(events, cuts, waiting), shares)


@given(events=drawn_events(APART), cuts=CUTS)
# The end of a connection comes after an opening that has a later time.
@example(events=[Closed(0, 1, "c2s", "fin"), Opened(1, 1, "comet")], cuts=[])
def test_with_little_room(events: list[Event], cuts: list[int]) -> None:
    windows = cut(events, cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "_MORE", 1)
        patch.setattr(folding, "IDLE_CALLS", 0)
        patch.setattr(memory, "_FIRST_ROOM", 1)
        patch.setattr(memory, "_TEXTS", 0)
        [rows] = fold_rows(windows, [(len(windows), 1)])
    assert differences(engine_rows(windows), rows) == []

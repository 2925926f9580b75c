"""Reads are split into tasks: every share once, small captures combined, large ones split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.lake.datasource.source import Files, Share, pack

MB = 1 << 20
SIZES = st.lists(st.integers(0, 50 * MB) | st.integers(0, 5_000 * MB), max_size=30)


def captures(sizes: list[int]) -> list[Files]:
    return [Files((f"{number}.pcap",), size) for number, size in enumerate(sizes)]


def tasks(*megabytes: float, tasks: int | None = None) -> list[list[str]]:
    """The shares of each task, as capture:share/shares."""
    found = pack(captures([int(each * MB) for each in megabytes]), tasks)
    return sorted(
        sorted(f"{each.paths[0][:-5]}:{each.share}/{each.shares}" for each in work.shares)
        for work in found
    )


@given(SIZES, st.none() | st.integers(1, 20))
def test_every_share_of_every_capture_is_read_once(sizes: list[int], most: int | None) -> None:
    found = [share for work in pack(captures(sizes), most) for share in work.shares]
    shares = {each.paths: each.shares for each in found}
    assert sorted(found) == sorted(
        Share(paths, number, count) for paths, count in shares.items() for number in range(count)
    )
    assert len(shares) == len(sizes)


@given(SIZES, st.integers(1, 20))
def test_there_are_no_more_tasks_than_asked_for(sizes: list[int], most: int) -> None:
    found = pack(captures(sizes), most)
    assert len(found) <= most
    assert all(work.shares for work in found)


def test_small_captures_go_together() -> None:
    assert tasks(1, 2, 3) == [["0:0/1", "1:0/1", "2:0/1"]]
    assert tasks(20, 20, 20, 20) == [["0:0/1", "3:0/1"], ["1:0/1"], ["2:0/1"]]


def test_a_large_capture_is_cut_and_others_fill_up() -> None:
    assert tasks(64, 1) == [["0:0/3", "1:0/1"], ["0:1/3"], ["0:2/3"]]


def test_a_number_of_tasks_is_kept_to() -> None:
    assert tasks(9, tasks=3) == [["0:0/3"], ["0:1/3"], ["0:2/3"]]
    assert tasks(9, 9, tasks=2) == [["0:0/1"], ["1:0/1"]]
    assert tasks(1, 1, 1, tasks=1) == [["0:0/1", "1:0/1", "2:0/1"]]


def test_nothing_to_read_is_nothing_to_do() -> None:
    assert pack([]) == []

"""Offsets of a stream: batches split the admitted files, and a repeated batch is equal."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.lake.datasource.paths import Offset, OffsetError, advance, between, cursors
from wirelake.tables.inputs import Capture


def file(source: str, sequence: int, name: str = "") -> Capture:
    path = f"/captures/{source}-{sequence}{name}.pcap"
    return Capture(source=source, sequence=sequence, path=path, bytes=1, mtime_ns=1)


def end_of(start: Offset, files: list[Capture]) -> Offset:
    return advance(start, [each.consumed() for each in files])


def places(found: dict[str, list[Capture]]) -> set[tuple[str, int]]:
    return {(source, each.sequence) for source, files in found.items() for each in files}


FILES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12) | st.integers(0, 10**14)), unique=True
)


@given(FILES, FILES, st.integers(1, 5))
def test_batches_have_every_file_once_when_more_files_come_later(
    taken: list[tuple[str, int]], later: list[tuple[str, int]], size: int
) -> None:
    files = [file(*each) for each in sorted(taken)]
    offsets: list[Offset] = [{}]
    for begin in range(0, len(files), size):
        offsets.append(end_of(offsets[-1], files[begin : begin + size]))
    there = [*files, *(file(*each) for each in later if each not in taken)]
    seen: list[tuple[str, int]] = []
    for begin, (start, end) in enumerate(itertools.pairwise(offsets)):
        found = between(there, start, end)
        mine = files[begin * size : (begin + 1) * size]
        assert places(found) == {(each.source, each.sequence) for each in mine}
        seen += sorted(places(found))
    assert sorted(seen) == sorted(taken)
    assert cursors(offsets[-1]) == {
        source: max(number for name, number in taken if name == source) for source, _ in taken
    }


def test_a_gap_is_kept_with_the_batch_that_passed_it_over() -> None:
    first = end_of({}, [file("tap", 0), file("tap", 1)])
    second = end_of(first, [file("tap", 4)])
    third = end_of(second, [file("tap", 5)])
    assert (first, second, third) == ({"tap": 1}, {"tap": [4, [2, 3]]}, {"tap": 5})
    there = [file("tap", number) for number in range(6)]
    assert places(between(there, first, second)) == {("tap", 4)}
    assert places(between(there, second, third)) == {("tap", 5)}


def test_nothing_new_is_the_same_offset() -> None:
    start: Offset = {"tap": [4, [2, 3]]}
    assert advance(start, []) == start
    assert between([file("tap", 4)], start, start) == {}


def test_of_two_files_in_one_place_the_first_counts() -> None:
    found = between([file("tap", 0), file("tap", 0, "-copy")], {}, {"tap": 0})
    assert [each.path for each in found["tap"]] == ["/captures/tap-0.pcap"]


def test_a_file_that_is_gone() -> None:
    there = [file("tap", 0), file("tap", 2)]
    with pytest.raises(OffsetError, match=r"file 1 of source 'tap' no longer exists"):
        between(there, {}, {"tap": 2})
    assert places(between(there, {}, {"tap": 2}, whole=False)) == {("tap", 0), ("tap", 2)}


@pytest.mark.parametrize("value", ["7", None, True, [], ["x"], 1.5])
def test_an_invalid_offset(value: object) -> None:
    with pytest.raises(OffsetError, match=r"invalid offset .* of source 'tap'"):
        cursors({"tap": value})

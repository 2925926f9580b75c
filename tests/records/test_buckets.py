"""Buckets of latencies: without holes, in order, and never wider than an eighth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.records.rollups import BUCKETS, bounds, bucket_of

MOST = (1 << 63) - 1


def test_buckets_have_no_holes() -> None:
    ends = [bounds(bucket) for bucket in range(BUCKETS)]
    assert ends[0] == (0, 1)
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert ends[-1][1] == MOST


def test_the_ends_of_each_bucket_are_in_it() -> None:
    for bucket in range(BUCKETS):
        from_ns, below_ns = bounds(bucket)
        assert bucket_of(from_ns) == bucket_of(below_ns - 1) == bucket


def test_below_zero_and_above_all() -> None:
    assert bucket_of(-1) == bucket_of(0) == 0
    assert bucket_of(MOST) == bucket_of(MOST + 1) == BUCKETS - 1


@given(st.integers(8, MOST - 1))
def test_a_bucket_is_an_eighth_wide_at_most(ns: int) -> None:
    from_ns, below_ns = bounds(bucket_of(ns))
    assert from_ns <= ns < below_ns
    assert (below_ns - from_ns) * 8 <= from_ns


def test_an_example() -> None:
    assert bucket_of(1_500_000) == 147
    assert bounds(147) == (1_441_792, 1_572_864)


@pytest.mark.parametrize("bucket", [-1, BUCKETS])
def test_no_such_bucket(bucket: int) -> None:
    with pytest.raises(ValueError, match=f"invalid bucket {bucket}; expected 0 to {BUCKETS - 1}"):
        bounds(bucket)

"""Buckets of latencies that are always the same, so that their counts can be added up exactly.

    bucket_of(1_500_000)     147
    bounds(147)              (1_441_792, 1_572_864)

Below 8 ns each number is a bucket of its own. From there on each doubling is cut into eight equal
buckets: a latency is told to an eighth of its size, or better. It is all integers: every language
that follows this page finds the same bucket.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BUCKETS", "bounds", "bucket_of"]

_MOST: Final = (1 << 63) - 1
"""The largest latency that a column can hold."""


def bucket_of(ns: int) -> int:
    """The number of the bucket of a latency; one below zero is in the bucket of zero."""
    n = min(max(ns, 0), _MOST)
    if n < 8:
        return n
    doublings = n.bit_length() - 1
    return 8 * (doublings - 2) + ((n >> (doublings - 3)) & 7)


BUCKETS: Final = bucket_of(_MOST) + 1
"""How many buckets there are."""


def bounds(bucket: int) -> tuple[int, int]:
    """The least latency of a bucket, and that of the next; the last one ends with the int64."""
    if not 0 <= bucket < BUCKETS:
        raise ValueError(f"no bucket {bucket}; there are 0 to {BUCKETS - 1}")
    if bucket < 8:
        return bucket, bucket + 1
    shift, eighth = bucket // 8 - 1, bucket % 8
    return (8 + eighth) << shift, min((9 + eighth) << shift, _MOST)

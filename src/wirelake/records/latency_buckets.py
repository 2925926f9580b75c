"""Fixed latency buckets, so that counts can be added exactly.

    bucket_of(1_500_000)     147
    bounds(147)              (1_441_792, 1_572_864)

Below 8 ns each number is a bucket. Above, each power of two is divided into eight equal buckets, so
a latency is known to an eighth of its value or better. All arithmetic is on integers: every
implementation of this page finds the same bucket.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BUCKETS", "bounds", "bucket_of"]

_MOST: Final = (1 << 63) - 1
"""The largest latency that a column can hold."""


def bucket_of(ns: int) -> int:
    """Return the bucket number of a latency. Negative latencies are in bucket 0."""
    n = min(max(ns, 0), _MOST)
    if n < 8:
        return n
    doublings = n.bit_length() - 1
    return 8 * (doublings - 2) + ((n >> (doublings - 3)) & 7)


BUCKETS: Final = bucket_of(_MOST) + 1
"""How many buckets there are."""


def bounds(bucket: int) -> tuple[int, int]:
    """Return the lower and upper bound of a bucket. The last one ends at the maximum int64."""
    if not 0 <= bucket < BUCKETS:
        raise ValueError(f"no bucket {bucket}; there are 0 to {BUCKETS - 1}")
    if bucket < 8:
        return bucket, bucket + 1
    shift, eighth = bucket // 8 - 1, bucket % 8
    return (8 + eighth) << shift, min((9 + eighth) << shift, _MOST)

"""Into how many tasks the work of a step is divided."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["shares_of", "workers_of"]

_BYTES_OF_A_SHARE: Final = 8 << 20
"""How much of a source is worth a task of its own."""
_MOST_SHARES: Final = 16
"""Every share of a source looks at all of its packets: more of them would cost more than save."""
_LOCAL: Final = re.compile(r"local\[(\d+)[^\]]*\]")
_CLUSTER: Final = re.compile(r"local-cluster\[(\d+),\s*(\d+),.*\]")


def shares_of(sizes: Mapping[str, int], workers: int) -> dict[str, int]:
    """Into how many tasks each source is divided, so that all workers have something to do.

    A source is only divided when it is so big that others cannot keep the workers busy meanwhile.
    """
    total = sum(sizes.values())
    found: dict[str, int] = {}
    for source, size in sizes.items():
        even = -(-size * workers // total) if total else 1
        worth = 1 + size // _BYTES_OF_A_SHARE
        found[source] = max(1, min(even, worth, _MOST_SHARES))
    return found


def workers_of(spark: SparkSession) -> int:
    """How many tasks a session runs at once, as far as its settings tell; else 2."""
    master = spark.conf.get("spark.master", "") or ""
    if match := _LOCAL.fullmatch(master):
        return int(match[1])
    if match := _CLUSTER.fullmatch(master):
        return int(match[1]) * int(match[2])
    executors = spark.conf.get("spark.executor.instances", "") or ""
    cores = spark.conf.get("spark.executor.cores", "") or "1"
    if executors.isdecimal() and cores.isdecimal():
        return max(1, int(executors) * int(cores))
    most = spark.conf.get("spark.cores.max", "") or ""
    return int(most) if most.isdecimal() else 2

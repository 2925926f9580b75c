"""Spark: sessions that are set up for Wirehouse, and the data source `wirehouse`.

    from wirehouse.lake import session

    spark = session()
    calls = spark.read.format("wirehouse").option("table", "calls").load("captures/")

The source registers itself in any Spark session whose Python can import `wirehouse`; `session` only
adds good settings. The guide is `docs/guides/spark.md`.

Spark is imported when it is used: what needs none works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .session import session

if TYPE_CHECKING:
    from .source import WirehouseSource

__all__ = ["WirehouseSource", "session"]


def __getattr__(name: str) -> Any:
    if name == "WirehouseSource":
        from .source import WirehouseSource

        return WirehouseSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

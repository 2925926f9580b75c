"""Spark: sessions that are set up for Wirelake, and the data source `wirelake`.

    from wirelake.lake import session

    spark = session()
    calls = spark.read.format("wirelake").option("table", "calls").load("captures/")

The source registers itself in any Spark session whose Python can import `wirelake`; `session` only
adds good settings. The guide is `docs/guides/spark.md`.

Spark is imported when it is used: what needs none works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .spark.session import session

if TYPE_CHECKING:
    from .datasource.source import WirelakeSource

__all__ = ["WirelakeSource", "session"]


def __getattr__(name: str) -> Any:
    if name == "WirelakeSource":
        from .datasource.source import WirelakeSource

        return WirelakeSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

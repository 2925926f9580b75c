"""Spark: sessions that are set up for Wirehouse, and the data source `wirehouse`.

    from wirehouse.lake import session

    spark = session()
    calls = spark.read.format("wirehouse").option("table", "calls").load("captures/")

The source registers itself in any Spark session whose Python can import `wirehouse`; `session` only
adds good settings. The guide is `docs/guides/spark.md`.
"""

from __future__ import annotations

from .session import session
from .source import WirehouseSource

__all__ = ["WirehouseSource", "session"]

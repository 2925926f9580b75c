"""The lake: its engine, Spark sessions, the data source `wirelake`, `verify` and `doctor`.

    from wirelake.lake import session

    spark = session()
    calls = spark.read.format("wirelake").option("table", "calls").load("captures/")

The source registers itself in any Spark session whose Python can import `wirelake`; `session` only
adds settings. The guides are `docs/guides/spark.md` and `docs/guides/lake.md`.

Read it in this order: `spark` (sessions, workers, DataFrames and views of a lake), `datasource`
(captures as DataFrames), `engine` (captures to a lake), `capture_lake` (a lake for one query,
without Spark), `verify` (compares a lake with its captures), `doctor` (checks a machine).

pyspark is imported when it is used; `capture_lake`, `verify` and `doctor` work without it. This
package does not import hub, client or cli, except that `doctor` reads the hub's default ports.
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

"""Registers the data source `wirelake` in every Spark session.

Spark imports top-level modules named `pyspark_*` and registers their `DefaultSource`.
"""

from wirelake.lake.datasource.source import WirelakeSource

__all__ = ["DefaultSource"]


class DefaultSource(WirelakeSource):
    """The data source `wirelake`."""

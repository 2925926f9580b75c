"""Makes Spark find the data source `wirelake` by itself.

Spark looks for modules whose names begin with `pyspark_`, and registers their `DefaultSource`.
"""

from wirelake.lake.datasource.source import WirelakeSource

__all__ = ["DefaultSource"]


class DefaultSource(WirelakeSource):
    """The data source `wirelake`."""

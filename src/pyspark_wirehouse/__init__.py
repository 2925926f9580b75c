"""Makes Spark find the data source `wirehouse` by itself.

Spark looks for modules whose names begin with `pyspark_`, and registers their `DefaultSource`.
"""

from wirehouse.lake.source import WirehouseSource

__all__ = ["DefaultSource"]


class DefaultSource(WirehouseSource):
    """The data source `wirehouse`."""

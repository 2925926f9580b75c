"""Tables that need all connections at once, made by Spark's own operations.

    deliveries      notifications, over all connections of a client
    sign_ons        the connection on which a client was before
    rollups         what there was in each minute
    functions       the helpers of SQL, for people

What comes in are rows that each connection was folded to, in any order and in any grouping; what
comes out depends on neither. Nothing here runs a job or a line of Python on a worker: DataFrames
are made of DataFrames, with Spark Connect as well as without.
"""

from __future__ import annotations

from . import deliveries, functions, rollups, sign_ons

__all__ = ["deliveries", "functions", "rollups", "sign_ons"]

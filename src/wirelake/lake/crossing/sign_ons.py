"""Who signed on where before: the column `previous_connection` of `connections`.

It is the one thing about a connection that another one decides. Sign-ons of a client (of one
protocol) are put in the order of their time; at one time, in the order of connections.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from .shape import DAY_NS

__all__ = ["kept", "previous", "with_previous"]

_CLIENT = ("protocol", "client")
_JOINED = ("connection", "client", "signed_on_ns")


def previous(sign_ons: DataFrame) -> DataFrame:
    """Each sign-on, and the connection on which the same client signed on before."""
    order = Window.partitionBy(*_CLIENT).orderBy("ts_ns", "connection")
    found = sign_ons.select(*_CLIENT, "connection", "ts_ns").distinct()
    return found.withColumn("previous_connection", f.lag("connection").over(order))


def with_previous(connections: DataFrame, sign_ons: DataFrame) -> DataFrame:
    """Rows of `connections` with their `previous_connection`; `sign_ons` are all that count.

    Further columns of the rows stay.
    """
    before = previous(sign_ons).withColumnRenamed("ts_ns", "signed_on_ns")
    found = before.groupBy(*_JOINED).agg(f.max("previous_connection").alias("before"))
    joined = connections.join(found, list(_JOINED), "left")
    columns = connections.columns
    return joined.withColumn("previous_connection", f.col("before")).select(*columns)


def kept(sign_ons: DataFrame, now_ns: int) -> DataFrame:
    """What must be remembered: sign-ons of the last 24 hours, and of each client the last before.

    So whatever still comes of these 24 hours, in whichever order, finds its previous connection.
    """
    recent = f.col("ts_ns") > now_ns - DAY_NS
    order = Window.partitionBy(*_CLIENT, "recent").orderBy(f.desc("ts_ns"), f.desc("connection"))
    found = sign_ons.withColumn("recent", recent).withColumn("rank", f.row_number().over(order))
    return found.where(f.col("recent") | (f.col("rank") == 1)).drop("recent", "rank")

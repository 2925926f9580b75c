"""What the parts of this package share: columns in their order, times that go together."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from wirelake.records.cross_connection import CROSSING
from wirelake.records.schema import schema

from ..spark.schemas import spark_schema

__all__ = [
    "DAY_NS",
    "MINUTE_NS",
    "expected",
    "fitted",
    "kept",
    "kept_faults",
    "kept_publications",
    "merged",
    "minute_of",
    "pair",
    "previous",
    "settled",
    "told",
    "told_apart",
    "with_previous",
]


MINUTE_NS: Final = 60_000_000_000
DAY_NS: Final = 24 * 60 * MINUTE_NS
"""Times in nanoseconds."""


def fitted(frame: DataFrame, table: str) -> DataFrame:
    """The rows of a table with its columns, in their order; those that are missing are null."""
    return frame.to(spark_schema(CROSSING[table] if table in CROSSING else schema(table)))


def minute_of(ts_ns: Column) -> Column:
    """Beginning of the minute of a time; null where it would be less than an int64 can hold."""
    return f.try_subtract(ts_ns, f.pmod(ts_ns, f.lit(MINUTE_NS)))


def pair(ts_ns: str, connection: str) -> Column:
    """A time with its connection, to find the first or the last of; null without a time."""
    both = f.struct(f.col(ts_ns).alias("ts_ns"), f.col(connection).alias("connection"))
    return f.when(f.col(ts_ns).isNotNull(), both)


# Notifications over all connections of a client: the table `deliveries`.


_QUIET_NS: Final = 10 * MINUTE_NS
"""An acknowledged notification is settled when nothing was heard of it for so long."""
_KEY: Final = ("protocol", "client", "connection", "notification")


def merged(parts: DataFrame) -> DataFrame:
    """One part for each protocol, client and notification.

    Where the client is not known, its connection stands for it; else `connection` is null. At one
    time, the smaller id of a connection is the first, the larger one the last.
    """
    return fitted(_merged(parts), "_delivery_parts")


def _merged(parts: DataFrame, further: tuple[str, ...] = ()) -> DataFrame:
    """Merges parts that have the same key, and the same in `further` columns."""
    found = _by_whom(parts).groupBy(*_KEY, *further).agg(
        f.sum("sends").alias("sends"),
        f.min(pair("first_sent_ns", "first_connection")).alias("first"),
        f.max(pair("last_sent_ns", "last_connection")).alias("last"),
        f.sum("acks").alias("acks"),
        f.min(pair("acked_ns", "acked_connection")).alias("acked"),
        f.min("published_ns").alias("published_ns"),
        f.max("last_event_ns").alias("last_event_ns"),
    )  # fmt: skip
    places = {
        "first_sent_ns": f.col("first.ts_ns"),
        "first_connection": f.col("first.connection"),
        "last_sent_ns": f.col("last.ts_ns"),
        "last_connection": f.col("last.connection"),
        "acked_ns": f.col("acked.ts_ns"),
        "acked_connection": f.col("acked.connection"),
    }
    return found.withColumns(places)


def expected(publications: DataFrame) -> DataFrame:
    """Parts for publications that name a client: they make a row even if nothing is ever sent."""
    none = f.lit(0).cast("long")
    named = publications.where(f.col("client").isNotNull())
    found = named.select(
        "protocol",
        "client",
        "notification",
        none.alias("sends"),
        none.alias("acks"),
        f.col("ts_ns").alias("last_event_ns"),
    )
    return fitted(found, "_delivery_parts")


def told(
    parts: DataFrame, publications: DataFrame, faults: DataFrame, *, expect: bool = True
) -> DataFrame:
    """The rows of `deliveries` that come of parts, publications and faults.

    With `expect` off there are rows for these parts alone: publications only say when and where.
    """
    every = parts.unionByName(expected(publications)) if expect else parts
    return fitted(_told(merged(every), publications, faults), "deliveries")


def told_apart(
    parts: DataFrame, publications: DataFrame, faults: DataFrame, apart: str
) -> DataFrame:
    """Rows for these parts alone, as with `expect` off; parts that differ in `apart` stay so.

    The column `apart` is kept. It is one plan where two calls of `told` would be two.
    """
    found = _told(_merged(parts, (apart,)), publications, faults)
    return found.select(*(each.name for each in schema("deliveries")), apart)


def settled(parts: DataFrame, now_ns: int) -> Column:
    """Whether the rows of merged parts are final, at a time of the capture.

    They are when they were acknowledged and nothing was heard of them for 10 minutes, or when
    nothing was heard of them for 24 hours.
    """
    last_ns = parts["last_event_ns"]
    quiet = parts["acked_ns"].isNotNull() & (last_ns <= now_ns - _QUIET_NS)
    return quiet | (last_ns <= now_ns - DAY_NS)


def kept_publications(publications: DataFrame, held: DataFrame, now_ns: int) -> DataFrame:
    """What must be remembered: the last 24 hours, and what parts that are held still need."""
    needed = held.select("notification", f.lit(True).alias("needed")).distinct()
    found = publications.join(needed, "notification", "left")
    return found.where(_recent(now_ns) | f.col("needed")).select(*publications.columns)


def kept_faults(faults: DataFrame, held: DataFrame, now_ns: int) -> DataFrame:
    """What must be remembered: the last one of each client, by the same rule."""
    needed = _by_whom(held).select(
        f.col("client").alias("held_client"),
        f.col("connection").alias("held_connection"),
        f.lit(True).alias("needed"),
    )
    found = _last_faults(faults).join(needed.distinct(), _same_whom("held"), "left")
    return found.where(_recent(now_ns) | f.col("needed")).select("client", "connection", "ts_ns")


# -- who -------------------------------------------------------------------------------------


def _by_whom(rows: DataFrame) -> DataFrame:
    """The connection counts only where it stands for a client."""
    return rows.withColumn("connection", f.when(f.col("client").isNull(), f.col("connection")))


def _same_whom(other: str) -> Column:
    """The same client, or the same connection; the other side's columns have a prefix."""
    client = f.col("client").eqNullSafe(f.col(f"{other}_client"))
    return client & f.col("connection").eqNullSafe(f.col(f"{other}_connection"))


def _recent(now_ns: int) -> Column:
    return f.col("ts_ns") > now_ns - DAY_NS


# -- what is known beside the parts ----------------------------------------------------------


def _told(parts: DataFrame, publications: DataFrame, faults: DataFrame) -> DataFrame:
    """Merged parts with all that `deliveries` says of them."""
    found = _with_last_fault(_with_fact(parts, publications), faults)
    latency_ns = f.try_subtract(f.col("acked_ns"), f.col("first_sent_ns"))
    return found.withColumns({"outcome": _outcome(), "latency_ns": latency_ns})


def _with_fact(parts: DataFrame, publications: DataFrame) -> DataFrame:
    """Topic and time of the earliest fact; without one, what the notification says itself."""
    fact = f.struct(f.col("ts_ns"), f.col("topic").isNull(), f.col("topic"))
    earliest = publications.groupBy("notification").agg(f.min(fact).alias("fact"))
    return parts.join(earliest, "notification", "left").withColumns(
        {
            "topic": f.col("fact.topic"),
            "published_ns": f.coalesce(f.col("fact.ts_ns"), f.col("published_ns")),
        }
    )


def _last_faults(faults: DataFrame) -> DataFrame:
    return _by_whom(faults).groupBy("client", "connection").agg(f.max("ts_ns").alias("ts_ns"))


def _with_last_fault(parts: DataFrame, faults: DataFrame) -> DataFrame:
    last = _last_faults(faults).select(
        f.col("client").alias("fault_client"),
        f.col("connection").alias("fault_connection"),
        f.col("ts_ns").alias("fault_ns"),
    )
    return parts.join(last, _same_whom("fault"), "left")


def _outcome() -> Column:
    sent, acked = f.col("first_sent_ns").isNotNull(), f.col("acked_ns").isNotNull()
    hidden = f.col("fault_ns") >= f.col("first_sent_ns")
    return (
        f.when(sent & acked, "acked")
        .when(sent & hidden, "unknown")
        .when(sent, "unacked")
        .when(acked, "orphan")
        .when(f.col("notification").isNotNull(), "unsent")
    )


# Who signed on where before: the column `previous_connection` of `connections`.


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

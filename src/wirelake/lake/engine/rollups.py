"""What there was in each minute: the tables that end in `_minutes`.

Each is a plain aggregate of rows of other tables, so that the rows of a minute can be made anew
from the rows of that minute. A minute begins at a multiple of 60 s since 1970.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from .cross_connection import fitted, minute_of

__all__ = ["delivery", "errors", "latency", "minute_of", "talkers", "traffic"]

_MOST_NS: Final = (1 << 63) - 1
_OUTCOMES: Final = {
    "acked": "acked",
    "unacked": "unacked",
    "unknown": "unknown",
    "unsent": "unsent",
    "orphan": "orphans",
}
"""Outcomes of deliveries, and the columns that count them."""


def traffic(messages: DataFrame) -> DataFrame:
    """Rows of `traffic_minutes`."""
    by = (minute_of(f.col("ts_ns")).alias("minute_ns"), "protocol", "direction", "kind")
    found = messages.groupBy(*by).agg(
        _count().alias("messages"), _total("size_bytes").alias("bytes")
    )
    return fitted(found, "traffic_minutes")


def latency(calls: DataFrame) -> DataFrame:
    """Rows of `latency_minutes`; `wirelake.records.latency_buckets` says what the buckets are."""
    by = (minute_of(f.col("response_ns")).alias("minute_ns"), "protocol", "target")
    bucket = _bucket_of(f.col("latency_ns")).alias("bucket")
    found = calls.where(f.col("latency_ns").isNotNull()).groupBy(*by, bucket).agg(
        _count().alias("calls"), _total("latency_ns").alias("latency_ns")
    )  # fmt: skip
    from_ns, below_ns = _bounds(f.col("bucket"))
    return fitted(found.withColumns({"from_ns": from_ns, "below_ns": below_ns}), "latency_minutes")


def delivery(deliveries: DataFrame) -> DataFrame:
    """Rows of `delivery_minutes`."""
    when = f.coalesce(f.col("published_ns"), f.col("first_sent_ns"), f.col("acked_ns"))
    found = deliveries.groupBy(minute_of(when).alias("minute_ns"), "protocol", "topic").agg(
        _count().alias("deliveries"),
        _count(f.col("first_sent_ns").isNotNull()).alias("sent"),
        *(_count(f.col("outcome") == each).alias(name) for each, name in _OUTCOMES.items()),
        _total("sends").alias("sends"),
        _total("latency_ns").alias("latency_ns"),
    )
    return fitted(found, "delivery_minutes")


def errors(calls: DataFrame, faults: DataFrame) -> DataFrame:
    """Rows of `error_minutes`: calls that failed, were lost or are unknown, and faults."""
    failed = f.col("outcome") == "failed"
    of_calls = calls.where(f.col("outcome").isin("failed", "lost", "unknown")).select(
        minute_of(f.when(failed, f.col("response_ns")).otherwise(f.col("request_ns"))).alias(
            "minute_ns"
        ),
        f.col("outcome").alias("what"),
        "protocol",
        "target",
        f.when(failed, f.col("status")).otherwise(f.col("cause")).alias("code"),
    )
    of_faults = faults.select(
        minute_of(f.col("ts_ns")).alias("minute_ns"),
        f.lit("fault").alias("what"),
        "protocol",
        f.lit(None).cast("string").alias("target"),
        "code",
    )
    found = of_calls.unionByName(of_faults)
    by = found.groupBy("minute_ns", "what", "protocol", "target", "code")
    return fitted(by.agg(_count().alias("errors")), "error_minutes")


def talkers(messages: DataFrame, most: int = 20) -> DataFrame:
    """Rows of `talker_minutes`: the connections with the most bytes of each minute."""
    by = (minute_of(f.col("ts_ns")).alias("minute_ns"), "protocol", "connection")
    found = messages.groupBy(*by).agg(
        _count().alias("messages"), _total("size_bytes").alias("bytes")
    )
    order = Window.partitionBy("minute_ns").orderBy(f.desc("bytes"), "connection", "protocol")
    ranked = found.withColumn("place", f.row_number().over(order)).where(f.col("place") <= most)
    rank = f.when(f.col("messages") > 0, f.col("place"))  # a column that may be null, as all may
    return fitted(ranked.withColumn("rank", rank), "talker_minutes")


# -- columns ---------------------------------------------------------------------------------


def _count(condition: Column | None = None) -> Column:
    """How many rows. It is a sum, because Spark writes a count as a column that cannot be null."""
    one, none = f.lit(1).cast("long"), f.lit(0).cast("long")
    return f.sum(one if condition is None else f.when(condition, one).otherwise(none))


def _total(name: str) -> Column:
    """The sum; 0 of nothing, null when it is more than an int64 can hold."""
    return f.try_sum(f.coalesce(f.col(name), f.lit(0).cast("long")))


def _bucket_of(latency_ns: Column) -> Column:
    """As `bucket_of` of `wirelake.records.latency_buckets`."""
    n = f.greatest(latency_ns, f.lit(0).cast("long"))
    doublings = f.length(f.bin(n)) - 1
    eighth = f.call_function("shiftright", n, doublings - 3).bitwiseAND(f.lit(7))
    return f.when(n < 8, n).when(n >= 8, (doublings - 2) * 8 + eighth).cast("int")


def _bounds(bucket: Column) -> tuple[Column, Column]:
    """As `bounds` of `wirelake.records.latency_buckets`."""
    small, large, shift = bucket < 8, bucket >= 8, f.shiftright(bucket, 3) - 1
    eighths = bucket.bitwiseAND(f.lit(7)).cast("long") + 8
    from_ns = f.when(small, bucket).when(large, f.call_function("shiftleft", eighths, shift))
    next_ns = f.call_function("shiftleft", eighths + 1, shift)
    below_ns = f.when(small, bucket + 1).when(next_ns < 0, _MOST_NS).when(large, next_ns)
    return from_ns, below_ns

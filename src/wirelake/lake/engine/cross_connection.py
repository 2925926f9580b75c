"""The third stage of a step: tables that need more than one connection, made by Spark's JVM.

`deliveries` and the column `previous_connection` of `connections` are the merge step of
`wirelake.columnar.fold`. The fold of a connection writes parts (`wirelake.records.deliveries`
has their columns), and everything here is a commutative aggregate of parts by key, so that the rows
do not depend on the order of files or steps. It runs in the JVM because that is where Spark groups
and joins without a Python hop: every hop costs about as much as reading the captures again.

What is repeated here of "Deliveries" and "Connections" in `docs/concepts/matching.md` is the key
of a delivery, its outcome, and the order of sign-ons. The engines of `wirelake.records` see events
one by one and cannot be shared. `tests/lake/test_cross_connection_deliveries.py` and
`test_cross_connection_sign_ons.py` compare the two on random events.

A table that nothing in the step has touched costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from wirelake.records.rollups import MINUTE_NS
from wirelake.records.schema import schema
from wirelake.tables.snapshot import AddedFile

from ..spark.dataframes import fitted, read, write_table
from .rollups import roll_up
from .settings import Settings
from .step import Step, overlaps

__all__ = [
    "DAY_NS",
    "Change",
    "delivery_rows",
    "expected_parts",
    "is_settled",
    "kept_faults",
    "kept_publications",
    "kept_sign_ons",
    "merge",
    "merge_parts",
    "with_previous",
]

DAY_NS: Final = 24 * 60 * MINUTE_NS
_QUIET_NS: Final = 10 * MINUTE_NS
"""An acknowledged notification is settled after this long without an event."""
_KEY: Final = ("protocol", "client", "connection", "notification")
_CLIENT: Final = ("protocol", "client")
_SIGN_ON: Final = ("connection", "client", "signed_on_ns")

_PARTS, _FAULTS, _PUBLICATIONS = "_delivery_parts", "_delivery_faults", "_publications"
_SIGN_ONS, _CONNECTIONS = "_sign_ons", "_connections"
_MANY_FILES: Final = 16
"""A table that only grows is rewritten as one file when it has this many."""
_PARALLEL_JOBS: Final = 4
"""Spark jobs in parallel: most of their time goes into being planned and started."""


# -- the stage -------------------------------------------------------------------------------


class Change(msgspec.Struct):
    """Files that a table gains and loses."""

    add: list[AddedFile] = []
    remove: list[AddedFile] = []

    def join(self, other: Change) -> Change:
        """Return both changes as one."""
        return Change(self.add + other.add, self.remove + other.remove)


_Make = Callable[[SparkSession, Step, int], Change]


def merge(spark: SparkSession, step: Step, settings: Settings, now_ns: int) -> None:
    """Add the remaining tables and the roll-ups to a step.

    `now_ns` is a time of the captures; nothing older is expected to arrive.
    """
    tables: list[_Make] = []
    if "deliveries" in settings.tables:
        tables.append(_deliveries)
    if "connections" in settings.tables:
        tables.append(_connections)
    minutes = [name for name in settings.tables if name.endswith("_minutes")]
    after_deliveries = [name for name in minutes if name == "delivery_minutes"]
    at_once = [name for name in minutes if name not in after_deliveries]
    with ThreadPoolExecutor(_PARALLEL_JOBS) as pool:
        futures = [pool.submit(make, spark, step, now_ns) for make in tables]
        rollups = [pool.submit(roll_up, spark, step, at_once)]
        # The roll-ups under way read none of the tables that change here.
        _apply(step, [future.result() for future in futures])
        rollups.append(pool.submit(roll_up, spark, step, after_deliveries))
        _apply(step, [Change(*future.result()) for future in rollups])


def _apply(step: Step, changes: Iterable[Change]) -> None:
    for change in changes:
        step.remove(change.remove)
        step.add(change.add)


def _deliveries(spark: SparkSession, step: Step, now_ns: int) -> Change:
    if not any(step.touched(table) for table in (_PARTS, _FAULTS, _PUBLICATIONS)):
        return Change()
    publications = read(spark, step.files(_PUBLICATIONS), _PUBLICATIONS)
    faults = read(spark, step.files(_FAULTS), _FAULTS)
    before = step.files(_PARTS, provisional=False)
    parts = read(spark, before, _PARTS)
    if step.new(_PUBLICATIONS):
        new = read(spark, step.new(_PUBLICATIONS), _PUBLICATIONS)
        parts = parts.unionByName(expected_parts(new))
    merged = merge_parts(parts)
    merged = merged.withColumn("settled", is_settled(merged, now_ns))
    written = write_table(merged, step.work("parts"), _PARTS, by="settled")
    held, settled = written.get("false", []), written.get("true", [])
    change = Change(list(held), before)
    # Settled and open parts go through one plan with a column that tells them apart: planning and
    # starting a second job would cost more than the rows.
    open_files = [*held, *step.files(_PARTS, provisional=True)]
    parts = _marked(spark, settled, _PARTS, is_open=False).unionByName(
        _marked(spark, open_files, _PARTS, is_open=True)
    )
    deliveries = delivery_rows(parts, publications, faults, expect=False, by=("open",))
    rows = write_table(deliveries, step.work("deliveries"), "deliveries", by="open")
    change.add += [*rows.get("false", []), *map(_provisional, rows.get("true", []))]
    change.remove += step.kept("deliveries", provisional=True)
    kept = read(spark, held, _PARTS)
    final = read(spark, step.files(_PUBLICATIONS, provisional=False), _PUBLICATIONS)
    change = change.join(
        _compacted(step, _PUBLICATIONS, lambda: kept_publications(final, kept, now_ns))
    )
    final_faults = read(spark, step.files(_FAULTS, provisional=False), _FAULTS)
    return change.join(_compacted(step, _FAULTS, lambda: kept_faults(final_faults, kept, now_ns)))


def _connections(spark: SparkSession, step: Step, now_ns: int) -> Change:
    if not any(step.touched(table) for table in (_CONNECTIONS, _SIGN_ONS)):
        return Change()
    sign_ons = read(spark, step.files(_SIGN_ONS), _SIGN_ONS)
    final = step.new(_CONNECTIONS, provisional=False)
    corrected = _corrected(spark, step, sign_ons)
    rows = _marked(spark, [*final, *corrected], "connections", is_open=False).unionByName(
        _marked(spark, step.files(_CONNECTIONS, provisional=True), "connections", is_open=True)
    )
    written = write_table(
        with_previous(rows, sign_ons), step.work("connections"), "connections", by="open"
    )
    change = Change(
        [*written.get("false", []), *map(_provisional, written.get("true", []))],
        [*final, *corrected, *step.kept("connections", provisional=True)],
    )
    finals = read(spark, step.files(_SIGN_ONS, provisional=False), _SIGN_ONS)
    return change.join(_compacted(step, _SIGN_ONS, lambda: kept_sign_ons(finals, now_ns)))


def _corrected(spark: SparkSession, step: Step, sign_ons: DataFrame) -> list[AddedFile]:
    """Return files whose connections get another previous connection by a late sign-on."""
    known = [file for file in step.kept(_SIGN_ONS, provisional=False) if file.max_ns is not None]
    new = [file for file in step.new(_SIGN_ONS) if file.min_ns is not None]
    finished = step.kept("connections", provisional=False)
    if not known or not new or not finished:
        return []
    first_new = min(file.min_ns or 0 for file in new)
    if first_new > max(file.max_ns or 0 for file in known):
        return []
    before = _previous(read(spark, known, _SIGN_ONS))
    now = _previous(sign_ons).where(f.col("ts_ns") >= first_new)
    changed = now.join(
        before, ["protocol", "client", "connection", "ts_ns"], "left_semi"
    ).exceptAll(before)
    times = [row["ts_ns"] for row in changed.select("ts_ns").collect()]
    return [file for file in finished if any(overlaps(file, ts_ns, ts_ns) for ts_ns in times)]


def _marked(
    spark: SparkSession, files: Iterable[AddedFile], table: str, *, is_open: bool
) -> DataFrame:
    """Read files, with a column that says whether their rows may still change."""
    return read(spark, files, table).withColumn("open", f.lit(is_open))


def _compacted(step: Step, table: str, kept: Callable[[], DataFrame]) -> Change:
    """Rewrite many files as one, with the rows that are still needed."""
    files = step.files(table, provisional=False)
    if len(files) < _MANY_FILES:
        return Change()
    written = write_table(kept(), step.work(table), table)
    return Change(written.get("", []), files)


def _provisional(file: AddedFile) -> AddedFile:
    return msgspec.structs.replace(file, provisional=True)


# -- deliveries ------------------------------------------------------------------------------


def merge_parts(parts: DataFrame) -> DataFrame:
    """Merge parts into one for each protocol, client and notification.

    The connection stands for an unknown client; otherwise `connection` is null. At one time, the
    smaller id of a connection counts as first and the larger one as last.
    """
    return fitted(_merged(parts), _PARTS)


def _merged(parts: DataFrame, by: tuple[str, ...] = ()) -> DataFrame:
    """Merge parts that have the same key, and the same values in the columns `by`."""
    found = _by_client(parts).groupBy(*_KEY, *by).agg(
        f.sum("sends").alias("sends"),
        f.min(_pair("first_sent_ns", "first_connection")).alias("first"),
        f.max(_pair("last_sent_ns", "last_connection")).alias("last"),
        f.sum("acks").alias("acks"),
        f.min(_pair("acked_ns", "acked_connection")).alias("acked"),
        f.min("published_ns").alias("published_ns"),
        f.max("last_event_ns").alias("last_event_ns"),
    )  # fmt: skip
    columns = {
        "first_sent_ns": f.col("first.ts_ns"),
        "first_connection": f.col("first.connection"),
        "last_sent_ns": f.col("last.ts_ns"),
        "last_connection": f.col("last.connection"),
        "acked_ns": f.col("acked.ts_ns"),
        "acked_connection": f.col("acked.connection"),
    }
    return found.withColumns(columns)


def _pair(ts_ns: str, connection: str) -> Column:
    """Return a time with its connection, whose minimum is the first; null without a time."""
    both = f.struct(f.col(ts_ns).alias("ts_ns"), f.col(connection).alias("connection"))
    return f.when(f.col(ts_ns).isNotNull(), both)


def expected_parts(publications: DataFrame) -> DataFrame:
    """Return parts for publications to a client: they make a row even if nothing is ever sent."""
    zero = f.lit(0).cast("long")
    found = publications.where(f.col("client").isNotNull()).select(
        "protocol",
        "client",
        "notification",
        zero.alias("sends"),
        zero.alias("acks"),
        f.col("ts_ns").alias("last_event_ns"),
    )
    return fitted(found, _PARTS)


def delivery_rows(
    parts: DataFrame,
    publications: DataFrame,
    faults: DataFrame,
    *,
    expect: bool = True,
    by: tuple[str, ...] = (),
) -> DataFrame:
    """Return rows of `deliveries`.

    Without `expect` only the parts make rows, and publications add topic and time. Parts that
    differ in the columns `by` make rows of their own; these columns are kept.
    """
    every = parts.unionByName(expected_parts(publications)) if expect else parts
    found = _with_last_fault(_with_publication(_merged(every, by), publications), faults)
    latency_ns = f.try_subtract(f.col("acked_ns"), f.col("first_sent_ns"))
    rows = found.withColumns({"outcome": _outcome(), "latency_ns": latency_ns})
    if by:
        return rows.select(*schema("deliveries").names, *by)
    return fitted(rows, "deliveries")


def is_settled(parts: DataFrame, now_ns: int) -> Column:
    """Return whether rows of merged parts are final at a time of the captures.

    They are when they were acknowledged and had no event for 10 minutes, or had none for 24 hours.
    Without this bound the state of a lake would grow with every notification that is never acked.
    """
    last_ns = parts["last_event_ns"]
    quiet = parts["acked_ns"].isNotNull() & (last_ns <= now_ns - _QUIET_NS)
    return quiet | (last_ns <= now_ns - DAY_NS)


def kept_publications(publications: DataFrame, held: DataFrame, now_ns: int) -> DataFrame:
    """Return publications of the last 24 hours, and those that held parts still need."""
    needed = held.select("notification", f.lit(True).alias("needed")).distinct()
    found = publications.join(needed, "notification", "left")
    return found.where(_is_recent(now_ns) | f.col("needed")).select(*publications.columns)


def kept_faults(faults: DataFrame, held: DataFrame, now_ns: int) -> DataFrame:
    """Return the last fault of each client, by the same rule."""
    needed = _by_client(held).select(
        f.col("client").alias("held_client"),
        f.col("connection").alias("held_connection"),
        f.lit(True).alias("needed"),
    )
    found = _last_faults(faults).join(needed.distinct(), _same_client("held"), "left")
    return found.where(_is_recent(now_ns) | f.col("needed")).select("client", "connection", "ts_ns")


def _by_client(rows: DataFrame) -> DataFrame:
    """Keep the connection only where it stands for an unknown client."""
    return rows.withColumn("connection", f.when(f.col("client").isNull(), f.col("connection")))


def _same_client(prefix: str) -> Column:
    """Return whether client and connection equal those of the other side."""
    client = f.col("client").eqNullSafe(f.col(f"{prefix}_client"))
    return client & f.col("connection").eqNullSafe(f.col(f"{prefix}_connection"))


def _is_recent(now_ns: int) -> Column:
    return f.col("ts_ns") > now_ns - DAY_NS


def _with_publication(parts: DataFrame, publications: DataFrame) -> DataFrame:
    """Add topic and time of the earliest publication; without one, the notification's own time."""
    # min of a struct orders by its fields: by time, then known topics before null, then by name.
    fact = f.struct(f.col("ts_ns"), f.col("topic").isNull(), f.col("topic"))
    earliest = publications.groupBy("notification").agg(f.min(fact).alias("fact"))
    return parts.join(earliest, "notification", "left").withColumns(
        {
            "topic": f.col("fact.topic"),
            "published_ns": f.coalesce(f.col("fact.ts_ns"), f.col("published_ns")),
        }
    )


def _last_faults(faults: DataFrame) -> DataFrame:
    return _by_client(faults).groupBy("client", "connection").agg(f.max("ts_ns").alias("ts_ns"))


def _with_last_fault(parts: DataFrame, faults: DataFrame) -> DataFrame:
    last = _last_faults(faults).select(
        f.col("client").alias("fault_client"),
        f.col("connection").alias("fault_connection"),
        f.col("ts_ns").alias("fault_ns"),
    )
    return parts.join(last, _same_client("fault"), "left")


def _outcome() -> Column:
    sent, acked = f.col("first_sent_ns").isNotNull(), f.col("acked_ns").isNotNull()
    hidden = f.col("fault_ns") >= f.col("first_sent_ns")
    return (
        f.when(sent & acked, "acked")
        .when(sent & hidden, "unknown")
        .when(sent, "unacked")
        .when(acked, "orphan")
        # Always true; a literal would make the column non-nullable, and the file's schema another.
        .when(f.col("notification").isNotNull(), "unsent")
    )


# -- previous connections --------------------------------------------------------------------


def _previous(sign_ons: DataFrame) -> DataFrame:
    """Return each sign-on with the connection of the same client's sign-on before it."""
    order = Window.partitionBy(*_CLIENT).orderBy("ts_ns", "connection")
    found = sign_ons.select(*_CLIENT, "connection", "ts_ns").distinct()
    return found.withColumn("previous_connection", f.lag("connection").over(order))


def with_previous(connections: DataFrame, sign_ons: DataFrame) -> DataFrame:
    """Set `previous_connection`; other columns of the rows are kept."""
    before = _previous(sign_ons).withColumnRenamed("ts_ns", "signed_on_ns")
    found = before.groupBy(*_SIGN_ON).agg(f.max("previous_connection").alias("before"))
    joined = connections.join(found, list(_SIGN_ON), "left")
    columns = connections.columns
    return joined.withColumn("previous_connection", f.col("before")).select(*columns)


def kept_sign_ons(sign_ons: DataFrame, now_ns: int) -> DataFrame:
    """Return sign-ons of the last 24 hours, and the last one before of each client.

    With them every sign-on that still arrives for these 24 hours finds its predecessor.
    """
    recent = f.col("ts_ns") > now_ns - DAY_NS
    order = Window.partitionBy(*_CLIENT, "recent").orderBy(f.desc("ts_ns"), f.desc("connection"))
    found = sign_ons.withColumn("recent", recent).withColumn("rank", f.row_number().over(order))
    return found.where(f.col("recent") | (f.col("rank") == 1)).drop("recent", "rank")

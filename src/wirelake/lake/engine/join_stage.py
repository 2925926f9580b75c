"""The third stage of a step: tables across connections and roll-ups, by Spark's JVM.

Each function here makes one table, or a few that belong together, from the files of a step, and
says which files come and which go. They know nothing of each other, so they run side by side; a
table that nothing in the step has touched costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from wirelake.tables.entries import AddedFile

from ..spark.dataframes import read, write_table
from . import cross_connection as delivering
from . import cross_connection as signing_on
from .rollup_stage import rolled
from .settings import Settings
from .step import Step, overlaps

__all__ = ["Change", "join"]

_PARTS, _FAULTS, _PUBLICATIONS = "_delivery_parts", "_delivery_faults", "_publications"
_SIGN_ONS, _CONNECTIONS = "_sign_ons", "_connections"
_MANY_FILES: Final = 16
"""So many files of a table that only grows are made one."""
_AT_ONCE: Final = 4
"""Jobs of Spark that are started side by side: most of their time is spent on being started."""


class Change(msgspec.Struct):
    """What comes, and what goes."""

    add: list[AddedFile] = []
    remove: list[AddedFile] = []

    def join(self, other: Change) -> Change:
        """Both."""
        return Change(self.add + other.add, self.remove + other.remove)


Making = Callable[[SparkSession, Step, int], Change]


def join(spark: SparkSession, step: Step, settings: Settings, now_ns: int) -> None:
    """Makes all tables that are left, and puts them into the step.

    `now_ns` is a time of the captures: nothing that is older is expected to come.
    """
    wanted = set(settings.tables)
    first: list[Making] = []
    if "deliveries" in wanted:
        first.append(_deliveries)
    if "connections" in wanted:
        first.append(_connections)
    minutes = [name for name in settings.tables if name.endswith("_minutes")]
    late = [name for name in minutes if name == "delivery_minutes"]
    soon = [name for name in minutes if name not in late]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(make, spark, step, now_ns) for make in first]
        rolls = [pool.submit(rolled, spark, step, soon)]
        _apply(step, [future.result() for future in futures])  # no table that is counted meanwhile
        rolls.append(pool.submit(rolled, spark, step, late))
        _apply(step, [Change(*future.result()) for future in rolls])


def _apply(step: Step, changes: Iterable[Change]) -> None:
    for change in changes:
        step.remove(change.remove)
        step.add(change.add)


# -- deliveries ------------------------------------------------------------------------------


def _deliveries(spark: SparkSession, step: Step, now_ns: int) -> Change:
    if not any(step.touched(table) for table in (_PARTS, _FAULTS, _PUBLICATIONS)):
        return Change()
    publications = read(spark, step.files(_PUBLICATIONS), _PUBLICATIONS)
    facts = read(spark, step.files(_PUBLICATIONS, provisional=False), _PUBLICATIONS)
    faults = read(spark, step.files(_FAULTS), _FAULTS)
    before = step.files(_PARTS, provisional=False)
    parts = read(spark, before, _PARTS)
    if step.new(_PUBLICATIONS):
        fresh = read(spark, step.new(_PUBLICATIONS), _PUBLICATIONS)
        parts = parts.unionByName(delivering.expected(fresh))
    merged = delivering.merged(parts)
    merged = merged.withColumn("settled", delivering.settled(merged, now_ns))
    found = write_table(merged, step.work("parts"), _PARTS, by="settled")
    held, done = found.get("false", []), found.get("true", [])
    change = Change(list(held), before)
    open_parts = [*held, *step.files(_PARTS, provisional=True)]
    parts = _open(spark, done, _PARTS, False).unionByName(_open(spark, open_parts, _PARTS, True))
    told = delivering.told_apart(parts, publications, faults, "open")
    rows = write_table(told, step.work("deliveries"), "deliveries", by="open")
    change.add += [*rows.get("false", []), *map(_provisional, rows.get("true", []))]
    change.remove += step.kept("deliveries", provisional=True)
    kept_parts = read(spark, held, _PARTS)
    change = change.join(
        _fewer(
            step,
            _PUBLICATIONS,
            lambda: delivering.kept_publications(facts, kept_parts, now_ns),
        )
    )
    finals = read(spark, step.files(_FAULTS, provisional=False), _FAULTS)
    return change.join(
        _fewer(step, _FAULTS, lambda: delivering.kept_faults(finals, kept_parts, now_ns))
    )


# -- connections -----------------------------------------------------------------------------


def _connections(spark: SparkSession, step: Step, now_ns: int) -> Change:
    if not any(step.touched(table) for table in (_CONNECTIONS, _SIGN_ONS)):
        return Change()
    sign_ons = read(spark, step.files(_SIGN_ONS), _SIGN_ONS)
    final = step.new(_CONNECTIONS, provisional=False)
    corrected = _corrected(spark, step, sign_ons)
    rows = _open(spark, [*final, *corrected], "connections", False).unionByName(
        _open(spark, step.files(_CONNECTIONS, provisional=True), "connections", True)
    )
    found = write_table(
        signing_on.with_previous(rows, sign_ons),
        step.work("connections"),
        "connections",
        by="open",
    )
    change = Change(
        [*found.get("false", []), *map(_provisional, found.get("true", []))],
        [*final, *corrected, *step.kept("connections", provisional=True)],
    )
    finals = read(spark, step.files(_SIGN_ONS, provisional=False), _SIGN_ONS)
    return change.join(_fewer(step, _SIGN_ONS, lambda: signing_on.kept(finals, now_ns)))


def _corrected(spark: SparkSession, step: Step, sign_ons: DataFrame) -> list[AddedFile]:
    """Files with connections whose client turns out to have signed on elsewhere in between."""
    known = [file for file in step.kept(_SIGN_ONS, provisional=False) if file.max_ns is not None]
    fresh = [file for file in step.new(_SIGN_ONS) if file.min_ns is not None]
    finished = step.kept("connections", provisional=False)
    if not known or not fresh or not finished:
        return []
    first_new = min(file.min_ns or 0 for file in fresh)
    if first_new > max(file.max_ns or 0 for file in known):
        return []
    before = signing_on.previous(read(spark, known, _SIGN_ONS))
    now = signing_on.previous(sign_ons).where(f.col("ts_ns") >= first_new)
    changed = now.join(
        before, ["protocol", "client", "connection", "ts_ns"], "left_semi"
    ).exceptAll(before)
    times = [row["ts_ns"] for row in changed.select("ts_ns").collect()]
    return [file for file in finished if any(overlaps(file, ts_ns, ts_ns) for ts_ns in times)]


# -- files -----------------------------------------------------------------------------------


def _open(spark: SparkSession, files: Iterable[AddedFile], table: str, is_open: bool) -> DataFrame:
    """Rows of files, which say of themselves whether they may still change."""
    return read(spark, files, table).withColumn("open", f.lit(is_open))


def _fewer(step: Step, table: str, kept: Callable[[], DataFrame]) -> Change:
    """Makes one file of many, with what is still needed."""
    files = step.files(table, provisional=False)
    if len(files) < _MANY_FILES:
        return Change()
    found = write_table(kept(), step.work(table), table)
    return Change(found.get("", []), files)


def _provisional(written: AddedFile) -> AddedFile:
    return msgspec.structs.replace(written, provisional=True)

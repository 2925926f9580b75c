"""Derived tables by the engines of `wirelake.records`: what folds must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from tests.columnar.reorder_buffer import ReorderBuffer
from tests.records.row_batches import batch_from_rows, fault_rows

from wirelake.columnar.pipeline.pipeline import Item
from wirelake.columnar.read.reader import ReadOptions, open_pipeline, sources
from wirelake.records import ENGINES
from wirelake.records.engine import feed_event
from wirelake.records.rows import Event, Fact, in_order, rows_from_batch
from wirelake.records.schema import schema

__all__ = ["engine_events", "engine_tables", "read_by_engines", "window_events"]


def engine_tables(tables: Iterable[str], windows: Iterable[Iterable[Item]]) -> dict[str, pa.Table]:
    """Return derived tables of the windows of a pipeline, all from one pass over the events."""
    engines = {table: ENGINES[table]() for table in tables}
    for event in engine_events(windows):
        for engine in engines.values():
            feed_event(engine, event)
    found = {}
    for table, engine in engines.items():
        engine.finish()
        batch = batch_from_rows(table, engine.take())
        found[table] = pa.Table.from_batches([batch], schema=schema(table))
    return found


def read_by_engines(
    tables: Sequence[str], paths: Sequence[str], options: ReadOptions
) -> dict[str, pa.Table]:
    """Return what `read_batches` reads from captures, by engines; derived tables, unfiltered."""
    if not tables:
        return {}
    first, *others = tables
    pipeline = open_pipeline(
        paths,
        replace(options, table=first),
        also=[part for each in others for part in sources(each)],
    )
    return engine_tables(tables, pipeline.windows())


def engine_events(windows: Iterable[Iterable[Item]]) -> Iterator[Event]:
    """Yield all events, those of a connection in the order of time."""
    held = ReorderBuffer()
    for window in windows:
        yield from held.passed(window_events(window, held))
    yield from in_order(held.all())


def window_events(window: Iterable[Item], held: ReorderBuffer) -> Iterator[Event]:
    """Yield the events of a window, and note which connections wait."""
    held.waiting = {}
    found: Any
    for table, found in window:
        match table:
            case "waiting":
                held.waiting.update(found)
            case "messages":
                yield from rows_from_batch(found)
            case "faults":
                yield from fault_rows(found)
            case "facts":
                for fact in found:
                    yield Fact(fact.ts_ns, fact.kind, fact.connection, fact.data)
            case _:
                yield from found

"""Derived tables by the engines of `wirelake.records`: what folds must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from tests.columnar.reorder_buffer import ReorderBuffer

from wirelake.columnar.pipeline.pipeline import Item
from wirelake.columnar.read.reader import ReadOptions, open_pipeline
from wirelake.records import ENGINES
from wirelake.records.engine import feed_event
from wirelake.records.rows import (
    Event,
    Fact,
    batch_from_rows,
    fault_rows,
    in_order,
    rows_from_batch,
)
from wirelake.records.schema import schema

__all__ = ["engine_events", "engine_table", "read_by_engine", "window_events"]


def engine_table(table: str, windows: Iterable[Iterable[Item]]) -> pa.Table:
    """Return a derived table of the windows of a pipeline."""
    engine = ENGINES[table]()
    for event in engine_events(windows):
        feed_event(engine, event)
    engine.finish()
    return pa.Table.from_batches([batch_from_rows(table, engine.take())], schema=schema(table))


def read_by_engine(paths: Sequence[str], options: ReadOptions) -> pa.Table:
    """Return what `read_batches` reads from captures, by an engine; a derived table, unfiltered."""
    return engine_table(options.table, open_pipeline(paths, options).windows())


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

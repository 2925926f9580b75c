"""Folds and engines side by side: the same windows told to both, and their tables compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.columnar.oracle import engine_tables

from wirelake.columnar.fold import Fold, FoldState, TunnelFold
from wirelake.columnar.fold.deliveries import delivery_rows, expected_parts, merge_parts
from wirelake.columnar.fold.event_builder import id_hash
from wirelake.columnar.fold.sign_ons import with_previous
from wirelake.columnar.pipeline.pipeline import CapturePipeline, Item
from wirelake.columnar.pipeline.state import PipelineState
from wirelake.columnar.read.reader import ReadOptions, finished
from wirelake.records.deliveries import CROSSING
from wirelake.records.schema import schema

TABLES = ("calls", "connections", "deliveries", "tunnels")
_TABLES = ("messages", "faults", "connections", "facts")
_Rows = dict[str, list[dict[str, Any]]]
Window = list[Item]
Rows = dict[str, Counter[str]]


def windows_of(paths: Sequence[str], **options: Any) -> list[Window]:
    """The windows of a capture, with all that engines are told."""
    pipeline = CapturePipeline(paths, tables=_TABLES, **options)
    return [list(window) for window in pipeline.windows()]


def engine_rows(windows: Sequence[Window]) -> Rows:
    """What the engines make of all windows, one after the other."""
    return {table: _counted(rows) for table, rows in engine_tables(TABLES, windows).items()}


def read_rows(windows: Sequence[Window]) -> Rows:
    """What a reader of whole captures makes of them, window by window."""
    found = {}
    for table in TABLES:
        batches = finished(ReadOptions(table=table), windows)
        found[table] = _counted(pa.Table.from_batches(batches, schema=schema(table)))
    return found


def fold_rows(windows: Sequence[Window], steps: Sequence[tuple[int, int]]) -> list[Rows]:
    """What folds make of them after each step.

    A step is the number of windows up to its end, and its number of shares. The states of all
    shares are saved after a step, and taken over by all shares of the next.
    """
    taken = Steps()
    found = []
    for start, (stop, shares) in zip([0, *(stop for stop, _ in steps)], steps, strict=False):
        found.append(taken.windows(windows[start:stop], shares))
    return found


def differences(wanted: Rows, given: Rows) -> list[str]:
    """Rows that only one of the two has; a few examples of each table."""
    found: list[str] = []
    for table in TABLES:
        missing, surplus = wanted[table] - given[table], given[table] - wanted[table]
        found += [f"{table}, engine only: {row}" for row in list(missing.elements())[:3]]
        found += [f"{table}, fold only:   {row}" for row in list(surplus.elements())[:3]]
    return found


class Steps:
    """Final rows of all steps so far, and the states after the last."""

    def __init__(self) -> None:
        self._pipelines: list[PipelineState] = []
        self._final = _Rows()
        self._states: list[FoldState] = []
        self._tunnels: list[bytes | None] = [None, None]
        """Of the two shares of tunnels."""

    def files(self, paths: Sequence[str], shares: int, **options: Any) -> Rows:
        """Takes a step with further files, each share with a pipeline of its own."""
        folds, provisional, saved = self._folds(shares), _Rows(), []
        self._states = []
        for share, fold in enumerate(folds):
            pipeline = CapturePipeline(
                paths,
                tables=_TABLES,
                share=share,
                shares=shares,
                state=self._pipelines,
                all_facts=True,
                **options,
            )
            for window in pipeline.windows(last=False):
                _gather(self._final, fold.window(window))
            saved.append(pipeline.save())
            self._states.append(fold.save(saved[-1].hashes()))
            for window in pipeline.end():
                _gather(provisional, fold.window(window))
            _gather(provisional, fold.finish())
        self._pipelines = saved
        self._tunnel_step(provisional)
        return merged_rows(self._final, provisional)

    def windows(self, windows: Sequence[Window], shares: int) -> Rows:
        """Takes a step with further windows, and gives all rows as if the input ended there."""
        folds = self._folds(shares)
        for window in windows:
            for share, fold in enumerate(folds):
                _gather(self._final, fold.window(list(_of_share(window, share, shares))))
        self._states = [fold.save({}) for fold in folds]
        saved = [state.to_bytes() for state in self._states]
        provisional = _Rows()
        for fold in folds:
            _gather(provisional, fold.finish())
        assert saved == [state.to_bytes() for state in self._states]
        self._tunnel_step(provisional)
        return merged_rows(self._final, provisional)

    def _folds(self, shares: int) -> list[Fold]:
        before = [FoldState.from_bytes(state.to_bytes()) for state in self._states]
        return [Fold(share=share, shares=shares, state=before) for share in range(shares)]

    def _tunnel_step(self, provisional: _Rows) -> None:
        events = [_events(rows.pop("_tunnel_events", [])) for rows in (self._final, provisional)]
        for share, before in enumerate(self._tunnels):
            fold = TunnelFold(share, len(self._tunnels), before)
            fold.feed(events[0])
            _gather(self._final, fold.take())
            self._tunnels[share] = fold.save()
            fold.feed(events[1])
            _gather(provisional, fold.finish())


def _events(rows: list[dict[str, Any]]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist(rows, schema=CROSSING["_tunnel_events"])]


def _gather(rows: _Rows, batches: Iterable[tuple[str, pa.RecordBatch]]) -> None:
    for table, batch in batches:
        wanted = CROSSING[table] if table in CROSSING else schema(table)
        assert batch.schema.equals(wanted, check_metadata=True)
        batch.validate(full=True)
        rows.setdefault(table, []).extend(batch.to_pylist())


# -- shares of a window ------------------------------------------------------------------------


def _of_share(window: Window, share: int, shares: int) -> Iterator[Item]:
    """What the pipeline of a share would yield; facts are told to all."""

    def mine(connection: int) -> bool:
        return id_hash(connection) % shares == share

    for table, found in window:
        match table:
            case "facts":
                yield table, found
            case "waiting":
                yield table, {each: since for each, since in found.items() if mine(each)}
            case "connections":
                yield table, [event for event in found if mine(event.connection)]
            case _:
                assert isinstance(found, pa.RecordBatch)
                column = found.column("connection")
                if table == "messages":
                    column = pc.coalesce(found.column("tunnel_link"), column)
                keep = [each is not None and mine(each) for each in column.to_pylist()]
                yield table, found.filter(pa.array(keep, pa.bool_()))


# -- tables across connections -------------------------------------------------------------------


def merged_rows(final: _Rows, provisional: _Rows) -> Rows:
    """Return the tables that folds make together: merged across connections."""
    both = {
        table: pa.Table.from_pylist(
            final.get(table, []) + provisional.get(table, []),
            schema=CROSSING[table] if table in CROSSING else schema(table),
        )
        for table in (*CROSSING, *TABLES)
    }
    publications = both["_publications"]
    parts = pa.concat_tables([both["_delivery_parts"], expected_parts(publications)])
    merged = merge_parts(parts)
    both["deliveries"] = delivery_rows(merged, publications, both["_delivery_faults"])
    both["connections"] = with_previous(both["connections"], both["_sign_ons"])
    return {table: _counted(both[table]) for table in TABLES}


def _counted(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))

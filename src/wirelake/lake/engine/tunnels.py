"""The second stage of a step: events of tunnels in the order of time, and their fold.

    files = EventFiles(paths, share=0, shares=4)
    for events in files.until(ts_ns):
        ...

A tunnel may move between links of different sources, so the events of all sources are merged before
they are folded, by time, rank, link, file and number. Events of one link are in one file of each
step, and files are ordered by step. So the order does not depend on the steps in which events
arrived. Only `_BATCH_EVENTS` events are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.columnar.fold import TunnelFold, events_of_share
from wirelake.columnar.state_format import StateError
from wirelake.records.deliveries import CROSSING
from wirelake.tables.snapshot import AddedFile

from .decoding import unusable
from .step import Outputs

__all__ = [
    "EVENTS",
    "IN_TUNNELS",
    "PARTS",
    "SHARES",
    "STATE",
    "EventFiles",
    "TunnelTask",
    "Tunnelled",
    "shares_of_tasks",
    "tunnel",
]


_BATCH_EVENTS: Final = 1_000_000
"""Approximate number of events in memory."""
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
_BITS: Final = 40
"""Bits for the number of an event in its file."""
_ORDER: Final = [(name, "ascending") for name in ("ts_ns", "rank", "link", "number")]
_SCHEMA: Final = CROSSING["_tunnel_events"]


class _Group(NamedTuple):
    """A row group of a file."""

    file: int
    number: int
    first_ns: int
    last_ns: int
    rows: int


class EventFiles:
    """Files of `_tunnel_events`, restricted to a share of the tunnels."""

    def __init__(self, paths: Sequence[str], share: int, shares: int):
        self._paths = paths
        self._share, self._shares = share, shares
        self._groups = [
            group for number, path in enumerate(paths) for group in _groups(number, path)
        ]

    def all(self) -> Iterator[pa.Table]:
        """Yield all events in order."""
        return self.until(_LAST)

    def until(self, ts_ns: int) -> Iterator[pa.Table]:
        """Yield events up to a time, in order."""
        return self._between(_FIRST, ts_ns, frozenset())

    def after(self, ts_ns: int, late: Collection[str] = ()) -> Iterator[pa.Table]:
        """Yield events after a time, in order; of the files `late`, earlier ones as well."""
        whole = frozenset(at for at, path in enumerate(self._paths) if path in late)
        if whole:
            yield from self._between(_FIRST, ts_ns, frozenset(range(len(self._paths))) - whole)
        if ts_ns < _LAST:
            yield from self._between(ts_ns + 1, _LAST, frozenset())

    def _between(self, first_ns: int, last_ns: int, without: frozenset[int]) -> Iterator[pa.Table]:
        groups = [
            each
            for each in self._groups
            if each.first_ns <= last_ns and each.last_ns >= first_ns and each.file not in without
        ]
        # Row groups overlap in time, so a batch is a range of times: what is sorted together is
        # complete.
        starts = [first_ns, *_cuts(groups, first_ns)]
        for start, stop in zip(starts, [*(each - 1 for each in starts[1:]), last_ns], strict=True):
            mine = [each for each in groups if each.first_ns <= stop and each.last_ns >= start]
            found = [self._read(each, start, stop) for each in mine]
            events = pa.Table.from_batches([each for each in found if each.num_rows], _SCHEMA)
            if len(events):
                yield events.sort_by(_ORDER)

    def _read(self, group: _Group, first_ns: int, last_ns: int) -> pa.RecordBatch:
        with pq.ParquetFile(self._paths[group.file]) as file:
            table = _with_all_columns(file.read_row_group(group.number)).combine_chunks()
        [batch] = table.to_batches()
        if group.first_ns < first_ns or group.last_ns > last_ns:
            times = batch.column("ts_ns")
            inside = pc.and_(pc.greater_equal(times, first_ns), pc.less_equal(times, last_ns))
            batch = batch.filter(inside)
        batch = events_of_share(batch, self._share, self._shares)
        at = batch.schema.get_field_index("number")
        # The number of the file in the upper bits: events of equal time keep the order of files,
        # then their order in the file.
        numbers = batch.column(at).to_numpy() + (group.file << _BITS)
        return batch.set_column(at, batch.schema.field(at), pa.array(numbers, pa.int64()))


def _with_all_columns(events: pa.Table) -> pa.Table:
    """Return events of any version; columns that an earlier one did not have are null."""
    arrays = [
        events.column(each.name).cast(each.type)
        if each.name in events.schema.names
        else pa.nulls(len(events), each.type)
        for each in _SCHEMA
    ]
    return pa.table(arrays, schema=_SCHEMA)


def _groups(file: int, path: str) -> Iterator[_Group]:
    metadata = pq.read_metadata(path)
    at = metadata.schema.names.index("ts_ns")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            known = group.column(at).statistics
            yield _Group(file, number, known.min, known.max, group.num_rows)


def _cuts(groups: Sequence[_Group], first_ns: int) -> list[int]:
    """Return times that divide the events into batches."""
    found: list[int] = []
    rows = 0
    for each in sorted(groups, key=lambda group: group.first_ns):
        last = found[-1] if found else first_ns
        if rows + each.rows > _BATCH_EVENTS and each.first_ns > last:
            found.append(each.first_ns)
            rows = 0
        rows += each.rows
    return found


# -- the task --------------------------------------------------------------------------------


EVENTS: Final = "_tunnel_events"
"""The table of events. Files without a source wait for a later step, the others are provisional."""
STATE: Final = "_tunnel_fold"
"""The table of states: one file for each share of the tunnels."""
IN_TUNNELS: Final = frozenset({"tunnels", "calls", "deliveries"})
"""Tables with rows of what is in tunnels."""
PARTS: Final = ("_delivery_parts", "_delivery_faults")
"""Tables from which the next stage makes `deliveries`."""
SHARES: Final = 4
"""Number of shares in every lake. Fixed, since state is never divided differently."""
_TASK_EVENTS: Final = 200_000
"""Events for which one task folds all shares. Each task writes files of its own: of a small step
with tunnels, nine files in 34."""


class TunnelTask(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a task."""

    shares: tuple[int, ...]
    """The shares to fold, one after the other. The task with share 0 writes the events that wait,
    of all shares."""
    waiting: tuple[str, ...]
    """Files with events of all shares that waited."""
    final: tuple[str, ...]
    """Files with final events of all shares."""
    provisional: tuple[str, ...]
    """Files with events that are valid only if the input ends here."""
    until_ns: int
    """Events up to this time are folded for good; later ones wait."""
    states: dict[int, str]
    """Files with the states of the shares; none in the first step."""
    work: str
    tables: tuple[str, ...]
    """The tables of the lake."""


class Tunnelled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task."""

    states: dict[int, AddedFile] = {}
    """By share."""
    written: list[AddedFile] = []
    """All other files."""
    failure: str | None = None
    """Why the state of an earlier step cannot be continued from."""


def shares_of_tasks(events: int) -> list[tuple[int, ...]]:
    """Return the shares of each task for a number of events."""
    every = tuple(range(SHARES))
    return [every] if events <= _TASK_EVENTS else [(share,) for share in every]


def tunnel(task: TunnelTask) -> Tunnelled:
    """Fold the tunnels of some shares."""
    tables = frozenset({*task.tables, EVENTS, *(PARTS if "deliveries" in task.tables else ())})
    with Outputs(task.work, tables) as outputs:
        try:
            states = {share: _tunnel(task, share, outputs) for share in task.shares}
        except StateError as error:
            return Tunnelled(failure=unusable(error))
        if 0 in task.shares:
            _wait(EventFiles([*task.waiting, *task.final], 0, 1), task.until_ns, outputs)
        return Tunnelled(states=states, written=outputs.close())


def _tunnel(task: TunnelTask, share: int, outputs: Outputs) -> AddedFile:
    """Fold the tunnels of a share; return its state."""
    fold = _loaded(task.states.get(share), share)
    # Events that waited come before those of this step: files are in the order of steps.
    happened = EventFiles([*task.waiting, *task.final], share, SHARES)
    every = EventFiles([*task.waiting, *task.final, *task.provisional], share, SHARES)
    outputs.provisional = False
    for events in happened.until(task.until_ns):
        _fold(fold, events, outputs)
    # Saved before provisional events are folded: they are folded again, or differ, in the next
    # step.
    saved = outputs.state(STATE, fold.save(), f"-{share}")
    outputs.provisional = True
    for events in every.after(task.until_ns, late=task.provisional):
        _fold(fold, events, outputs)
    for table, batch in fold.finish():
        outputs.write(table, batch)
    return saved


def _loaded(path: str | None, share: int) -> TunnelFold:
    """Return the fold of a share. Raises StateError, which names the file."""
    before = None if path is None else Path(path).read_bytes()
    try:
        return TunnelFold(share=share, shares=SHARES, state=before)
    except StateError as error:
        raise type(error)(f"{path}: {error}") from None


def _fold(fold: TunnelFold, events: pa.Table, outputs: Outputs) -> None:
    fold.feed(events.to_batches())
    for table, batch in fold.take():
        outputs.write(table, batch)


def _wait(happened: EventFiles, until_ns: int, outputs: Outputs) -> None:
    """Write the events that wait, numbered in their order."""
    outputs.provisional = False
    written = 0
    for events in happened.after(until_ns):
        numbers = pa.array(np.arange(written, written + len(events)))
        at = events.schema.get_field_index("number")
        numbered = events.set_column(at, events.schema.field(at), numbers)
        for batch in numbered.to_batches():
            outputs.write(EVENTS, batch)
        written += len(events)

"""Folds the messages of connections into tables, window by window.

    fold = Fold(share=0, shares=1, state=states)
    for window in pipeline.windows(last=False):
        for table, batch in fold.window(window):
            ...
    state = fold.save(pipeline.save().hashes())

The input is what `CapturePipeline` yields. The output is final rows of `calls` (outside of tunnels)
and of `connections` (without `previous_connection`), and the tables of `CROSSING`, from which
`deliveries.py`, `sign_ons.py` and `tunnels.py` make the rest across connections.

The events of a window become arrays (`event_builder.py`). One kernel call processes all of them in
the order of time (`kernels.py`), and works on connections and calls that are arrays, too
(`tables.py`, `memory.py`): a Python object for each event would cost more than decoding it (0.07 to
0.7 µs for an object, 0.03 µs for a message in a kernel). Final records become batches (`calls.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wirelake.records.calls import DUPLICATE_WINDOW_NS
from wirelake.records.deliveries import CROSSING
from wirelake.records.engine import EngineLimits

from ..pipeline.pipeline import Item
from . import event_arrays as k
from .calls import STILL_OPEN, UNKNOWN, calls_batch, connections_batch, expire_idle, sign_ons_batch
from .deliveries import delivery_faults, delivery_parts, publications
from .event_builder import Columns, Source, id_hash, usable_faults
from .kernels import end, fold, fold_ends, slot_of
from .memory import FoldState, Memory
from .pending import PendingEvents, of_connections, pending_sources
from .tables import KNOWN, NO
from .tunnels import tunnel_rows

__all__ = ["LATE_COLUMNS", "Fold"]

Yields = Iterator[tuple[str, pa.RecordBatch]]

OUTPUTS: Final = ("calls", "connections", *CROSSING)
"""The tables that a fold yields."""
LIMIT: Final = EngineLimits().connections
"""Maximum connections at a time; beyond it, the oldest are evicted."""
IDLE_CALLS: Final = 4_096
"""How many calls may wait for a duplicate answer before idle connections are scanned."""
IDLE_NS: Final = 1_000_000_000
"""After how much time of the capture they are scanned, however few wait: small windows of a live
capture show calls in time, and large ones of a file are scanned once each."""
LATE_COLUMNS: Final = frozenset({"duplicates", "traces"})
"""Columns of `calls` that may change after the answer."""
_MORE: Final = 4_096
"""Records added when a kernel runs out of room."""
_LIMIT_TEXT: Final = KNOWN.index("limit")


class Fold:
    """Folds the connections of one share; restored from the states of all shares before."""

    def __init__(
        self,
        *,
        share: int = 0,
        shares: int = 1,
        state: Sequence[FoldState] = (),
        tables: Collection[str] = OUTPUTS,
        early: bool = False,
    ):
        """`tables` are those to yield. With `early`, a call outside of tunnels is yielded when it
        is answered, before its `LATE_COLUMNS` are final; such a fold cannot be saved."""
        self._early = early
        self._share, self._shares = share, shares
        self._tables = frozenset(tables)
        self._memory = Memory()
        self._pending: list[Source] = []
        self._since: dict[int, int] = {}
        """Connections that wait, and the time from which they do, after the last window."""
        self._events = 0
        """How many events were processed so far."""
        self._calls_left = 0
        """Calls left after idle connections were last scanned."""
        self._scanned_ns = 0
        """The time of the capture at which they were."""
        for each in state:
            each.check()
        wanted = [each.hashes % shares == share for each in state]
        self._memory.restore(
            [(each.memory, mine) for each, mine in zip(state, wanted, strict=True)]
        )
        waiting = set(self._memory.waiting().tolist())
        for each in state:
            pending = [events.source() for events in each.pending]
            self._pending += of_connections(pending, waiting)

    def window(self, items: Iterable[Item]) -> Yields:
        """Take what a pipeline yields for a window, and yield what is final now.

        It must be read to its end before anything else is asked of the fold.
        """
        sources, waiting, facts = _sorted(items)
        if self._share == 0:  # every share has all facts
            yield from self._named("_publications", publications(facts))
        yield from self._process(self._released(waiting) + sources, waiting)
        self._evict()
        yield from self._taken()

    def save(self, hashes: Mapping[int, int]) -> FoldState:
        """Return the state; `hashes` are those of the pipeline's state. Changes nothing."""
        memory = self._memory.save()
        known = memory.connections["connection"].tolist()
        found = [hashes[each] if each in hashes else id_hash(each) for each in known]
        pending = [PendingEvents.of(source) for source in self._pending]
        return FoldState(np.array(found, np.int64), memory, pending)

    def finish(self) -> Yields:
        """Yield what would be final if the input ended here; the fold cannot be used afterwards."""
        yield from self._process(self._released({}), {})
        self._end(self._memory.live_slots, STILL_OPEN, NO)
        yield from self._taken()

    # -- a window ----------------------------------------------------------------------------

    def _released(self, waiting: Mapping[int, int]) -> list[Source]:
        """Return pending events of connections that no longer wait, or wait from a later time on.

        Those that still wait become pending again.
        """
        before, self._since = self._since, dict(waiting)
        if not self._pending:
            return []
        waited = set(self._memory.waiting().tolist())
        released = {
            each for each in waited if each not in waiting or waiting[each] != before.get(each)
        }
        found = of_connections(self._pending, released)
        if released:
            self._pending = of_connections(self._pending, waited - released)
        return found

    def _process(self, sources: Sequence[Source], waiting: Mapping[int, int]) -> Yields:
        """Process the events of all sources; released ones come first.

        At one and the same time and rank the order of sources decides, so released events must
        precede those that were captured after them.
        """
        columns = Columns(sources, self._memory.texts, self._share, self._shares)
        arrays = columns.arrays()
        self._run(columns, arrays, waiting)
        self._pending += pending_sources(columns, arrays.pending)
        texts = self._memory.texts
        yield from self._named("_delivery_parts", delivery_parts(columns, arrays, texts))
        yield from self._named("_delivery_faults", delivery_faults(columns, arrays, texts))
        yield from self._named("_tunnel_events", tunnel_rows(columns, arrays, texts, self._events))
        signed = arrays.signed[:, : self._memory.take_signed()]
        if signed.shape[1] and "_sign_ons" in self._tables:
            where, when = arrays.wide[k.KEY, signed[0]], arrays.wide[k.TS, signed[0]]
            yield "_sign_ons", sign_ons_batch(signed, where, when, texts)
        self._events += len(columns)
        self._expire_calls(arrays.wide[k.TS])

    def _run(self, columns: Columns, arrays: k.EventArrays, waiting: Mapping[int, int]) -> None:
        """Run the kernel over all events.

        Kernels cannot allocate (`_nrt=False`): room is estimated first, and the kernel returns
        where it ran out of it, to be called again from there.
        """
        memory = self._memory
        counts = np.bincount(columns.narrow[k.KIND], minlength=k.END + 1)
        memory.reserve(int(counts[k.OPENED]) + len(waiting) + 1, int(counts[k.REQUEST]) + 1)
        memory.reserve(0, 0, int(counts[k.END]))
        tables = memory.tables()
        memory.wait({slot_of(tables, each): since for each, since in waiting.items()})
        reached = fold(tables, arrays, 0)
        while reached < len(columns):
            memory.reserve(_MORE, _MORE)
            reached = fold(memory.tables(), arrays, reached)
        fold_ends(memory.tables(), arrays)

    def _expire_calls(self, times: Any) -> None:
        """Finish calls that were answered long before this window, on idle connections too."""
        if not len(times) or not self._memory.live_calls:
            return
        # It scans all records, so only when their number has doubled since the last scan, or now
        # and then.
        now_ns = int(times.min())
        overdue = now_ns - self._scanned_ns >= IDLE_NS
        if overdue or self._memory.live_calls > max(IDLE_CALLS, 2 * self._calls_left):
            expire_idle(self._memory.tables(), now_ns - 2 * DUPLICATE_WINDOW_NS)
            self._calls_left, self._scanned_ns = self._memory.live_calls, now_ns

    def _evict(self) -> None:
        """Evict the oldest connections when there are too many."""
        excess = len(self._memory) - LIMIT
        if excess > 0:
            self._memory.mark_evicted()
            self._end(self._memory.live_slots[:excess], UNKNOWN, _LIMIT_TEXT)

    def _end(self, slots: Any, outcome: int, cause: int) -> None:
        self._memory.reserve(0, 0, len(slots))
        end(self._memory.tables(), slots, outcome, cause)

    def _taken(self) -> Yields:
        calls, connections = self._memory.take_calls(), self._memory.take_connections()
        if self._early:
            calls = np.concatenate([calls, self._memory.take_answered()])
        if len(calls) and "calls" in self._tables:
            yield "calls", calls_batch(calls, self._memory.texts)
        if len(connections) and "connections" in self._tables:
            yield "connections", connections_batch(connections, self._memory.texts)
        self._memory.drop_unused()

    def _named(self, table: str, batches: Iterable[pa.RecordBatch]) -> Yields:
        if table in self._tables:  # otherwise nothing is computed: `batches` is a generator
            for batch in batches:
                yield table, batch


def _sorted(items: Iterable[Item]) -> tuple[list[Source], dict[int, int], list[Any]]:
    """Return the sources of a window, the connections that wait, and all facts."""
    sources: list[Source] = []
    waiting: dict[int, int] = {}
    facts: list[Any] = []
    for table, found in items:
        match table:
            case "waiting":
                waiting.update(found)
            case "faults":
                sources.append((table, usable_faults(found)))
            case "messages" | "connections":
                sources.append((table, found))
            case "facts":
                facts += found
                sources.append((table, [fact for fact in found if _is_used(fact)]))
    return sources, waiting, facts


def _is_used(fact: Any) -> bool:
    """Return whether a fact is an event for the kernel."""
    if fact.connection is None:
        return False
    return fact.kind == "close" or (
        fact.kind == "sign_on" and isinstance(fact.data.get("client"), str)
    )

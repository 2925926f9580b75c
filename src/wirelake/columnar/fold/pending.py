"""Pending events of a fold: those of a connection are processed in the order of their time.

Bytes behind a hole in a stream are delivered later than packets captured after them. Meanwhile all
events of that connection, and of the tunnels on it, wait. The second half of the module has the
kernels for what such a hole, or any other fault, hides: calls that can no longer be matched by
order, and answers that may be missing ("When order can be trusted" in `docs/concepts/matching.md`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wirelake.records.calls import QUIET_NS
from wirelake.records.protocol_rules import rules_of
from wirelake.records.rows import Closed, Fact, Opened

from ..decode.texts import plain
from ..jit.options import Int, S, U, inline
from .event_arrays import PART, REQUEST
from .event_builder import Columns, Source
from .tables import NO, NOTHING, Tables

__all__ = [
    "EventList",
    "PendingEvents",
    "broken",
    "hiding_fault",
    "mark_unsettled",
    "notice",
    "of_connections",
    "pending_sources",
]


_NOT_WANTED = frozenset({"body", "sealed", "body_bytes", "file", "offset"})
_FAULTS = ("ts_ns", "connection", "direction", "protocol", "missing_bytes", "code")


def of_connections(sources: Sequence[Source], connections: Collection[int]) -> list[Source]:
    """Return the events of some connections; a message in a tunnel belongs to the link."""
    wanted = pa.array(connections, pa.int64())
    found: list[Source] = []
    for table, events in sources:
        if isinstance(events, pa.RecordBatch):
            key = events.column("connection")
            if table == "messages":
                key = pc.coalesce(events.column("tunnel_link"), key)
            found.append((table, events.filter(pc.is_in(key, wanted))))
        else:
            found.append((table, [each for each in events if each.connection in connections]))
    return [source for source in found if len(source[1])]


def pending_sources(columns: Columns, pending: NDArray[np.bool_]) -> Iterator[Source]:
    """Yield the events that wait."""
    for number, (table, events) in enumerate(columns.sources):
        mine = pending[int(columns.starts[number]) : int(columns.starts[number + 1])]
        if not mine.any():
            continue
        if isinstance(events, pa.RecordBatch):
            yield table, _narrowed(table, events.filter(pa.array(mine)))
        else:
            yield table, [each for each, keep in zip(events, mine, strict=True) if keep]


def _narrowed(table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without the columns that folds do not use."""
    if table == "faults":
        return batch.select(list(_FAULTS))
    batch = plain(batch)
    protocol = batch.column("protocol")[0].as_py()
    rules = rules_of(protocol)
    wanted = {protocol: pc.is_in(batch.column("name"), pa.array(list(rules.fields), pa.string()))}
    if rules.arguments is not None:
        said = pc.equal(batch.column("target"), rules.arguments.published_target or "")
        said = pc.fill_null(said, False)
        if rules.arguments.rows is None:
            wanted["body"] = said
        else:
            wanted[protocol] = pc.or_(wanted[protocol], said)
    names = [
        name
        for name in batch.schema.names
        if (pc.any(wanted[name]).as_py() if name in wanted else name not in _NOT_WANTED)
    ]
    found = batch.select(names)
    # Of bodies and structs, only those that a rule reads.
    for name in wanted.keys() & set(names):
        at = found.schema.get_field_index(name)
        kept = pc.if_else(wanted[name], found.column(at), pa.scalar(None, found.column(at).type))
        found = found.set_column(at, found.schema.field(at), kept)
    return found


# -- as they are saved -------------------------------------------------------------------------


class EventList(msgspec.Struct, frozen=True):
    """Events that are no rows of a batch, each with its place among all of them."""

    opened: list[tuple[int, Opened]] = []
    closed: list[tuple[int, Closed]] = []
    facts: list[tuple[int, Fact]] = []

    @staticmethod
    def of(events: Sequence[Any]) -> EventList:
        """Return events sorted by their class."""
        found = EventList([], [], [])
        for place, event in enumerate(events):
            match event:
                case Opened():
                    found.opened.append((place, event))
                case Closed():
                    found.closed.append((place, event))
                case _:  # a fact of a capture, or a row of `records`
                    fact = Fact(event.ts_ns, event.kind, event.connection, event.data)
                    found.facts.append((place, fact))
        return found

    def events(self) -> list[Opened | Closed | Fact]:
        """Return the events in their order."""
        every: list[tuple[int, Opened | Closed | Fact]]
        every = [*self.opened, *self.closed, *self.facts]
        return [event for _, event in sorted(every, key=lambda each: each[0])]


class PendingEvents(msgspec.Struct, frozen=True):
    """Events of one table that wait, in a batch or in a list."""

    table: str
    batch: pa.RecordBatch | None
    events: EventList | None

    @staticmethod
    def of(source: Source) -> PendingEvents:
        """Return a source of events as it is saved."""
        table, found = source
        if isinstance(found, pa.RecordBatch):
            return PendingEvents(table, found, None)
        return PendingEvents(table, None, EventList.of(found))

    def source(self) -> Source:
        """Return the source of events that was saved."""
        if self.batch is not None:
            return self.table, self.batch
        return self.table, [] if self.events is None else self.events.events()


# -- what a fault hides, in kernels ------------------------------------------------------------


@inline
def broken(t: Tables, slot: Int, direction: Int, ts_ns: Int, code: Int) -> None:
    """Note that messages of a direction may be missing from here on."""
    found = t.connections[U(slot)]
    if direction:
        found.broken_s2c_ns, found.broken_s2c = ts_ns, code
    else:
        found.broken_c2s_ns, found.broken_c2s = ts_ns, code


@inline
def mark_unsettled(t: Tables, slot: Int, ts_ns: Int) -> None:
    """Stop matching by order from here on."""
    found = t.connections[U(slot)]
    found.unsettled = 1
    found.quiet_ns = max(S(found.quiet_ns), ts_ns)


@inline
def notice(t: Tables, slot: Int, kind: Int, direction: Int, ts_ns: Int) -> None:
    """Match by order again after a request that follows a quiet time."""
    found = t.connections[U(slot)]
    if found.unsettled:
        settled = False
        if REQUEST <= kind <= PART:
            # Rule 4 of "When order can be trusted": a request after 10 s of silence, once a message
            # has arrived in the direction of each fault.
            quiet = ts_ns - found.quiet_ns >= QUIET_NS
            settled = quiet and kind == REQUEST and found.awaited == 0
            if settled:
                found.unsettled = 0
            else:
                found.quiet_ns = ts_ns
        if not settled:
            found.awaited = S(found.awaited) & ~(1 << direction)


@inline
def hiding_fault(t: Tables, slot: Int, call: Int) -> Int:
    """Return the code of a fault that may hide the answer of an open call, or NO."""
    found, place = t.calls[U(call)], t.connections[U(slot)]
    # The direction of the answer. A fault in that of the request hides nothing: it was seen.
    if found.way:
        code, ts_ns = S(place.broken_c2s), S(place.broken_c2s_ns)
    else:
        code, ts_ns = S(place.broken_s2c), S(place.broken_s2c_ns)
    return NO if found.request_ns == NOTHING or ts_ns < found.request_ns else code

"""Whole captures to one derived table, window by window, in bounded memory.

    fold, merge = CaptureFold("calls"), merge_for("calls")
    for window in fold.windows(pipeline.windows()):
        for rows in merge.window(window):
            ...
    for rows in merge.finish():
        ...

Two stages, because several processes may share the connections of a capture: each of them folds its
own (`CaptureFold`), and one merges what they yield across connections (`merge_for`). The rules of
that merge are those of `deliveries.py`, `sign_ons.py` and `tunnels.py`, which a lake uses, too.
Here is only what a reader adds to them: when rows come out, and what is given up to bound memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirelake.records.deliveries import CROSSING
from wirelake.records.engine import EngineLimits
from wirelake.records.protocol_rules import rules_of

from ..pipeline.pipeline import Item
from .deliveries import delivery_rows, expected_parts, last_faults, merge_parts
from .fold import Fold
from .groups import column_of, numbers_or, present
from .sign_ons import with_previous
from .tunnels import TunnelFold

__all__ = ["WAITING", "CaptureFold", "Folded", "Merge", "merge_for"]

Folded: TypeAlias = tuple[str, Any]
"""The name of a table and a batch of it; or WAITING and a `dict`."""

_NEEDS: Final = {
    "calls": ("calls", "_tunnel_events"),
    "deliveries": ("_delivery_parts", "_delivery_faults", "_publications", "_tunnel_events"),
    "connections": ("connections", "_sign_ons"),
    "tunnels": ("_tunnel_events",),
}
"""By derived table: the tables of folds that it is made from."""
WAITING: Final = "waiting"
"""In place of a table: connections whose events wait, and the time from which they do."""
_LIMITS: Final = EngineLimits()
_MERGE_ROWS: Final = 65_536
"""Rows that are gathered before they are merged with what is known: a merge sorts all of it."""


class CaptureFold:
    """Folds the connections of one share of a capture."""

    def __init__(self, table: str, *, share: int = 0, shares: int = 1, early: bool = False):
        self._fold = Fold(share=share, shares=shares, tables=_NEEDS[table], early=early)
        self._only_links = "_tunnel_events" in _NEEDS[table]
        self._others: set[int] = set()
        """Connections that wait and are known not to be links."""

    def windows(self, windows: Iterable[Iterable[Item]]) -> Iterator[Iterator[Folded]]:
        """Yield what the merge needs of each window, and finally of the end of the input.

        Each must be read to its end before the next.
        """
        for window in windows:
            yield self.window(window)
        yield self.finish()

    def window(self, items: Iterable[Item]) -> Iterator[Folded]:
        """Yield what the merge needs of a window of the pipeline."""
        known: list[Item] = list(items)
        yield from self._fold.window(known)
        yield WAITING, self._waiting(known)

    def finish(self) -> Iterator[Folded]:
        """Yield the rest; the input has ended."""
        return self._fold.finish()

    def _waiting(self, items: Iterable[Item]) -> dict[int, int]:
        """Return the connections that wait; none waits for long (captures.md, Waiting).

        For tunnels, connections that are known not to be links are left out. One without a message
        so far may be a link.
        """
        waiting: dict[int, int] = {}
        others: set[int] = set()
        for table, found in items:
            if table == "waiting":
                waiting.update(found)
            elif (
                self._only_links
                and table == "messages"
                and isinstance(found, pa.RecordBatch)
                and found.num_rows
                and not _may_be_of_link(found)
            ):
                others.update(pc.unique(found.column("connection")).to_pylist())
        self._others = (self._others | others).intersection(waiting)
        return {
            connection: since_ns
            for connection, since_ns in waiting.items()
            if connection not in self._others
        }


def _may_be_of_link(messages: pa.RecordBatch) -> bool:
    """Return whether messages of one protocol are those of links, or of tunnels in them."""
    if rules_of(messages.column("protocol")[0].as_py()).tunnels is not None:
        return True
    return bool(messages.column("tunnel_link").null_count < messages.num_rows)


class Merge(ABC):
    """Merges what folds yield into rows of one table."""

    def window(self, folded: Iterable[Folded]) -> Iterator[pa.Table]:
        """Pass a window to all folds; yield the rows that are final now."""
        for table, found in folded:
            if table != "faults":  # which workers send along, for whoever counts them
                self._add(table, found)
        yield from self._ready()

    def finish(self) -> Iterator[pa.Table]:
        """Yield all rows that are left; the input has ended."""
        yield from self._rest()

    @abstractmethod
    def _add(self, table: str, found: Any) -> None: ...

    @abstractmethod
    def _ready(self) -> Iterator[pa.Table]: ...

    @abstractmethod
    def _rest(self) -> Iterator[pa.Table]: ...


def merge_for(table: str) -> Merge:
    """Return the merge of a derived table."""
    match table:
        case "connections":
            return _Connections()
        case "deliveries":
            return _Deliveries()
        case _:
            return _Tunnels(table)


class _TunnelEvents:
    """The fold of tunnels over all links.

    A tunnel may move from link to link, so its events are processed in the order of time over all
    links: while one of them waits for the bytes of a hole, the later events of all of them wait.
    """

    def __init__(self) -> None:
        self._fold = TunnelFold()
        self._events = _no_rows("_tunnel_events")
        self._waiting: dict[int, int] = {}

    def add(self, table: str, found: Any) -> None:
        """Add events of a window, or the connections that wait."""
        if table == WAITING:
            self._waiting.update(found)
        else:
            self._events = pa.concat_tables([self._events, pa.Table.from_batches([found])])

    def ready(self) -> Iterator[Folded]:
        """Yield what is final after a window."""
        events, self._events = self._events, self._events.slice(0, 0)
        if self._waiting:
            early = pc.less(events.column("ts_ns"), min(self._waiting.values()))
            events, self._events = events.filter(early), events.filter(pc.invert(early))
            self._waiting = {}
        self._feed(events)
        yield from self._fold.take()

    def rest(self) -> Iterator[Folded]:
        """Yield what is left when the input has ended."""
        self._feed(self._events)
        yield from self._fold.finish()

    def _feed(self, events: pa.Table) -> None:
        if len(events):
            self._fold.feed(events.to_batches())


class _Tunnels(Merge):
    """Rows of `tunnels`, or of `calls` inside and outside of tunnels."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._tunnels = _TunnelEvents()
        self._final: list[pa.RecordBatch] = []

    def _add(self, table: str, found: Any) -> None:
        if table in (WAITING, "_tunnel_events"):
            self._tunnels.add(table, found)
        else:
            self._final.append(found)

    def _ready(self) -> Iterator[pa.Table]:
        yield from self._taken(self._tunnels.ready())

    def _rest(self) -> Iterator[pa.Table]:
        yield from self._taken(self._tunnels.rest())

    def _taken(self, found: Iterable[Folded]) -> Iterator[pa.Table]:
        self._final += [batch for table, batch in found if table == self._table]
        if self._final:
            final, self._final = self._final, []
            yield pa.Table.from_batches(final)


class _Connections(Merge):
    """Rows of `connections`, each with the connection of the same client before it.

    A row comes out when its connection has ended, so that memory does not grow with the capture;
    but not before all sign-ons up to its own are known: events of other connections may wait.
    """

    def __init__(self) -> None:
        self._sign_ons = _no_rows("_sign_ons")
        self._final: list[pa.RecordBatch] = []
        self._waiting: dict[int, int] = {}

    def _add(self, table: str, found: Any) -> None:
        if table == WAITING:
            self._waiting.update(found)
        elif table == "_sign_ons":
            self._sign_ons = pa.concat_tables([self._sign_ons, pa.Table.from_batches([found])])
        else:
            self._final.append(found)

    def _ready(self) -> Iterator[pa.Table]:
        if self._final:
            rows = pa.Table.from_batches(self._final)
            self._final = []
            if self._waiting:
                signed_on_ns = rows.column("signed_on_ns")
                late = pc.greater_equal(signed_on_ns, min(self._waiting.values()))
                late = pc.fill_null(late, False)
                self._final = rows.filter(late).to_batches()
                rows = rows.filter(pc.invert(late))
            # A lookup of each client costs less than to sort the sign-ons of all, in each window.
            theirs = pc.is_in(self._sign_ons.column("client"), column_of(rows, "client"))
            yield with_previous(rows, self._sign_ons.filter(theirs))
        self._waiting = {}
        if len(self._sign_ons) > 2 * _LIMITS.connections:
            latest = self._sign_ons.sort_by([("ts_ns", "descending")])
            self._sign_ons = latest.slice(0, _LIMITS.connections).combine_chunks()

    def _rest(self) -> Iterator[pa.Table]:
        return self._ready()


class _Deliveries(Merge):
    """Rows of `deliveries`.

    Almost all of them come out at the end: a client may acknowledge, or get once more, what was
    sent on any of its connections. Beyond the limits of the engines the oldest come out early.
    """

    def __init__(self) -> None:
        self._parts = _no_rows("_delivery_parts")
        self._publications = _no_rows("_publications")
        self._faults = _no_rows("_delivery_faults")
        self._merged_rows = 0
        """Parts that are merged already; they come first."""
        self._tunnels = _TunnelEvents()

    def _add(self, table: str, found: Any) -> None:
        if table in (WAITING, "_tunnel_events"):
            self._tunnels.add(table, found)
            return
        added = pa.Table.from_batches([found])
        match table:
            case "_delivery_parts":
                self._parts = pa.concat_tables([self._parts, added])
            case "_delivery_faults":
                self._faults = pa.concat_tables([self._faults, added])
            case _:
                self._publications = pa.concat_tables([self._publications, added])
                self._parts = pa.concat_tables([self._parts, expected_parts(added)])

    def _ready(self) -> Iterator[pa.Table]:
        self._add_tunnels(self._tunnels.ready())
        # Merging when as many parts are new as are known keeps the cost of all merges linear.
        if len(self._parts) - self._merged_rows <= max(_MERGE_ROWS, self._merged_rows):
            return
        self._parts = merge_parts(self._parts)
        over = _over_limits(self._parts)
        if over.any():
            yield self._rows(self._parts.filter(pa.array(over)))
            self._parts = self._parts.filter(pa.array(~over)).combine_chunks()
        self._merged_rows = len(self._parts)
        if len(self._faults) > 2 * _LIMITS.connections:
            self._faults = last_faults(self._faults).sort_by([("ts_ns", "descending")])
            self._faults = self._faults.slice(0, _LIMITS.connections).combine_chunks()
        if len(self._publications) > 2 * _LIMITS.publications:
            self._publications = self._publications.slice(-_LIMITS.publications).combine_chunks()

    def _add_tunnels(self, found: Iterable[Folded]) -> None:
        for table, batch in found:
            if table in ("_delivery_parts", "_delivery_faults"):
                self._add(table, batch)

    def _rest(self) -> Iterator[pa.Table]:
        self._add_tunnels(self._tunnels.rest())
        yield self._rows(merge_parts(self._parts))

    def _rows(self, parts: pa.Table) -> pa.Table:
        return delivery_rows(parts, self._publications, self._faults)


def _over_limits(parts: pa.Table) -> Any:
    """Return which merged parts are beyond the limits: the first acknowledged, the first known."""
    acked_ns = column_of(parts, "acked_ns")
    acked = np.flatnonzero(present(acked_ns))
    acked = acked[np.argsort(numbers_or(acked_ns, 0)[acked], kind="stable")]
    open_parts = np.flatnonzero(~present(acked_ns))
    over = np.zeros(len(parts), np.bool_)
    over[acked[: max(0, len(acked) - _LIMITS.acknowledged)]] = True
    over[open_parts[: max(0, len(open_parts) - _LIMITS.deliveries)]] = True
    return over


def _no_rows(table: str) -> pa.Table:
    return CROSSING[table].empty_table()

"""What a fold keeps from window to window, and what is saved of it between two steps.

`Memory` owns the arrays of `tables.py`: it makes room before kernels run, because they cannot
allocate, and takes final records out of them. Arrays grow by doubling. `Saved` is its content by
connection, so that the next step may divide the connections into other shares; `FoldState` and
`TunnelState` are the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..jit.options import S, U, kernel
from ..state_format import batch_of, check, column, decode, encode, fill
from .calls import OUTCOMES
from .pending import PendingEvents
from .tables import (
    ANSWERED,
    CALL,
    CALL_TEXTS,
    CLOSED,
    CONNECTION,
    CONNECTION_TEXTS,
    COUNTS,
    CREATED,
    DONE,
    ENDS,
    EVICTED,
    FREE,
    FREE_CALLS,
    FREE_SLOTS,
    NO,
    NOTHING,
    OPEN,
    ORDER,
    SIGNED,
    Tables,
    Texts,
    add_call,
    append,
    index_calls,
    index_slots,
)

__all__ = [
    "FoldState",
    "Memory",
    "Saved",
    "TunnelState",
]


_FIRST_ROOM: Final = 1_024
"""Records of a new memory."""
NEVER: Final = (1 << 63) - 1
"""In place of the time from which a connection waits: it does not wait."""
_FOLD: Final = "fold"
_TUNNELS: Final = "tunnels"
"""Kinds of state files."""
_TEXTS: Final = 1 << 16
"""Number of texts below which unused ones are not collected."""
_BLANK: Final = np.zeros(1, CONNECTION)
for _name in CONNECTION.names or ():
    if _name.endswith("_ns") and _name != "quiet_ns":
        _BLANK[_name] = NOTHING
    elif _name in (*CONNECTION_TEXTS, "client_port", "server_port", "resumed"):
        _BLANK[_name] = NO
_BLANK["since"] = NEVER


class Saved(msgspec.Struct, frozen=True):
    """The saved connections, and their calls: each list in its order."""

    connections: pa.RecordBatch
    """The fields of `CONNECTION`."""
    oldest: NDArray[np.int64]
    """Two for each connection, one after the other."""
    calls: pa.RecordBatch
    """The fields of `CALL`; `slot` is a place in `connections`."""
    texts: list[str]
    gave_up: bool

    def check(self) -> None:
        """Raise StateError when columns are missing or numbers out of range."""
        for batch, dtype in ((self.connections, CONNECTION), (self.calls, CALL)):
            check(tuple(batch.schema.names) == dtype.names, "columns")
        count = self.connections.num_rows
        check(len(self.oldest) == 2 * count, "oldest")
        check(np.all(column(self.connections, "used", CONNECTION) == 1), "used")
        # Kernels use these as indices: the slot and the list of a call, outcomes and texts.
        for name, first, last in (
            ("slot", 0, count - 1),
            ("state", OPEN, ORDER),
            ("way", 0, 1),
            ("outcome", NO, len(OUTCOMES) - 1),
        ):
            numbers = column(self.calls, name, CALL)
            check(np.all((numbers >= first) & (numbers <= last)), name)
        for batch, dtype, names in (
            (self.connections, CONNECTION, CONNECTION_TEXTS),
            (self.calls, CALL, CALL_TEXTS),
        ):
            for name in names:
                codes = column(batch, name, dtype)
                check(np.all((codes >= NO) & (codes < len(self.texts))), name)


class Memory:
    """Everything about the connections of a share that is not final."""

    def __init__(self) -> None:
        self.texts = Texts()
        self._kept_texts = 0
        self._counts = np.zeros(COUNTS, np.int64)
        self._connections = np.empty(0, CONNECTION)
        self._ends = np.empty((0, ENDS), np.int32)
        self._oldest = np.empty((0, 2), np.int64)
        self._calls = np.empty(0, CALL)
        self._shown = np.empty(0, np.bool_)
        """Which calls `take_answered` has returned already."""
        self._slots = self._numbers = np.empty(0, np.int32)
        self._free_slots = self._free_calls = self._done = np.empty(0, np.int32)
        self._closed = np.empty(0, CONNECTION)
        self._waiting = np.empty(0, np.int64)
        """Slots that wait, or will wait from some time on."""
        self.reserve(_FIRST_ROOM, _FIRST_ROOM)

    @property
    def live_slots(self) -> NDArray[np.int32]:
        """The slots in use, the oldest connection first."""
        used = np.flatnonzero(self._connections["used"]).astype(np.int32)
        return used[np.argsort(self._connections["sequence"][used])]

    @property
    def live_calls(self) -> int:
        """How many calls are remembered."""
        return len(self._calls) - int(self._counts[FREE_CALLS])

    @property
    def slots(self) -> int:
        """How many slots there are, used or not."""
        return len(self._connections)

    def __len__(self) -> int:
        return len(self._connections) - int(self._counts[FREE_SLOTS])

    def tables(self) -> Tables:
        """Return the arrays for kernels; valid until the next `reserve`."""
        return Tables(
            self._connections,
            self._ends,
            self._oldest,
            self._slots,
            self._free_slots,
            self._calls,
            self._numbers,
            self._free_calls,
            self._counts,
            self._done,
            self._closed,
            _BLANK,
        )

    # -- room --------------------------------------------------------------------------------

    def reserve(self, connections: int, calls: int, ends: int = 0) -> None:
        """Make room for more connections and calls, and for ends of connections."""
        missing = connections - int(self._counts[FREE_SLOTS])
        if missing > 0:
            self._more_slots(max(missing, len(self._connections)))
        missing = calls - int(self._counts[FREE_CALLS])
        if missing > 0:
            self._more_calls(max(missing, len(self._calls)))
        missing = int(self._counts[CLOSED]) + ends - len(self._closed)
        if missing > 0:
            more = np.empty(max(missing, len(self._closed)), CONNECTION)
            self._closed = np.concatenate([self._closed, more])

    def _more_slots(self, count: int) -> None:
        before = len(self._connections)
        self._connections = np.concatenate([self._connections, np.repeat(_BLANK, count)])
        ends = np.full((count, ENDS), NO, np.int32)
        ends[:, 2::3] = 0
        self._ends = np.concatenate([self._ends, ends])
        self._oldest = np.concatenate([self._oldest, np.zeros((count, 2), np.int64)])
        self._free_slots = self._freed(self._free_slots, FREE_SLOTS, before, count)
        # The chain of a record depends on the number of buckets: all are linked again.
        self._slots = np.full(_buckets(before + count), NO, np.int32)
        index_slots(self.tables())

    def _more_calls(self, count: int) -> None:
        before = len(self._calls)
        self._calls = np.concatenate([self._calls, np.zeros(count, CALL)])
        self._shown = np.concatenate([self._shown, np.zeros(count, np.bool_)])
        self._free_calls = self._freed(self._free_calls, FREE_CALLS, before, count)
        self._done = np.concatenate([self._done, np.empty(count, np.int32)])
        self._numbers = np.full(_buckets(before + count), NO, np.int32)
        index_calls(self.tables())

    def _freed(
        self, free: NDArray[np.int32], place: int, first: int, count: int
    ) -> NDArray[np.int32]:
        """Return the stack of free records with new ones added; the first is taken first."""
        # Taken from the end: first the records that were free before, then the new ones in order.
        # So the records in use stay at the front of the arrays, whatever their size.
        stack = np.empty(first + count, np.int32)
        free_before = int(self._counts[place])
        stack[:count] = np.arange(first + count - 1, first - 1, -1)
        stack[count : count + free_before] = free[:free_before]
        self._counts[place] += count
        return stack

    # -- what is final -----------------------------------------------------------------------

    def take_calls(self) -> NDArray[Any]:
        """Return the calls that became final since the last call, but those returned before."""
        count, free = int(self._counts[DONE]), int(self._counts[FREE_CALLS])
        # Free only now, not when kernels ended them: a record that is used again within a window
        # would be lost before it is read here.
        done = self._done[:count]
        found = self._calls[done[~self._shown[done]]]
        self._shown[done] = False
        self._calls["state"][done] = FREE
        self._free_calls[free : free + count] = done
        self._counts[FREE_CALLS] += count
        self._counts[DONE] = 0
        return found

    def take_answered(self) -> NDArray[Any]:
        """Return the answered calls that are not final yet; each once."""
        answered = np.flatnonzero((self._calls["state"] == ANSWERED) & ~self._shown)
        self._shown[answered] = True
        return self._calls[answered]

    def take_connections(self) -> NDArray[Any]:
        """Return the connections that became final since the last call."""
        found = self._closed[: int(self._counts[CLOSED])].copy()
        self._counts[CLOSED] = 0
        return found

    def take_signed(self) -> int:
        """Return how many clients have signed on since the last call."""
        count = int(self._counts[SIGNED])
        self._counts[SIGNED] = 0
        return count

    def mark_evicted(self) -> None:
        """Note that connections were evicted: an unknown connection may be one of them."""
        self._counts[EVICTED] = 1

    # -- who waits ---------------------------------------------------------------------------

    def waiting(self) -> NDArray[np.int64]:
        """Return the connections whose events are pending."""
        waits = self._connections["waiting"][self._waiting] != 0
        return np.asarray(self._connections["connection"][self._waiting[waits]])

    def wait(self, since: Mapping[int, int]) -> None:
        """Make exactly these slots wait, each from a time on.

        Events of others are released, and those of slots whose time has changed.
        """
        slots, times = np.array(list(since), np.int64), np.array(list(since.values()), np.int64)
        moved = slots[self._connections["since"][slots] != times]
        self._connections["waiting"][moved] = 0
        over = np.setdiff1d(self._waiting, slots)
        self._connections["waiting"][over] = 0
        self._connections["since"][over] = NEVER
        self._connections["since"][slots] = times
        self._waiting = slots

    # -- texts -------------------------------------------------------------------------------

    def drop_unused(self) -> None:
        """Drop unused texts, once there are many."""
        if len(self.texts) > max(_TEXTS, 2 * self._kept_texts):
            slots = np.flatnonzero(self._connections["used"])
            calls = np.flatnonzero(self._calls["state"] != FREE)
            records = (self._connections, slots, CONNECTION_TEXTS), (self._calls, calls, CALL_TEXTS)
            kept = _used_codes(
                [table[name][rows] for table, rows, names in records for name in names]
            )
            fresh = Texts(self.texts.texts[code] for code in kept.tolist())
            moved = _moves(self.texts, fresh, kept)
            for table, rows, names in records:
                for name in names:
                    table[name][rows] = moved[table[name][rows]]
            self.texts, self._kept_texts = fresh, len(fresh)

    # -- saving ------------------------------------------------------------------------------

    def save(self) -> Saved:
        """Return everything; final records must have been taken before."""
        slots = self.live_slots
        order = np.empty(self.live_calls, np.int32)
        calls = self._calls[order[: _calls_in_order(self.tables(), slots, order)]]
        connections, oldest = self._connections[slots], self._oldest[slots]
        places = np.empty(len(self._connections), np.int32)
        places[slots] = np.arange(len(slots))
        calls["slot"] = places[calls["slot"]]
        texts = self.texts.texts
        tables = (connections, CONNECTION_TEXTS), (calls, CALL_TEXTS)
        kept = _used_codes([table[name] for table, names in tables for name in names])
        moved = np.full(len(texts) + 1, NO, np.int32)
        moved[kept] = np.arange(len(kept))
        for table, names in tables:
            for name in names:
                table[name] = moved[table[name]]
        words = [texts[code] for code in kept.tolist()]
        return Saved(
            batch_of(connections),
            oldest.ravel(),
            batch_of(calls),
            words,
            bool(self._counts[EVICTED]),
        )

    def restore(self, states: Sequence[tuple[Saved, NDArray[np.bool_]]]) -> list[NDArray[np.int32]]:
        """Restore several states, each with a mask of the wanted connections.

        Returns the slots of these, for each state.
        """
        found = []
        for saved, wanted in states:
            saved.check()
            kept = np.flatnonzero(wanted)
            places_of_calls = column(saved.calls, "slot", CALL)
            calls = np.flatnonzero(wanted[places_of_calls])
            self.reserve(len(kept), len(calls))
            slots = self._taken(self._free_slots, FREE_SLOTS, len(kept))
            places = np.full(len(wanted), NO, np.int32)
            places[kept] = slots
            # Numbered again: the counts of several states overlap. The order within each is kept.
            sequence = self._counts[CREATED] + 1 + np.arange(len(kept))
            self._counts[CREATED] += len(kept)
            fill(self._connections, slots, saved.connections, kept)
            self._connections["sequence"][slots] = sequence
            self._connections["since"][slots] = NEVER
            self._oldest[slots] = saved.oldest.reshape(-1, 2)[kept]
            numbers = self._taken(self._free_calls, FREE_CALLS, len(calls))
            fill(self._calls, numbers, saved.calls, calls)
            self._calls["slot"][numbers] = places[places_of_calls[calls]]
            codes = np.append(self.texts.coded(saved.texts), np.int32(NO))
            for name in CONNECTION_TEXTS:
                self._connections[name][slots] = codes[self._connections[name][slots]]
            for name in CALL_TEXTS:
                self._calls[name][numbers] = codes[self._calls[name][numbers]]
            self._counts[EVICTED] |= saved.gave_up
            _link(self.tables(), numbers)
            self._waiting = np.append(
                self._waiting, slots[self._connections["waiting"][slots] != 0]
            )
            found.append(slots)
        self._slots[:] = NO
        index_slots(self.tables())
        return found

    def _taken(self, free: NDArray[np.int32], place: int, count: int) -> NDArray[np.int32]:
        self._counts[place] -= count
        left = int(self._counts[place])
        return free[left : left + count][::-1].copy()


def _buckets(count: int) -> int:
    return 1 << max(count - 1, 1).bit_length()


def _used_codes(columns: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    used = np.unique(np.concatenate(columns)) if columns else np.empty(0, np.int32)
    return used[used >= 0].astype(np.int64)


def _moves(before: Texts, after: Texts, kept: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the new code of each old one; the last place is for NO."""
    moved = np.full(len(before) + 1, NO, np.int32)
    moved[kept] = after.coded(before.texts[code] for code in kept.tolist())
    return moved


@kernel
def _calls_in_order(t: Tables, slots: NDArray[np.int32], order: NDArray[np.int32]) -> int:
    """Write the numbers of all calls, list after list, each from its first to its last."""
    count = 0
    for at in range(U(len(slots))):
        for place in range(0, ENDS, 3):
            call = S(t.ends[U(slots[at]), U(place)])
            while call >= 0:
                order[U(count)] = call
                count += 1
                call = S(t.calls[U(call)].after)
    return count


@kernel
def _link(t: Tables, calls: NDArray[np.int32]) -> None:
    """Link calls into the lists that their `state` names."""
    for at in range(U(len(calls))):
        call = S(calls[at])
        found = t.calls[U(call)]
        slot, which = S(found.slot), S(found.state)
        append(t, slot, call, which)
        if which < ORDER:
            add_call(t, slot, call)


# -- saved states ------------------------------------------------------------------------------


class FoldState(msgspec.Struct, frozen=True):
    """The state of one share of a source. A fold restores its share from the states of all."""

    hashes: NDArray[np.int64]
    """Of each connection: its share is the remainder of this."""
    memory: Saved
    pending: list[PendingEvents]

    def to_bytes(self) -> bytes:
        """Return the state in the file format."""
        return encode(_FOLD, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> FoldState:
        """Return what `to_bytes` was given. Raises StateError, which is a ValueError."""
        return decode(_FOLD, data, cls)

    def check(self) -> None:
        """Raise StateError when a number is out of range."""
        check(len(self.hashes) == self.memory.connections.num_rows, "hashes")


class TunnelState(msgspec.Struct, frozen=True):
    """What the fold of one share of the tunnels remembers."""

    share: int
    shares: int
    memory: Saved
    rows: pa.RecordBatch
    ended: int
    """How many tunnels ever ended."""
    closed_links: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """Return the state in the file format."""
        return encode(_TUNNELS, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> TunnelState:
        """Return what `to_bytes` was given. Raises StateError, which is a ValueError."""
        return decode(_TUNNELS, data, cls)

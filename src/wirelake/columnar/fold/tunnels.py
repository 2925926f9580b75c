"""Folds the messages in tunnels into tables, over all links that carry them.

fold = TunnelFold(share=0, shares=1, state=state)
fold.feed(batches)                  of `_tunnel_events`: all of one step at once
for table, batch in fold.take():    final rows of `tunnels`, and of `calls` in tunnels
    ...
state = fold.save()
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.engine import EngineLimits
from wirelake.records.schema import schema

from ..decode.meaning import Coded
from ..state_format import StateError, batch_of, check, records_of
from . import event_arrays as k
from .calls import STILL_OPEN
from .event_builder import id_hash
from .memory import Memory
from .output import calls_batch, integers
from .state import TunnelState
from .tables import NO, NOTHING
from .tunnel_events import tunnel_arrays
from .tunnel_kernels import (
    OUTCOMES,
    TUNNEL_RECORD,
    TUNNEL_TIMES,
    Tunnels,
    end_all_calls,
    fold_tunnels,
    forget_tunnels,
)

__all__ = ["TunnelFold", "tunnel_hash"]

_SCHEMA: Final = schema("tunnels")
_LIMITS: Final = EngineLimits()
_MORE: Final = 1_024
"""Records added when a kernel runs out of room."""
_LOST, _OPEN = OUTCOMES.index("lost"), OUTCOMES.index("open")
_ENDS: Final = ("gateway", "server")
_HALVES: Final = ("user_high", "user_low")
_BLANK: Final = np.zeros(1, TUNNEL_RECORD)
for _name in (*TUNNEL_TIMES, "first_link", "last_link"):
    _BLANK[_name] = NOTHING
for _name in ("outcome", "closed_by", "user_port"):
    _BLANK[_name] = NO

Records = NDArray[Any]


def tunnel_hash(connection: int) -> int:
    """Return a hash of a tunnel's connection id; its share is the remainder."""
    return id_hash(connection)


class TunnelFold:
    """Folds the tunnels of one share; `state` is what the fold of this share has saved."""

    def __init__(self, share: int = 0, shares: int = 1, state: bytes | None = None):
        self._share, self._shares = share, shares
        self._memory = Memory()
        self._rows = np.empty(0, TUNNEL_RECORD)
        self._final = np.empty(_MORE, TUNNEL_RECORD)
        self._counts = np.zeros(2, np.int64)
        self._taken: list[Records] = []
        self._closed_links = np.empty(0, np.int64)
        if state is not None:
            self._restore(state)

    def feed(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows of `_tunnel_events`, in any order; those of later calls are later."""
        arrays = tunnel_arrays(batches, self._memory.texts, self._share, self._shares)
        reached = 0
        while reached < len(arrays.order):
            self._make_room()
            reached = fold_tunnels(self._memory.tables(), self.records(), arrays, reached)
        closed = arrays.wide[k.KEY, arrays.order[arrays.narrow[k.KIND, arrays.order] == k.END]]
        self._closed_links = _distinct([self._closed_links, closed])[-_LIMITS.connections :]
        self._give_up()

    def take(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what became final since the last call."""
        calls = self._memory.take_calls()
        if len(calls):
            yield "calls", calls_batch(calls, self._memory.texts)
        tunnels = np.concatenate([*self._taken, self._final[: self._counts[0]]])
        self._counts[0], self._taken = 0, []
        if len(tunnels):
            yield "tunnels", _tunnels_batch(tunnels, self._closed_links)
        self._memory.tidy()

    def save(self) -> bytes:
        """Return the state, when everything final was taken. Changes nothing."""
        slots = self._memory.live_slots
        return TunnelState(
            share=self._share,
            shares=self._shares,
            memory=self._memory.save(),
            rows=batch_of(self._rows, slots),
            ended=int(self._counts[1]),
            closed_links=self._closed_links,
        ).to_bytes()

    def finish(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield what would be final if the input ended here; the fold cannot be used afterwards."""
        end_all_calls(self._memory.tables(), self._memory.live_slots, STILL_OPEN, NO)
        self._taken.append(self._rows[self._rows["used"] == 1])
        yield from self.take()

    # -- what is remembered ------------------------------------------------------------------

    def records(self) -> Tunnels:
        """Return the arrays for kernels."""
        return Tunnels(self._rows, self._final, _BLANK, self._counts)

    def _make_room(self) -> None:
        self._memory.reserve(_MORE, _MORE)
        missing = self._memory.slots - len(self._rows)
        self._rows = np.concatenate([self._rows, np.repeat(_BLANK, missing)])
        if self._counts[0] == len(self._final):
            self._final = np.concatenate([self._final, np.empty_like(self._final)])

    def _give_up(self) -> None:
        """Give up the oldest tunnels when there are too many."""
        known = np.flatnonzero(self._rows["used"])
        ended = self._rows["outcome"][known] >= 0
        for slots, limit in (
            (known[ended], _LIMITS.closed_tunnels),
            (known[~ended], _LIMITS.tunnels),
        ):
            if len(slots) > limit:
                oldest = slots[np.argsort(self._rows["ended"][slots], kind="stable")[:-limit]]
                self._taken.append(self._rows[oldest])
                forget_tunnels(self._memory.tables(), self.records(), oldest.astype(np.int32))

    def _restore(self, state: bytes) -> None:
        saved = TunnelState.from_bytes(state)
        if (saved.share, saved.shares) != (self._share, self._shares):
            raise StateError(
                f"expected the state of share {self._share} of {self._shares},"
                f" found share {saved.share} of {saved.shares}"
            )
        rows = records_of(saved.rows, TUNNEL_RECORD)
        check(len(rows) == saved.memory.connections.num_rows, "tunnels")
        check(np.all((rows["outcome"] >= NO) & (rows["outcome"] < len(OUTCOMES))), "outcome")
        check(np.all((rows["closed_by"] >= NO) & (rows["closed_by"] < len(_ENDS))), "closed_by")
        [slots] = self._memory.restore([(saved.memory, np.ones(len(rows), np.bool_))])
        self._make_room()
        self._rows[slots] = rows
        self._counts[1] = saved.ended
        self._closed_links = saved.closed_links


def _distinct(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the distinct numbers of several parts, in the order of first occurrence."""
    joined = np.concatenate(parts)
    _, firsts = np.unique(joined, return_index=True)
    return joined[np.sort(firsts)]


def _tunnels_batch(tunnels: Records, closed_links: NDArray[np.int64]) -> pa.RecordBatch:
    """Return tunnels as rows; one that has not ended is lost with its link, or open."""
    open_still = np.where(np.isin(tunnels["last_link"], closed_links), _LOST, _OPEN)
    outcome = np.where(tunnels["outcome"] < 0, open_still, tunnels["outcome"])
    unnamed = tunnels["named"] == 0
    made = {
        "instance_id": integers(tunnels["instance_id"], unnamed),
        "tunnel_id": integers(tunnels["tunnel_id"], unnamed),
        "outcome": Coded(outcome.astype(np.int32), OUTCOMES).array(),
        "user_address": pa.array(map(_address, tunnels), pa.string()),
        "user_port": integers(tunnels["user_port"], tunnels["user_port"] == NO),
        "closed_by": Coded(tunnels["closed_by"].astype(np.int32), _ENDS).array(),
    }
    arrays = [
        made[field.name]
        if field.name in made
        else integers(np.ascontiguousarray(tunnels[field.name]))
        for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _address(tunnel: Any) -> str | None:
    """Return the user's address as text."""
    halves = (int(tunnel[name]).to_bytes(8, "big", signed=True) for name in _HALVES)
    packed_address = b"".join(halves)
    match int(tunnel["user_family"]):
        case 4:
            return str(ipaddress.IPv4Address(packed_address[-4:]))
        case 6:
            return str(ipaddress.IPv6Address(packed_address))
        case _:
            return None

"""What messages in tunnels come to, over all links that carry them.

fold = TunnelFold(share=0, shares=1, state=state)
fold.feed(batches)                  of `_tunnel_events`: all of one step at once
for table, batch in fold.take():    final rows of `tunnels`, and of `calls` in tunnels
    ...
state = fold.save()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from wirehouse.records.batches import batch_from_rows
from wirehouse.records.calls import CallsEngine
from wirehouse.records.crossing import CROSSING
from wirehouse.records.engine import tell
from wirehouse.records.rows import Closed, Event, FaultRow
from wirehouse.records.tunnels import TunnelsEngine

from ..window_rows import BATCH_ROWS
from .hashing import id_hash
from .state import packed, unpacked
from .tunnel_events import events_of

__all__ = ["TunnelFold", "tunnel_hash"]

_State: TypeAlias = tuple[dict[str, Any], dict[str, Any], set[int]]
"""Of calls, of tunnels, and links with a fault."""
_ORDER = [(name, "ascending") for name in ("ts_ns", "rank", "link", "number")]


def tunnel_hash(connection: int) -> int:
    """32 bits of a tunnel's connection id: its remainder by the shares is its share."""
    return id_hash(connection)


class TunnelFold:
    """Folds the tunnels of one share; restored from the states of all shares before."""

    def __init__(
        self, share: int = 0, shares: int = 1, state: bytes | Sequence[bytes] | None = None
    ):
        self._share, self._shares = share, shares
        self._calls = CallsEngine()
        self._tunnels = TunnelsEngine()
        self._broken: set[int] = set()
        """Links with a fault."""
        states = [state] if isinstance(state, bytes) else state or ()
        if states:
            self._restore([unpacked(each) for each in states])

    def feed(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Takes rows of `_tunnel_events`, in any order; those of later calls are later."""
        table = pa.Table.from_batches(batches, schema=CROSSING["_tunnel_events"])
        for batch in table.sort_by(_ORDER).to_batches(max_chunksize=BATCH_ROWS):
            for tunnel, event in events_of(batch):
                if tunnel is None or self._is_mine(tunnel):
                    self._notice(event)
                    tell(self._calls, event)
                    tell(self._tunnels, event)

    def take(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What became final since the last call."""
        for table, rows in (
            ("calls", self._calls.take()),
            ("tunnels", self._tunnels.take()),
        ):
            for start in range(0, len(rows), BATCH_ROWS):
                yield table, batch_from_rows(table, rows[start : start + BATCH_ROWS])

    def save(self) -> bytes:
        """All that is remembered. To be called when everything is taken."""
        return packed((self._calls.state(), self._tunnels.state(), self._broken))

    def finish(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields what would be, if the input ended here; the fold is spent afterwards."""
        self._calls.finish()
        self._tunnels.finish()
        yield from self.take()

    def _is_mine(self, tunnel: int) -> bool:
        return tunnel_hash(tunnel) % self._shares == self._share

    def _notice(self, event: Event) -> None:
        match event:
            case FaultRow():
                self._broken.add(event.connection)
            case Closed():
                self._broken.discard(event.connection)

    def _restore(self, states: Sequence[_State]) -> None:
        """What is known of tunnels is in the state of their share, of links in that of each."""
        calls, tunnels = self._calls.state(), self._tunnels.state()
        doubts: dict[int, Any] = {}
        for found, others, broken in states:
            self._broken |= broken
            calls["sides"] += [each for each in found["sides"] if self._is_mine(each["connection"])]
            calls["clients"] += [each for each in found["clients"] if self._is_mine(each[0])]
            for each in found["doubts"]:
                if each["connection"] in broken or self._is_mine(each["connection"]):
                    doubts[each["connection"]] = each
            calls["links"] += found["links"]
            calls["gave_up"] |= found["gave_up"]
            for name in ("open", "over"):
                tunnels[name] += [
                    each for each in others[name] if self._is_mine(each["connection"])
                ]
            tunnels["closed_links"] += others["closed_links"]
        calls["doubts"] = list(doubts.values())
        self._calls.restore(calls)
        self._tunnels.restore(tunnels)

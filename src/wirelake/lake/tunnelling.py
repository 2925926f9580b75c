"""The second stage of a step: tunnels, and the calls in them, in a worker.

Messages of one tunnel may come over several links, and links are connections of any share of any
source. So what happens in tunnels is written as events in the first stage, and folded here by
tunnel, in the order of time.

Sources do not come equally far in a step. Events count for good only up to a time that all sources
have passed. Those that are later *wait*: each share keeps them in a file of its own, from step to
step, and folds them together with the provisional ones, for rows that are provisional.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from wirelake.columnar.fold import TunnelFold
from wirelake.tables.entries import AddedFile

from .outputs import Outputs
from .tunnel_events import EventFiles

__all__ = ["EVENTS", "SHARES", "STATE", "TunnelTask", "Tunnelled", "tunnel"]

EVENTS: Final = "_tunnel_events"
"""The table of what happens in tunnels. Files of a share wait, those of sources are provisional."""
STATE: Final = "_tunnel_fold"
"""The table of states: one file for each share of the tunnels."""
SHARES: Final = 4
"""How many tasks there are, in every lake: state is not divided anew."""


class TunnelTask(msgspec.Struct, frozen=True, kw_only=True):
    """What one task does."""

    share: int
    waiting: tuple[str, ...]
    """Files of events of this share that have waited."""
    final: tuple[str, ...]
    """Files of events that have happened, of all shares."""
    provisional: tuple[str, ...]
    """Files of events that would happen, if the input ended here."""
    until_ns: int
    """Events up to this time count for good, later ones wait."""
    state: str | None
    work: str
    tables: tuple[str, ...]
    """The tables that are kept."""


class Tunnelled(msgspec.Struct, frozen=True, kw_only=True):
    """What a task says when it is done."""

    share: int
    written: list[AddedFile]


def tunnel(task: TunnelTask) -> Tunnelled:
    """Does the task."""
    before = None if task.state is None else Path(task.state).read_bytes()
    fold = TunnelFold(share=task.share, shares=SHARES, state=before)
    happened = EventFiles([*task.waiting, *task.final], task.share, SHARES)
    every = EventFiles([*task.waiting, *task.final, *task.provisional], task.share, SHARES)
    with Outputs(task.work, frozenset({*task.tables, EVENTS})) as outputs:
        for events in happened.until(task.until_ns):
            _fold(fold, events, outputs)
        outputs.state(STATE, fold.save())
        _wait(happened, task.until_ns, outputs)
        outputs.provisional = True
        for events in every.after(task.until_ns, late=task.provisional):
            _fold(fold, events, outputs)
        for table, batch in fold.finish():
            outputs.write(table, batch)
        return Tunnelled(share=task.share, written=outputs.close())


def _fold(fold: TunnelFold, events: pa.Table, outputs: Outputs) -> None:
    fold.feed(events.to_batches())
    for table, batch in fold.take():
        outputs.write(table, batch)


def _wait(happened: EventFiles, until_ns: int, outputs: Outputs) -> None:
    """Writes what waits, in its order, and numbers it so."""
    written = 0
    for events in happened.after(until_ns):
        numbers = pa.array(np.arange(written, written + len(events)))
        at = events.schema.get_field_index("number")
        numbered = events.set_column(at, events.schema.field(at), numbers)
        for batch in numbered.to_batches():
            outputs.write(EVENTS, batch)
        written += len(events)

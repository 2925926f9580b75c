"""The second stage of a step: tunnels, and the calls in them, in a worker.

Messages of one tunnel may come over several links, and links are connections of any share. So what
happens in tunnels is written as events in the first stage, and folded here by tunnel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from wirehouse.columnar.fold import TunnelFold
from wirehouse.tables.entries import AddedFile

from .outputs import Outputs

__all__ = ["EVENTS", "SHARES", "STATE", "TunnelTask", "Tunnelled", "tunnel"]

EVENTS: Final = "_tunnel_events"
"""The table of what happens in tunnels."""
STATE: Final = "_tunnel_fold"
"""The table of states: one file for each share of the tunnels."""
SHARES: Final = 4
"""How many tasks there are, in every lake: state is not divided anew."""


class TunnelTask(msgspec.Struct, frozen=True, kw_only=True):
    """What one task does."""

    share: int
    final: tuple[str, ...]
    """Files of events that have happened."""
    provisional: tuple[str, ...]
    """Files of events that would happen, if the input ended here."""
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
    with Outputs(task.work, frozenset(task.tables)) as outputs:
        _feed(fold, task.final)
        for table, batch in fold.take():
            outputs.write(table, batch)
        outputs.state(STATE, fold.save())
        outputs.provisional = True
        _feed(fold, task.provisional)
        for table, batch in fold.take():
            outputs.write(table, batch)
        for table, batch in fold.finish():
            outputs.write(table, batch)
        return Tunnelled(share=task.share, written=outputs.close())


def _feed(fold: TunnelFold, files: tuple[str, ...]) -> None:
    fold.feed([batch for path in files for batch in pq.ParquetFile(path).iter_batches(65_536)])

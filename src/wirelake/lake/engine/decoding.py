"""The first stage of a step: captures to tables, in a worker.

A task has a share of the connections of one source. It goes on from the state that the last step
left, whatever number of shares that step had, writes what is final, its own state, and then, marked
as provisional, what there would be if the source ended here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from wirelake.columnar.fold import Fold, FoldState
from wirelake.columnar.pipeline.pipeline import CapturePipeline, Item
from wirelake.columnar.pipeline.state import PipelineState
from wirelake.tables.entries import AddedFile

from .outputs import Outputs
from .settings import Settings, written_tables
from .watermarks import Latest

__all__ = ["FOLDED", "NO_ROOM", "STATE", "DecodeTask", "Decoded", "Failure", "decode"]

STATE: Final = "_fold"
"""The table of states: one file for each share of each source."""
FOLDED: Final = frozenset(
    {"calls", "connections", "deliveries", "tunnels", "latency_minutes", "error_minutes"}
)
"""Tables for which messages are folded, not only decoded."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk that is full, or of what one may have of it."""
_CONNECTIONS: Final = "_connections"
"""Rows of connections that lack what only all connections together tell."""


class DecodeTask(msgspec.Struct, frozen=True, kw_only=True):
    """What one task does."""

    source: str
    files: tuple[str, ...]
    share: int
    shares: int
    states: tuple[str, ...]
    """Files with the states of all shares of the last step."""
    work: str
    """A folder for what is written."""
    settings: Settings
    keys: tuple[str, ...] = ()
    window_bytes: int | None = None


class Failure(msgspec.Struct, frozen=True):
    """Why a task could not be done, for a person, and the file that is to blame, if one is."""

    text: str
    path: str | None = None
    code: str | None = None


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """What a task says when it is done."""

    source: str
    share: int
    shares: int
    written: list[AddedFile] = []
    latest: list[int] = []
    """The latest times of messages; see `wirelake.lake.engine.watermarks`."""
    failure: Failure | None = None


def decode(task: DecodeTask) -> Decoded:
    """Does the task. Files that cannot be read, and a full disk, are told, not raised."""
    unreadable = next(filter(None, map(_unreadable, task.files)), None)
    if unreadable is not None:
        return _failed(task, unreadable)
    latest = Latest()
    try:
        with Outputs(task.work, written_tables(task.settings.tables)) as outputs:
            _decode(task, outputs, latest)
            written = outputs.close()
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return _failed(task, Failure(f"cannot write to {task.work}: {os.strerror(error.errno)}"))
    return Decoded(
        source=task.source,
        share=task.share,
        shares=task.shares,
        written=written,
        latest=latest.times,
    )


def _failed(task: DecodeTask, failure: Failure) -> Decoded:
    return Decoded(source=task.source, share=task.share, shares=task.shares, failure=failure)


def _unreadable(path: str) -> Failure | None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except FileNotFoundError:
        return Failure(f"{path} is gone", path, "vanished_file")
    except OSError as error:
        return Failure(f"{path} cannot be read: {error.strerror}", path, "unreadable_file")
    return None


def _decode(task: DecodeTask, outputs: Outputs, latest: Latest) -> None:
    before = [_load(path) for path in task.states]
    settings = task.settings
    folds = not FOLDED.isdisjoint(settings.tables)
    options = {} if task.window_bytes is None else {"window_bytes": task.window_bytes}
    pipeline = CapturePipeline(
        task.files,
        tables=("messages", "faults", "coverage", *(("facts", "connections") if folds else ())),
        ports=settings.ports,
        force_protocol=settings.force_protocol,
        keys=task.keys,
        dialects=settings.dialects,
        reveal=settings.reveal,
        share=task.share,
        shares=task.shares,
        state=[pipeline for pipeline, _ in before],
        all_facts=True,
        **options,
    )
    fold = (
        Fold(
            share=task.share,
            shares=task.shares,
            state=[state for _, state in before if state is not None],
        )
        if folds
        else None
    )
    for window in pipeline.windows(last=False):
        _write(outputs, window, fold, latest)
    saved = pipeline.save()
    outputs.state(STATE, _packed(saved, None if fold is None else fold.save(saved.hashes())))
    outputs.provisional = True
    for window in pipeline.end():
        _write(outputs, window, fold, latest)
    if fold is not None:
        _write_all(outputs, fold.finish())


def _write(outputs: Outputs, window: Iterable[Item], fold: Fold | None, latest: Latest) -> None:
    items = _passed(outputs, window, latest)
    if fold is not None:
        _write_all(outputs, fold.window(items))
    for _ in items:
        pass


def _write_all(outputs: Outputs, batches: Iterable[tuple[str, pa.RecordBatch]]) -> None:
    for table, batch in batches:
        outputs.write(_CONNECTIONS if table == "connections" else table, batch)


def _passed(outputs: Outputs, window: Iterable[Item], latest: Latest) -> Iterator[Item]:
    """The items of a window; batches of tables are written on their way."""
    for table, found in window:
        if isinstance(found, pa.RecordBatch):
            outputs.write(table, found)
            if table == "messages":
                latest.see(found)
        yield table, found


def _packed(pipeline: PipelineState, fold: FoldState | None) -> bytes:
    return msgspec.msgpack.encode((pipeline.to_bytes(), None if fold is None else fold.to_bytes()))


def _load(path: str) -> tuple[PipelineState, FoldState | None]:
    """A state that an earlier step wrote. It holds pickles: the lake's folder is to be trusted."""
    pipeline, fold = msgspec.msgpack.decode(
        Path(path).read_bytes(), type=tuple[bytes, bytes | None]
    )
    folded = None if fold is None else FoldState.from_bytes(fold)
    return PipelineState.from_bytes(pipeline), folded

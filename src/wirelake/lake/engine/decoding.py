"""The first stage of a step: decode the captures of a source, in a worker.

A task has a share of the connections of one source. It continues from the state of the last step,
whatever the number of shares then, and writes final rows, its own state, and provisional rows: what
the tables would also contain if the source ended here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from wirelake.columnar.fold import Fold, FoldState
from wirelake.columnar.pipeline.pipeline import CapturePipeline, Item
from wirelake.columnar.pipeline.state import PipelineState
from wirelake.columnar.state_format import NewerStateError, StateError, check_header
from wirelake.columnar.state_format import decode as decode_state
from wirelake.columnar.state_format import encode as encode_state
from wirelake.tables.names import contents, is_time
from wirelake.tables.parquet import check_file
from wirelake.tables.paths import DamagedError, is_public
from wirelake.tables.snapshot import AddedFile
from wirelake.tables.writer import Writer

from .settings import Settings, written_tables
from .step import Outputs
from .watermarks import Latest

__all__ = [
    "FOLDED",
    "STATE",
    "DecodeTask",
    "Decoded",
    "Failure",
    "check_states",
    "decode",
]

STATE: Final = "_fold"
"""The table of states: one file for each share of each source."""
FOLDED: Final = frozenset(
    {"calls", "connections", "deliveries", "tunnels", "latency_minutes", "error_minutes"}
)
"""Tables for which messages are folded, not only decoded."""
_KIND: Final = "source"
_HEADER_BYTES: Final = 64
"""Enough for the header of any state, old ones included."""
_CONNECTIONS: Final = "_connections"
"""Rows of connections without `previous_connection`."""


class SourceState(msgspec.Struct, frozen=True):
    """What a task leaves for the next step: a file of the table `_fold`."""

    pipeline: PipelineState
    fold: FoldState | None


class DecodeTask(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a task."""

    source: str
    files: tuple[str, ...]
    sequences: tuple[int, ...]
    """Sequence numbers of the files."""
    share: int
    shares: int
    states: tuple[str, ...]
    """Files with the states of all shares of the last step."""
    work: str
    """A folder for output files."""
    settings: Settings
    keys: tuple[str, ...] = ()
    window_bytes: int | None = None


class Failure(msgspec.Struct, frozen=True):
    """Why a task failed: an unreadable capture, or the state of an earlier step (no path)."""

    text: str
    path: str | None = None
    code: str | None = None


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task."""

    source: str
    share: int
    shares: int
    written: list[AddedFile] = []
    latest: list[int] = []
    """The latest times of messages; see `wirelake.lake.engine.watermarks`."""
    waiting_ns: int | None = None
    """Since when events wait for a later step; None if none do."""
    failure: Failure | None = None


def decode(task: DecodeTask) -> Decoded:
    """Decode files. An unreadable file or state is returned as a failure, not raised."""
    unreadable = next(filter(None, map(_unreadable, task.files)), None)
    if unreadable is not None:
        return _failed(task, unreadable)
    latest = Latest()
    try:
        with Outputs(task.work, written_tables(task.settings.tables)) as outputs:
            state, waiting_ns = _decode(task, outputs, latest)
            written = [state, *outputs.close()]
    except StateError as error:
        return _failed(task, Failure(unusable(error)))
    overwritten = next(filter(None, map(_overwritten, task.files, task.sequences)), None)
    if overwritten is not None:
        return _failed(task, overwritten)
    return Decoded(
        source=task.source,
        share=task.share,
        shares=task.shares,
        written=written,
        latest=latest.times,
        waiting_ns=waiting_ns,
    )


def _failed(task: DecodeTask, failure: Failure) -> Decoded:
    return Decoded(source=task.source, share=task.share, shares=task.shares, failure=failure)


def _unreadable(path: str) -> Failure | None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except FileNotFoundError:
        return Failure(f"{path} does not exist", path, "vanished_file")
    except OSError as error:
        return Failure(f"cannot read {path}: {error.strerror}", path, "unreadable_file")
    return None


def _overwritten(path: str, sequence: int) -> Failure | None:
    """Return a failure if a file has other contents than those that were admitted.

    A ring buffer of tcpdump writes its oldest file again, perhaps while it is read.
    """
    if not is_time(sequence):
        return None
    try:
        begins = contents(path, os.stat(path).st_mtime_ns).begin_ns
    except OSError:
        begins = None
    return None if begins == sequence else Failure(f"{path} was replaced", path, "vanished_file")


def _decode(task: DecodeTask, outputs: Outputs, latest: Latest) -> tuple[AddedFile, int | None]:
    """Write the tables; return the state, and since when events wait."""
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
        state=[each.pipeline for each in before],
        # A fact about a publish names no connection, so it belongs to no share: all get it, and
        # the fold of share 0 writes it.
        all_facts=True,
        **options,
    )
    fold = (
        Fold(
            share=task.share,
            shares=task.shares,
            state=[each.fold for each in before if each.fold is not None],
        )
        if folds
        else None
    )
    for window in pipeline.windows(last=False):
        _write(outputs, window, fold, latest)
    # Saved before the end is assumed: the next step continues here, and what follows is
    # provisional.
    waiting_ns = latest.waiting_ns
    saved = pipeline.save()
    folded = None if fold is None else fold.save(saved.hashes())
    state = outputs.state(STATE, encode_state(_KIND, SourceState(saved, folded)))
    outputs.provisional = True
    for window in pipeline.end():
        _write(outputs, window, fold, latest)
    if fold is not None:
        _write_all(outputs, fold.finish())
    return state, waiting_ns


def _write(outputs: Outputs, window: Iterable[Item], fold: Fold | None, latest: Latest) -> None:
    items = _written(outputs, window, latest)
    if fold is not None:
        _write_all(outputs, fold.window(items))
    # Batches are written when they are drawn: this draws what the fold left, or all without one.
    for _ in items:
        pass


def _write_all(outputs: Outputs, batches: Iterable[tuple[str, pa.RecordBatch]]) -> None:
    for table, batch in batches:
        outputs.write(_CONNECTIONS if table == "connections" else table, batch)


def _written(outputs: Outputs, window: Iterable[Item], latest: Latest) -> Iterator[Item]:
    """Pass on the items of a window, and write its batches."""
    for table, found in window:
        if isinstance(found, pa.RecordBatch):
            outputs.write(table, found)
            if table == "messages":
                latest.add(found)
        elif table == "waiting":
            latest.waiting_ns = min(dict(found).values(), default=None)
        yield table, found


def _load(path: str) -> SourceState:
    """Read a state that an earlier step wrote. Raises StateError, which names the file."""
    try:
        return decode_state(_KIND, Path(path).read_bytes(), SourceState)
    except StateError as error:
        raise type(error)(f"{path}: {error}") from None


def check_states(writer: Writer) -> None:
    """Check that the state of a lake is whole and of this version. Raises LakeError.

    A run calls it before it starts Spark. Otherwise the first task would find out: seconds later,
    with the traceback of a worker, and in a stream not before the first capture arrives.
    """
    states = [file for file in writer.snapshot.all_files() if not is_public(file.table)]
    for file in sorted(states, key=lambda file: file.path):
        path = writer.layout.resolve(file.path, writer.snapshot)
        try:
            if path.suffix == ".state":
                with path.open("rb") as state:
                    check_header(state.read(_HEADER_BYTES))
            check_file(file, path)
        except StateError as error:
            raise DamagedError(unusable(type(error)(f"{path}: {error}"))) from None
        except DamagedError as error:
            raise DamagedError(unusable(StateError(str(error)))) from None


def unusable(error: StateError) -> str:
    """Return what to do about a state that cannot be continued from, in one line.

    The tables of such a lake stay readable; only a new lake can take more captures.
    """
    if isinstance(error, NewerStateError):
        return str(error)
    return (
        f"{error}; rebuild the lake from its captures:"
        " wirelake lake run --from CAPTURES --to NEW_LAKE"
    )

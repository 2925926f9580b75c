"""Checks that the log of a lake is consistent and matches its files.

    for problem in check("lake"):
        print(problem)

Nothing is changed. `wirelake lake verify` also compares the tables with the captures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .log import Log
from .parquet import batches, file_checksum, stats
from .paths import DamagedError, LakeError, Layout
from .snapshot import AddedFile, Snapshot, read_checkpoint, read_record

__all__ = ["Problem", "check"]

_SUMS = (
    ("payload_bytes", ("new_bytes", "duplicate_bytes")),
    ("span_bytes", ("new_bytes", "gap_bytes")),
    ("new_bytes", ("decoded_bytes", "faulty_bytes", "undecryptable_bytes", "ignored_bytes")),
)
"""Columns of `coverage`, and the columns that must add up to them in each row."""


class Problem(msgspec.Struct, frozen=True):
    """An inconsistency."""

    code: str
    """One of missing_file, wrong_size, wrong_checksum, wrong_rows, damaged_file, orphan, hole,
    damaged_log, order, coverage, provisional, checkpoint."""
    where: str
    detail: str
    harmless: bool = False
    """True for files that no record lists: they only take space."""

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}"


def check(root: str | os.PathLike[str]) -> list[Problem]:
    """Return all problems of a lake. Raises LakeError if there is no lake, or a newer one."""
    log = Log(root)
    problems = list(_log_problems(log))
    try:
        snapshot = log.snapshot()
    except LakeError:
        if not problems:
            raise
        return problems
    problems += _checkpoint_problems(log)
    problems += _order_problems(snapshot)
    problems += _provisional_problems(log, snapshot)
    broken = list(_file_problems(log.layout, snapshot))
    problems += broken
    if not any(each.where.startswith("coverage/") for each in broken):
        problems += _coverage_problems(log.layout.root)
    problems += _orphans(log.layout, snapshot)
    return problems


# -- the log -----------------------------------------------------------------------------------


def _log_problems(log: Log) -> Iterator[Problem]:
    """Yield missing and unreadable records."""
    records, checkpoints = log.layout.logged()
    if not records:
        return
    known = set(records)
    for number in range(records[0], records[-1]):
        if number not in known:
            yield _log_problem("hole", log.layout.record(number), "missing")
    if records[0] > 0 and not any(each >= records[0] - 1 for each in checkpoints):
        yield _log_problem("hole", log.layout.record(records[0] - 1), "missing")
    for number in records:
        path = log.layout.record(number)
        try:
            record = read_record(path)
        except DamagedError:
            yield _log_problem("damaged_log", path, "unreadable; restore it from a backup")
            continue
        if record.commit != number:
            yield _log_problem("damaged_log", path, f"contains commit {record.commit}")


def _log_problem(code: str, path: Path, detail: str) -> Problem:
    return Problem(code, f"_log/{path.name}", detail)


def _contents(snapshot: Snapshot) -> tuple[object, ...]:
    """Return the contents of a snapshot, without empty tables."""
    # A table whose files were all removed is an empty dict when records are applied one by one,
    # and does not occur in a checkpoint.
    files = {table: list(files.values()) for table, files in snapshot.tables.items() if files}
    inputs = {source: each.inputs for source, each in snapshot.sources.items()}
    return files, inputs, snapshot.settings


def _checkpoint_problems(log: Log) -> Iterator[Problem]:
    """Yield checkpoints that are unreadable or differ from the records."""
    # One replay serves all checkpoints: they are sorted, and each continues where the last stopped.
    records, checkpoints = log.layout.logged()
    replayed = Snapshot()
    for number in checkpoints:
        path = log.layout.checkpoint(number)
        try:
            checkpoint = read_checkpoint(path)
        except DamagedError:
            yield _log_problem("checkpoint", path, "unreadable; delete it")
            continue
        if records[: number + 1] != list(range(number + 1)):
            continue  # some of its records have expired
        for at in range(replayed.commit + 1, number + 1):
            replayed.apply(read_record(log.layout.record(at)))
        if _contents(Snapshot.from_checkpoint(checkpoint)) != _contents(replayed):
            yield _log_problem("checkpoint", path, "differs from the records; delete it")


def _order_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Yield inputs that were read out of order."""
    for name, source in snapshot.sources.items():
        last: int | None = None
        for each in source.inputs:
            if each.fault == "late_file":
                continue
            if last is not None and each.sequence <= last:
                detail = f"sequence {each.sequence} was read after {last}"
                yield Problem("order", name or each.name, detail)
            last = each.sequence


def _provisional_problems(log: Log, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield provisional files that the last step of their source should have replaced."""
    steps: dict[str, int] = {}
    for number in log.layout.logged()[0]:
        for each in read_record(log.layout.record(number)).inputs:
            if each.fault != "late_file":
                steps[each.source] = number
    for file in snapshot.all_files():
        last = -1 if file.source is None else steps.get(file.source, -1)
        if file.provisional and file.commit < last:
            detail = f"still provisional after commit {last} of source {file.source}"
            yield Problem("provisional", file.path, detail)


# -- files -------------------------------------------------------------------------------------


def _file_problems(layout: Layout, snapshot: Snapshot) -> Iterator[Problem]:
    for file in snapshot.all_files():
        try:
            path = layout.resolve(file.path, snapshot)
        except LakeError:
            yield Problem("missing_file", file.path, "missing; the log lists this file")
            continue
        size = path.stat().st_size
        if size != file.bytes:
            detail = f"{size:,} bytes; the log has {file.bytes:,}"
            yield Problem("wrong_size", file.path, detail)
        # Files of log format 1 have none; what they contain is only compared with the captures.
        elif file.checksum is not None and file_checksum(path) != file.checksum:
            detail = "damaged: its checksum differs from the log; restore it from a backup"
            yield Problem("wrong_checksum", file.path, detail)
        elif path.suffix == ".parquet":
            yield from _parquet_problems(file, path)


def _parquet_problems(file: AddedFile, path: Path) -> Iterator[Problem]:
    try:
        known = stats(path)
    except (pa.ArrowException, OSError) as error:
        yield Problem("damaged_file", file.path, f"not a Parquet file: {error}")
        return
    if known.rows != file.rows:
        detail = f"{known.rows:,} rows; the log has {file.rows:,}"
        yield Problem("wrong_rows", file.path, detail)


def _coverage_problems(root: Path) -> Iterator[Problem]:
    """Yield streams whose bytes do not add up."""
    columns = ["connection", *{name: None for total, parts in _SUMS for name in (total, *parts)}]
    for batch in batches(root, "coverage", columns=columns):
        for total, parts in _SUMS:
            added = batch.column(parts[0])
            for part in parts[1:]:
                added = pc.add(added, batch.column(part))
            wrong = pc.filter(batch.column("connection"), pc.not_equal(added, batch.column(total)))
            for connection in wrong.unique().to_pylist():
                detail = f"{total} of connection {connection} is not {' + '.join(parts)}"
                yield Problem("coverage", "coverage", detail)


def _orphans(layout: Layout, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield files that no record lists, which a killed run left. Removed files that readers may
    still need are not among them."""
    named = {each.path for each in snapshot.all_files()} | snapshot.removed.keys()
    for folder in sorted(layout.root.iterdir()):
        if not folder.is_dir() or folder in (layout.log, layout.staging):
            continue
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(layout.root).as_posix()
            if path.is_file() and name not in named:
                yield Problem("orphan", name, "no record lists this file", harmless=True)
    for path in sorted(layout.staging.iterdir()) if layout.staging.is_dir() else []:
        if path.name != snapshot.staging:
            name = path.relative_to(layout.root).as_posix()
            detail = "staging of an active or a killed run"
            yield Problem("orphan", name, detail, harmless=True)

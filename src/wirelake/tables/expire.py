"""Removes old data: files of tables, and records of the log.

    expire("lake", older_than_s=30 * 86_400)

A file is removed when all its rows are older. Old rows in a file with newer rows stay: rewriting
files would cost more than the space is worth. Provisional files and state stay, and so does the
list of consumed captures, so that none is read twice. Old records are deleted once a checkpoint
contains what they say.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from .cleanup import KEPT_COMMITS, KEPT_S
from .entries import Record, read_record, time_ns_of
from .errors import LakeError
from .paths import PUBLIC_TABLES, is_public
from .writer import Writer

__all__ = ["expire"]


def expire(
    root: str | os.PathLike[str],
    older_than_s: float,
    *,
    tables: Iterable[str] | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Record | None:
    """Remove old files; return the commit, or None if no file is that old."""
    if older_than_s <= 0:
        raise LakeError(f"invalid age {older_than_s:g} s; expected more than 0")
    chosen = frozenset(PUBLIC_TABLES if tables is None else tables)
    before_ns = clock() - int(older_than_s * 1e9)
    with Writer(root, clock=clock) as writer:
        record = _drop(writer, chosen, before_ns)
        _truncate_log(writer, min(before_ns, clock() - int(KEPT_S * 1e9)))
        return record


def _drop(writer: Writer, tables: frozenset[str], before_ns: int) -> Record | None:
    """Remove old files in one commit."""
    old = [
        each
        for each in writer.snapshot.all_files()
        if each.table in tables
        and is_public(each.table)
        and not each.provisional
        and each.max_ns is not None
        and each.max_ns < before_ns
    ]
    if not old:
        return None
    with writer.begin() as step:
        for each in old:
            step.remove(each.path)
        figures = {
            "before_ns": before_ns,
            "files": len(old),
            "rows": sum(each.rows for each in old),
            "bytes": sum(each.bytes for each in old),
        }
        return step.commit("expire", figures)


def _truncate_log(writer: Writer, before_ns: int) -> None:
    """Write a checkpoint, then delete older records and checkpoints."""
    layout, log = writer.layout, writer.log
    records, checkpoints = layout.logged()
    old = []
    for number in records[: -KEPT_COMMITS or None]:
        if time_ns_of(read_record(layout.record(number)).time) >= before_ns:
            break
        old.append(number)
    if not old:
        return
    last = writer.snapshot.commit
    writer.checkpoint()
    if log.snapshot().to_checkpoint() != writer.snapshot.to_checkpoint():
        raise LakeError(f"{layout.checkpoint(last)}: the new checkpoint differs from the records")
    for number in old:
        layout.record(number).unlink()
    for number in checkpoints:
        if number < last:
            layout.checkpoint(number).unlink()

"""Recovery after kills, and deletion of removed files.

A staging folder that a record names is moved to its place; any other is deleted. Files that a
commit removed are deleted after an hour and three commits, so that readers of an older snapshot can
finish.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wirelake.capture.format.writer import sync_folder

from .paths import Layout
from .snapshot import Record, Snapshot, read_record, time_ns_of

__all__ = [
    "KEPT_COMMITS",
    "KEPT_S",
    "delete_staging",
    "finish_staging",
    "forward",
    "record_of",
    "staged_tables",
    "sweep_removed",
]

KEPT_S: Final = 3_600.0
"""Minimum time that removed files stay on disk; longer than a reader should take."""
KEPT_COMMITS: Final = 3
"""Minimum commits that they stay as well: with one commit per day, an hour is not enough."""
_DELETING: Final = ".swept-"
"""Prefix of a staging folder that is being deleted."""


def staged_tables(record: Record) -> list[str]:
    """Return the tables that a record adds files to."""
    return list(dict.fromkeys(each.table for each in record.add))


def forward(
    layout: Layout, record: Record, on_step: Callable[[str], None], *, sync: bool = False
) -> None:
    """Move the files of a commit from staging to their final places. It may be repeated."""
    # A rename for each table instead of one for each file: a dozen of them, however large the
    # commit, and a reader finds all files of a table in one place or in the other.
    staging = layout.staging / record.staging
    for table in staged_tables(record):
        on_step(f"forward:{table}")
        source, target = staging / table, layout.root / table / str(record.commit)
        if not source.is_dir():
            continue  # moved by an earlier attempt
        target.parent.mkdir(exist_ok=True)
        try:
            source.rename(target)
        except OSError:  # the folder exists, for example after the log was restored
            if not target.is_dir():
                raise
            for each in sorted(source.iterdir()):
                each.replace(target / each.name)
            source.rmdir()
        if sync:
            sync_folder(target.parent)


def finish_staging(layout: Layout) -> None:
    """Finish commits that a kill interrupted, and delete staging that was not committed."""
    # Called with the lock, so unfinished records and checkpoints belong to dead writers.
    for path in layout.log.glob(".*.part"):
        path.unlink(missing_ok=True)
    if not layout.staging.is_dir():
        return
    for path in sorted(layout.staging.iterdir()):
        # A kill may have come after `_delete` renamed a folder and before it looked for the record.
        own = path.with_name(path.name.removeprefix(_DELETING))
        if (record := record_of(layout, own.name)) is not None:
            path.rename(own)
            forward(layout, record, lambda _: None)
            delete_staging(layout, record)
        else:
            _delete(layout, path)


def record_of(layout: Layout, staging: str) -> Record | None:
    """Return the record that names a staging folder; None if it was not committed."""
    number = staging.split("-", 1)[0]  # see `Transaction.id`
    if not number.isdecimal():
        return None
    try:
        record = read_record(layout.record(int(number)))
    except FileNotFoundError:
        return None
    return record if record.staging == staging else None


def delete_staging(layout: Layout, record: Record) -> None:
    """Delete the staging folder of a commit if all its tables are in place."""
    if all((layout.root / table / str(record.commit)).is_dir() for table in staged_tables(record)):
        shutil.rmtree(layout.staging / record.staging, ignore_errors=True)


def _delete(layout: Layout, path: Path) -> None:
    """Delete a staging folder that was not committed.

    On a file system without locks its owner may be alive and about to commit it. So the folder is
    renamed first, which makes the owner's `link` fail. If the owner was faster, it gets its name
    back.
    """
    own = path.with_name(path.name.removeprefix(_DELETING))
    swept = path.with_name(_DELETING + own.name)
    path.rename(swept)
    if record_of(layout, own.name) is not None:
        swept.rename(own)
    elif swept.is_dir():
        shutil.rmtree(swept, ignore_errors=True)
    else:
        swept.unlink()


def sweep_removed(
    layout: Layout,
    snapshot: Snapshot,
    now_ns: int,
    *,
    keep_s: float = KEPT_S,
    keep_commits: int = KEPT_COMMITS,
) -> int:
    """Delete files that were removed long enough ago; return the bytes freed."""
    freed = 0
    for each in list(snapshot.removed.values()):
        # Both bounds: by time for readers that take long, by commits for lakes that commit rarely
        # (`docs/concepts/lake.md`, *How a commit is made*).
        recent = now_ns - time_ns_of(each.time) < keep_s * 1e9
        if recent or snapshot.commit - each.commit < keep_commits:
            continue
        freed += _unlink(layout.place(each.path))
        del snapshot.removed[each.path]
    return freed


def _unlink(path: Path) -> int:
    """Delete a file, and its folder if that is empty; return its size."""
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    with contextlib.suppress(OSError):
        os.rmdir(path.parent)
    return size

"""What killed runs left, and what no longer counts: rolled forward, or deleted.

Staging that a record names is moved to its place; staging that no record names is deleted. Files
that a commit removed are deleted after an hour and three commits, so that a reader who began before
can finish.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wirelake.capture.format.output import sync_folder

from .entries import (
    Record,
    read_record,
    time_ns_of,
)
from .paths import Layout
from .snapshot import Snapshot

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
"""Seconds for which removed files stay on disk: no reader should take longer."""
KEPT_COMMITS: Final = 3
"""Commits for which they stay as well: a run that commits once a day has slow readers, too."""
_SWEPT: Final = ".swept-"


def staged_tables(record: Record) -> list[str]:
    """The tables to which a record adds files."""
    return list(dict.fromkeys(each.table for each in record.add))


def forward(
    layout: Layout, record: Record, on_step: Callable[[str], None], *, sync: bool = False
) -> None:
    """Moves the files of a commit from staging to their places. Does again what was half done."""
    staging = layout.staging / record.staging
    for table in staged_tables(record):
        on_step(f"forward:{table}")
        source, target = staging / table, layout.root / table / str(record.commit)
        if not source.is_dir():
            continue  # it was moved before
        target.parent.mkdir(exist_ok=True)
        try:
            source.rename(target)
        except OSError:  # the folder is there already: from a log that was restored, for example
            if not target.is_dir():
                raise
            for each in sorted(source.iterdir()):
                each.replace(target / each.name)
            source.rmdir()
        if sync:
            sync_folder(target.parent)


def finish_staging(layout: Layout) -> None:
    """Rolls forward what was committed, and deletes the rest of what killed runs left."""
    for path in layout.log.glob(".*.part"):
        path.unlink(missing_ok=True)
    if not layout.staging.is_dir():
        return
    for path in sorted(layout.staging.iterdir()):
        own = path.with_name(path.name.removeprefix(_SWEPT))
        if (record := record_of(layout, own.name)) is not None:
            path.rename(own)
            forward(layout, record, lambda _: None)
            delete_staging(layout, record)
        else:
            _delete(layout, path)


def record_of(layout: Layout, staging: str) -> Record | None:
    """The record that names a staging folder; None when it was not committed."""
    number = staging.split("-", 1)[0]
    if not number.isdecimal():
        return None
    try:
        found = read_record(layout.record(int(number)))
    except FileNotFoundError:
        return None
    return found if found.staging == staging else None


def delete_staging(layout: Layout, record: Record) -> None:
    """Deletes the staging of a commit, if all of it is in place."""
    if all((layout.root / table / str(record.commit)).is_dir() for table in staged_tables(record)):
        shutil.rmtree(layout.staging / record.staging, ignore_errors=True)


def _delete(layout: Layout, path: Path) -> None:
    """Deletes staging that was not committed. Where locks do not work its owner may be about to:
    once the folder has another name that fails, and if it was faster the folder gets its name
    back."""
    own = path.with_name(path.name.removeprefix(_SWEPT))
    swept = path.with_name(_SWEPT + own.name)
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
    """Deletes files that were removed long enough ago; tells how many bytes."""
    freed = 0
    for each in list(snapshot.removed.values()):
        recent = now_ns - time_ns_of(each.time) < keep_s * 1e9
        if recent or snapshot.commit - each.commit < keep_commits:
            continue
        freed += _unlink(layout.place(each.path))
        del snapshot.removed[each.path]
    return freed


def _unlink(path: Path) -> int:
    """Deletes a file, and its folder when it was the last in it."""
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    with contextlib.suppress(OSError):
        os.rmdir(path.parent)
    return size

"""Exports the tables of a lake as Delta or Iceberg tables.

    export("lake", "out", "delta")          # out/calls, out/messages, ...
    export("lake", "out", "iceberg")        # the same, and out/catalog.db: the catalog `wirelake`

Files are hard-linked, or copied across file systems, because the lake may delete its own. A
repeated export adds and removes what has changed. Each table has the commit that it was exported
from: in Delta as the version of the application `wirelake`, in Iceberg as the property
`wirelake.commit`. Files that were removed more than a week ago are deleted, and with them the older
versions of a table.

Each table changes atomically, but not all tables together.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
import pyarrow as pa

from wirelake.records.schema import schema
from wirelake.wire.errors import missing_dependency, unknown

from ..log import Log
from ..parquet import files_at
from ..paths import PUBLIC_TABLES, LakeError, absolute_path
from ..snapshot import AddedFile, Snapshot

__all__ = ["KEPT_DAYS", "ExportedTable", "Format", "Target", "export"]

KEPT_DAYS: Final = 7
"""Days that removed files stay for readers of older versions."""

Format = Literal["delta", "iceberg"]
"""Table formats."""


class ExportedTable(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the export of a table."""

    table: str
    path: str
    rows: int
    files: int
    added: int
    removed: int


class Target(Protocol):
    """A table to export to."""

    def names(self) -> set[str]:
        """Return the names of its files."""

    def exported(self) -> int | None:
        """Return the commit of the lake that it was last exported from."""

    def update(
        self, add: Sequence[tuple[Path, AddedFile]], remove: Sequence[str], commit: int
    ) -> None:
        """Add and remove files in one transaction."""

    def clean(self) -> None:
        """Delete files that were removed long ago."""


def export(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str],
    format: Format = "delta",  # noqa: A002 - the usual name
    tables: Iterable[str] | None = None,
) -> list[ExportedTable]:
    """Export the last commit of a lake. Raises LakeError."""
    chosen = PUBLIC_TABLES if tables is None else tuple(tables)
    for table in chosen:
        if table not in PUBLIC_TABLES:
            raise LakeError(unknown("table", table, PUBLIC_TABLES))
    log = Log(root)
    snapshot = log.snapshot()
    folder = absolute_path(out)
    if folder.is_relative_to(log.layout.root):
        raise LakeError(f"{folder}: inside the lake; use another folder")
    make = _format(format)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _export(log, snapshot, make(folder, table, schema(table)), table, folder)
        for table in chosen
    ]


class _Make(Protocol):
    def __call__(self, folder: Path, table: str, columns: pa.Schema) -> Target: ...


def _format(name: str) -> _Make:
    try:
        if name == "delta":
            from .delta import DeltaTarget

            return DeltaTarget
        if name == "iceberg":
            from .iceberg import IcebergTarget

            return IcebergTarget
    except ImportError as error:
        package = {"delta": "deltalake", "iceberg": "pyiceberg"}[name]
        raise LakeError(missing_dependency(package, name)) from error
    raise LakeError(unknown("format", name, ("delta", "iceberg")))


def _export(
    log: Log, snapshot: Snapshot, target: Target, table: str, folder: Path
) -> ExportedTable:
    # Links first, then the transaction, then deletion: killed in between, an export leaves files
    # that no table names, and the next one continues.
    data = folder / table
    files = {_exported_name(each): each for each in snapshot.files(table)}
    present = target.names()
    new = [files[name] for name in files.keys() - present]
    removed = sorted(present - files.keys())
    add = []
    for each, place in sorted(files_at(log.layout, snapshot, new), key=lambda pair: pair[0].path):
        linked = data / _exported_name(each)
        _link(place, linked)
        add.append((linked, each))
    if add or removed or target.exported() != snapshot.commit:
        target.update(add, removed, snapshot.commit)
    target.clean()
    return ExportedTable(
        table=table,
        path=str(data),
        rows=sum(each.rows for each in files.values()),
        files=len(files),
        added=len(add),
        removed=len(removed),
    )


def _exported_name(file: AddedFile) -> str:
    """Return a name that no other file of this or another lake has."""
    identity = msgspec.json.encode([file.path, file.rows, file.bytes, file.min_ns, file.max_ns])
    mark = hashlib.blake2b(identity, digest_size=6).hexdigest()
    name = Path(file.path)
    return f"{file.commit}-{name.stem}-{mark}{name.suffix}"


def _link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it to another file system."""
    part = target.with_name(f".{target.name}.part")
    target.parent.mkdir(exist_ok=True)
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    os.replace(part, target)
    part.unlink(missing_ok=True)  # rename does nothing if both names are the same file

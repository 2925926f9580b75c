"""The tables of a lake for others: as Delta or Iceberg tables in a folder.

    export("lake", "out", "delta")          out/calls, out/messages, ...
    export("lake", "out", "iceberg")        the same, and out/catalog.db: the catalog `wirelake`

Files are linked, or copied where that cannot be: the lake may delete its own. A second export adds
and removes what has changed since. Each table has the number of the commit that it shows: in Delta
as the version of the application `wirelake`, in Iceberg as the property `wirelake.commit`. Files
that were removed a week ago or earlier are deleted, and older versions of a table with them.

Each table changes at once; all of them together do not.
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

from ..entries import AddedFile
from ..errors import LakeError
from ..log import Log
from ..paths import PUBLIC_TABLES
from ..reading import files_at
from ..snapshot import Snapshot

__all__ = ["KEPT_DAYS", "ExportedTable", "Format", "Target", "export"]

KEPT_DAYS: Final = 7
"""For so long a reader of an exported table may go on with files that were removed."""

Format = Literal["delta", "iceberg"]
"""What a lake can be exported to."""


class ExportedTable(msgspec.Struct, frozen=True, kw_only=True):
    """What an export did with a table."""

    table: str
    path: str
    rows: int
    files: int
    added: int
    removed: int


class Target(Protocol):
    """A table of the other format."""

    def names(self) -> set[str]:
        """The files that it has."""

    def exported(self) -> int | None:
        """The commit that it shows."""

    def update(
        self, add: Sequence[tuple[Path, AddedFile]], remove: Sequence[str], commit: int
    ) -> None:
        """Adds and removes files at once."""

    def clean(self) -> None:
        """Deletes files that were removed long ago."""


def export(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str],
    format: Format = "delta",  # noqa: A002 - what everybody calls it
    tables: Iterable[str] | None = None,
) -> list[ExportedTable]:
    """Exports what the lake has now. Raises LakeError."""
    wanted = PUBLIC_TABLES if tables is None else tuple(tables)
    for table in wanted:
        if table not in PUBLIC_TABLES:
            raise LakeError(f"no table is called {table!r}; there are {', '.join(PUBLIC_TABLES)}")
    log = Log(root)
    snapshot = log.snapshot()
    folder = Path(out).absolute()
    if folder.is_relative_to(log.layout.root):
        raise LakeError(f"{folder}: inside of the lake; name another folder")
    make = _format(format)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _export(log, snapshot, make(folder, table, schema(table)), table, folder)
        for table in wanted
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
        raise LakeError(f"this needs a package more: pip install 'wirelake[{name}]'") from error
    raise LakeError(f"no format is called {name!r}; there are delta, iceberg")


def _export(
    log: Log, snapshot: Snapshot, target: Target, table: str, folder: Path
) -> ExportedTable:
    data = folder / table
    files = {_exported_name(each): each for each in snapshot.files(table)}
    there = target.names()
    new = [files[name] for name in files.keys() - there]
    gone = sorted(there - files.keys())
    add = []
    for each, place in sorted(files_at(log.layout, snapshot, new), key=lambda pair: pair[0].path):
        linked = data / _exported_name(each)
        _link(place, linked)
        add.append((linked, each))
    if add or gone or target.exported() != snapshot.commit:
        target.update(add, gone, snapshot.commit)
    target.clean()
    return ExportedTable(
        table=table,
        path=str(data),
        rows=sum(each.rows for each in files.values()),
        files=len(files),
        added=len(add),
        removed=len(gone),
    )


def _exported_name(file: AddedFile) -> str:
    """A name that no other file has, of this lake or of another."""
    said = msgspec.json.encode([file.path, file.rows, file.bytes, file.min_ns, file.max_ns])
    mark = hashlib.blake2b(said, digest_size=6).hexdigest()
    name = Path(file.path)
    return f"{file.commit}-{name.stem}-{mark}{name.suffix}"


def _link(source: Path, target: Path) -> None:
    """Gives a file a second name, or makes a copy on another disk."""
    part = target.with_name(f".{target.name}.part")
    target.parent.mkdir(exist_ok=True)
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    os.replace(part, target)
    part.unlink(missing_ok=True)  # where both are the same file, replacing does nothing

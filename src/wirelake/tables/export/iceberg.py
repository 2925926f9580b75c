"""Tables of a lake as Iceberg tables (package `pyiceberg`), with a SQLite catalog."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties

from ..paths import LakeError
from ..snapshot import AddedFile
from .export import KEPT_DAYS

__all__ = ["CATALOG", "NAMESPACE", "IcebergTarget"]

CATALOG: Final = "catalog.db"
"""Name of the SQLite catalog."""
NAMESPACE: Final = "wirelake"
"""Namespace of the tables, as in wirelake.calls."""
_COMMIT: Final = "wirelake.commit"
_DAY_MS: Final = 86_400_000


class IcebergTarget:
    """An Iceberg table; created if needed, and extended by new columns."""

    def __init__(self, folder: Path, table: str, columns: pa.Schema):
        if (folder / table / "_delta_log").exists():
            raise LakeError(f"{folder / table}: is a Delta table; use another folder")
        self._folder = folder / table
        self._catalog = SqlCatalog(
            "wirelake", uri=f"sqlite:///{folder / CATALOG}", warehouse=_uri(folder)
        )
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        self._table = self._opened(f"{NAMESPACE}.{table}", columns)

    def _opened(self, name: str, columns: pa.Schema) -> Table:
        try:
            found = self._catalog.load_table(name)
        except NoSuchTableError:
            found = self._catalog.create_table(name, columns, location=_uri(self._folder))
        with found.transaction() as change:
            with change.update_schema() as update:
                update.union_by_name(columns)
            # Iceberg finds columns by field ids, which our files do not have: the name mapping
            # gives every column of a file its id.
            mapping = change.table_metadata.schema().name_mapping.model_dump_json()
            if found.properties.get(TableProperties.DEFAULT_NAME_MAPPING) != mapping:
                change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        return found

    def names(self) -> set[str]:
        """Return the names of its files."""
        return {_name(each) for each in self._data_files()}

    def exported(self) -> int | None:
        """Return the commit of the lake that it was last exported from."""
        commit = self._table.properties.get(_COMMIT)
        return None if commit is None else int(commit)

    def update(
        self, add: Sequence[tuple[Path, AddedFile]], remove: Sequence[str], commit: int
    ) -> None:
        """Add and remove files in one transaction."""
        gone = set(remove)
        with _expected_warnings(), self._table.transaction() as change:
            change.set_properties({_COMMIT: str(commit)})
            if not add and not gone:
                return
            snapshot = change.update_snapshot(snapshot_properties={_COMMIT: str(commit)})
            with snapshot.overwrite() as files:
                for each in self._data_files():
                    if _name(each) in gone:
                        files.delete_data_file(each)
                for path, _ in add:
                    files.append_data_file(
                        parquet_file_to_data_file(self._table.io, change.table_metadata, _uri(path))
                    )

    def clean(self) -> None:
        """Expire old snapshots, and delete the files that only they used."""
        before_ms = time.time_ns() // 1_000_000 - KEPT_DAYS * _DAY_MS
        current = self._table.current_snapshot()
        old = [
            each.snapshot_id
            for each in self._table.snapshots()
            if each != current and each.timestamp_ms < before_ms
        ]
        if old:
            self._table.maintenance.expire_snapshots().by_ids(old).commit()
            self._table.refresh()
            self._delete_unreferenced()
        self._catalog.close()

    def _delete_unreferenced(self) -> None:
        kept = {
            _name(entry.data_file)
            for snapshot in self._table.snapshots()
            for manifest in snapshot.manifests(self._table.io)
            for entry in manifest.fetch_manifest_entry(self._table.io)
        }
        for path in self._folder.glob("*.parquet"):
            if path.name not in kept:
                path.unlink()

    def _data_files(self) -> Iterator[DataFile]:
        return (task.file for task in self._table.scan().plan_files())


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """Leave out a warning of pyiceberg for each nested column, which has no statistics.

    Our files have none for them on purpose (`wirelake.tables.parquet`): hundreds of lines.
    """
    logger = logging.getLogger("pyiceberg.io.pyarrow")
    logger.addFilter(_is_unexpected)
    try:
        yield
    finally:
        logger.removeFilter(_is_unexpected)


def _is_unexpected(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("PyArrow statistics missing")


def _uri(path: Path) -> str:
    """Return a path as a URI without escapes, which pyiceberg expects."""
    return f"file://{path}"


def _name(file: DataFile) -> str:
    return file.file_path.rsplit("/", 1)[-1]

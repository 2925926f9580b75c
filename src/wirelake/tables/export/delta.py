"""Tables of a lake as Delta tables (package `deltalake`).

Files are added by their metadata alone: `write_deltalake` would read every row and write it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from ..parquet import time_columns
from ..paths import LakeError
from ..snapshot import AddedFile
from .export import KEPT_DAYS

__all__ = ["DeltaTarget"]

_APPLICATION: Final = "wirelake"


class DeltaTarget:
    """A Delta table; created if needed, and extended by new columns."""

    def __init__(self, folder: Path, table: str, columns: pa.Schema):
        self._table = table
        self._columns = columns
        place = str(folder / table)
        if (folder / "catalog.db").exists():
            raise LakeError(f"{folder}: contains Iceberg tables; use another folder")
        if DeltaTable.is_deltatable(place):
            self._delta = DeltaTable(place)
            if self._delta.schema() != Schema.from_arrow(columns):
                write_deltalake(
                    self._delta, columns.empty_table(), mode="append", schema_mode="merge"
                )
                self._delta = DeltaTable(place)
        else:
            about = (columns.metadata or {}).get(b"doc", b"").decode()
            self._delta = DeltaTable.create(
                place, Schema.from_arrow(columns), name=table, description=about
            )

    def names(self) -> set[str]:
        """Return the names of its files."""
        return {uri.rsplit("/", 1)[-1] for uri in self._delta.file_uris()}

    def exported(self) -> int | None:
        """Return the commit of the lake that it was last exported from."""
        return self._delta.transaction_version(_APPLICATION)

    def update(
        self, add: Sequence[tuple[Path, AddedFile]], remove: Sequence[str], commit: int
    ) -> None:
        """Add and remove files in one transaction."""
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            AddAction(path.name, file.bytes, {}, now_ms, True, self._stats(file))
            for path, file in add
        ]
        actions += [RemoveAction(name, True, now_ms) for name in remove]
        # The commit is recorded in the same transaction, so a killed export leaves both or neither.
        properties = CommitProperties(
            custom_metadata={"wirelake.commit": str(commit)},
            app_transactions=[Transaction(_APPLICATION, commit)],
        )
        self._delta.create_write_transaction(
            actions, "append", Schema.from_arrow(self._columns), commit_properties=properties
        )

    def clean(self) -> None:
        """Delete files that were removed long ago."""
        self._delta.update_incremental()
        # Seven days are also the shortest time that Delta accepts without an override.
        self._delta.vacuum(KEPT_DAYS * 24, dry_run=False)

    def _stats(self, file: AddedFile) -> str:
        """Return the statistics for file skipping: rows, and times if there is one time column."""
        statistics: dict[str, Any] = {"numRecords": file.rows}
        # With several time columns, `min_ns` and `max_ns` are of all of them: no bounds of one.
        times = time_columns(self._table)
        if len(times) == 1 and file.min_ns is not None:
            statistics["minValues"] = {times[0]: file.min_ns}
            statistics["maxValues"] = {times[0]: file.max_ns}
        return json.dumps(statistics)

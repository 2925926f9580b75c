"""The folder of a lake: paths in it, and the errors of opening it.

    layout = Layout("lake")
    layout.record(7)                              # lake/_log/00000000000000000007.json
    layout.resolve("calls/7/a.parquet", record)   # its place, or still in staging

`docs/concepts/lake.md`, section *The log*, shows the folder. Errors:

    LakeError           a lake cannot be opened, read or written
      DamagedError      ... because a file of the log or of the state cannot be used
      NewerError        ... because a newer version of wirelake wrote it
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Protocol

from wirelake.wire.paths import AddressError, local_path

__all__ = [
    "PUBLIC_TABLES",
    "DamagedError",
    "LakeError",
    "Layout",
    "NewerError",
    "Staged",
    "absolute_path",
    "commit_of",
    "is_public",
    "table_of",
]


PUBLIC_TABLES: Final = (
    "messages", "faults", "coverage", "calls", "deliveries", "connections", "tunnels",
    "traffic_minutes", "latency_minutes", "delivery_minutes", "error_minutes", "talker_minutes",
)  # fmt: skip
"""The tables of a lake. Names that begin with `_` are internal state."""

_RECORD: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.json")


class LakeError(ValueError):
    """A lake cannot be opened, read or written; the message says why, and what to do."""


class DamagedError(LakeError):
    """A file of the log or of the state cannot be used."""


class NewerError(LakeError):
    """A newer version of wirelake wrote the lake."""


class Staged(Protocol):
    """A record or a snapshot: it names the staging folder of its files."""

    @property
    def staging(self) -> str: ...


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path. Raises LakeError for an address with a scheme."""
    try:
        return local_path(path).absolute()
    except AddressError as error:
        raise LakeError(str(error)) from None


def is_public(table: str) -> bool:
    """Return whether a table is public, not internal state."""
    return not table.startswith("_")


def table_of(path: str) -> str:
    """Return the table of a file from its path in the lake."""
    return path.split("/", 1)[0]


def commit_of(path: str) -> int:
    """Return the commit that added a file from its path in the lake."""
    return int(path.split("/", 2)[1])


class Layout:
    """The folder of a lake."""

    def __init__(self, root: str | os.PathLike[str]):
        self.root = absolute_path(root)
        self.log = self.root / "_log"
        self.staging = self.root / "_staging"
        self.lock = self.root / "_lock"

    def record(self, commit: int) -> Path:
        """Return the path of the record of a commit."""
        return self.log / f"{commit:020d}.json"

    def checkpoint(self, commit: int) -> Path:
        """Return the path of the checkpoint at a commit."""
        return self.log / f"{commit:020d}.checkpoint.json"

    def logged(self) -> tuple[list[int], list[int]]:
        """Return the sorted numbers of all records and of all checkpoints."""
        try:
            names = os.listdir(self.log)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        return _numbers(_RECORD, names), _numbers(_CHECKPOINT, names)

    def place(self, path: str) -> Path:
        """Return the final path of a file."""
        return self.root / path

    def staged(self, staging: str, path: str) -> Path:
        """Return the path of a file in staging."""
        table, _, name = path.split("/", 2)
        return self.staging / staging / table / name

    def resolve(self, path: str, record: Staged) -> Path:
        """Return where a file is now: at its final path, or still in staging."""
        # The log is committed before files are moved to their places, so both places are right. In
        # this order, because a file only ever moves from staging to its place.
        place = self.place(path)
        if place.exists():
            return place
        staged = self.staged(record.staging, path) if record.staging else place
        if staged.exists():
            return staged
        if place.exists():  # moved between the two checks
            return place
        raise LakeError(f"{place}: missing; the log lists this file")


def _numbers(pattern: re.Pattern[str], names: list[str]) -> list[int]:
    found = (pattern.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match)

"""Where things are in the folder of a lake (`docs/concepts/lake.md`, section *The log*).

layout = Layout("lake")
layout.record(7)                            lake/_log/00000000000000000007.json
layout.resolve("calls/7/a.parquet", record)     there, or still in staging
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Protocol

from .errors import LakeError

__all__ = ["PUBLIC_TABLES", "Layout", "Staged", "commit_of", "is_public", "table_of"]

PUBLIC_TABLES: Final = (
    "messages", "faults", "coverage", "calls", "deliveries", "connections", "tunnels",
    "traffic_minutes", "latency_minutes", "delivery_minutes", "error_minutes", "talker_minutes",
)  # fmt: skip
"""The tables of a lake that are for people. Names that begin with `_` are state."""

_RECORD: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.json")


class Staged(Protocol):
    """Whatever knows from which folder its files are moved: a record, or a snapshot."""

    @property
    def staging(self) -> str: ...


def is_public(table: str) -> bool:
    """Whether a table is for people, not state."""
    return not table.startswith("_")


def table_of(path: str) -> str:
    """The table of a file, by its path in the lake."""
    return path.split("/", 1)[0]


def commit_of(path: str) -> int:
    """The commit that added a file, by its path in the lake."""
    return int(path.split("/", 2)[1])


class Layout:
    """The folder of a lake."""

    def __init__(self, root: str | os.PathLike[str]):
        self.root = Path(root).absolute()
        self.log = self.root / "_log"
        self.staging = self.root / "_staging"
        self.lock = self.root / "_lock"

    def record(self, commit: int) -> Path:
        """The file with the record of a commit."""
        return self.log / f"{commit:020d}.json"

    def checkpoint(self, commit: int) -> Path:
        """The file with everything up to a commit."""
        return self.log / f"{commit:020d}.checkpoint.json"

    def logged(self) -> tuple[list[int], list[int]]:
        """The numbers of the records that there are, and of the checkpoints, rising."""
        try:
            names = os.listdir(self.log)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        return _numbers(_RECORD, names), _numbers(_CHECKPOINT, names)

    def place(self, path: str) -> Path:
        """Where a file is once its commit was rolled forward."""
        return self.root / path

    def staged(self, staging: str, path: str) -> Path:
        """Where a file is before that."""
        table, _, name = path.split("/", 2)
        return self.staging / staging / table / name

    def resolve(self, path: str, record: Staged) -> Path:
        """Where a file is now: in place, or in the folder from which it is about to be moved."""
        place = self.place(path)
        if place.exists():
            return place
        staged = self.staged(record.staging, path) if record.staging else place
        if staged.exists():
            return staged
        if place.exists():  # it was moved in between
            return place
        raise LakeError(f"{place}: the log names this file, and it is not there")


def _numbers(pattern: re.Pattern[str], names: list[str]) -> list[int]:
    found = (pattern.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match)

"""Paths in the folder of a lake (`docs/concepts/lake.md`, section *The log*).

layout = Layout("lake")
layout.record(7)                              # lake/_log/00000000000000000007.json
layout.resolve("calls/7/a.parquet", record)   # its place, or still in staging
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from pathlib import Path
from typing import Final, Protocol

import msgspec

from .errors import LakeError

__all__ = [
    "PUBLIC_TABLES",
    "Layout",
    "Lock",
    "Staged",
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


class Staged(Protocol):
    """A record or a snapshot: it names the staging folder of its files."""

    @property
    def staging(self) -> str: ...


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
        self.root = Path(root).absolute()
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
        place = self.place(path)
        if place.exists():
            return place
        staged = self.staged(record.staging, path) if record.staging else place
        if staged.exists():
            return staged
        if place.exists():  # it was moved between the two checks
            return place
        raise LakeError(f"{place}: missing; the log lists this file")


def _numbers(pattern: re.Pattern[str], names: list[str]) -> list[int]:
    found = (pattern.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match)


# The writer lock of a lake: `flock` on a file that names its holder.


_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL})


class _Holder(msgspec.Struct):
    """The process that holds a lock."""

    pid: int
    host: str
    since: str


class Lock:
    """The lock of a lake."""

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None

    def take(self, since: str) -> None:
        """Take the lock. Raises LakeError if another process holds it."""
        opened = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            raise LakeError(
                f"{self._path.parent}: {self._holder()}; wait for it or stop it"
            ) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                os.close(opened)
                raise
        self._file = opened
        os.ftruncate(opened, 0)
        os.pwrite(opened, msgspec.json.encode(_Holder(os.getpid(), socket.gethostname(), since)), 0)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _holder(self) -> str:
        try:
            holder = msgspec.json.decode(self._path.read_bytes(), type=_Holder)
        except (OSError, msgspec.MsgspecError):
            return "locked by another process"
        return f"locked by process {holder.pid} on {holder.host} since {holder.since}"

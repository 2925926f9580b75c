"""The entries of the log: records with their files and inputs, and checkpoints.

The fields are described in `docs/concepts/lake.md`. On disk they are JSON; fields with their
default value are omitted, and unknown fields are ignored.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from wirelake.records.schema import VERSION

from .errors import DamagedError, NewerError
from .paths import commit_of

__all__ = [
    "FORMAT",
    "AddedFile",
    "Checkpoint",
    "Input",
    "Kind",
    "Record",
    "Removed",
    "iso_time",
    "read_checkpoint",
    "read_record",
    "time_ns_of",
]

FORMAT: Final = 1
"""Version of the log format; a higher one is refused."""

Kind = Literal["create", "advance", "compact", "expire"]
"""Reason of a commit."""

_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Input(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A capture that was read or refused."""

    source: str
    sequence: int
    path: str
    """Path when it was read. The folder may move: only the file name identifies a capture."""
    bytes: int
    mtime_ns: int
    fault: str | None = None
    """late_file, vanished_file or unreadable_file if it was refused; None if it was read."""

    @property
    def name(self) -> str:
        """File name; the folder is part of the source."""
        return self.path.rsplit("/", 1)[-1]


class AddedFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file of a table."""

    table: str
    path: str
    """Path in the lake: table/commit/name."""
    rows: int
    bytes: int
    min_ns: int | None = None
    """Earliest time of its rows; None if they have none."""
    max_ns: int | None = None
    """Latest time of its rows."""
    provisional: bool = False
    """Whether the next step of its source will replace it."""
    protocol: str | None = None
    source: str | None = None
    share: int | None = None
    shares: int | None = None

    @property
    def commit(self) -> int:
        """The commit that added it."""
        return commit_of(self.path)


class Record(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One commit."""

    commit: int
    format: int
    schema: int
    time: str
    kind: Kind
    settings: dict[str, Any] | None = None
    inputs: list[Input] = []
    add: list[AddedFile] = []
    remove: list[str] = []
    staging: str = ""
    figures: dict[str, Any] = {}


class Removed(msgspec.Struct, frozen=True):
    """A file that was removed from the lake and may still be on disk."""

    path: str
    commit: int
    time: str


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The state at a commit."""

    commit: int
    format: int
    schema: int
    time: str
    settings: dict[str, Any] = {}
    inputs: list[Input] = []
    files: list[AddedFile] = []
    removed: list[Removed] = []
    staging: str = ""


class _Version(msgspec.Struct):
    """The versions, which are decoded first."""

    format: int
    schema: int


def read_record(path: Path) -> Record:
    """Read a record. Raises LakeError, or FileNotFoundError if it does not exist."""
    return _decoded(path, Record)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises LakeError, or FileNotFoundError if it does not exist."""
    return _decoded(path, Checkpoint)


def _decoded(path: Path, kind: type[_T]) -> _T:
    data = path.read_bytes()
    try:
        version = msgspec.json.decode(data, type=_Version)
        _check(version, path)
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"{path}: damaged ({error}); restore it from a backup") from error


def _check(version: _Version, path: Path) -> None:
    lake = path.parent.parent
    if version.format > FORMAT:
        raise NewerError(
            f"{lake}: unsupported log format {version.format}; this version of wirelake supports"
            f" formats up to {FORMAT}: update wirelake"
        )
    if version.schema > VERSION:
        raise NewerError(
            f"{lake}: unsupported table version {version.schema}; this version of wirelake supports"
            f" versions up to {VERSION}: update wirelake"
        )


def iso_time(time_ns: int) -> str:
    """Format a time as the log has it."""
    time = _EPOCH + timedelta(microseconds=time_ns // 1_000)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_ns_of(text: str) -> int:
    """Parse a time of the log to nanoseconds."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1) * 1_000

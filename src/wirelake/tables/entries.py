"""What is written in the log: records, the files and inputs they name, and checkpoints.

The fields are those of `docs/concepts/lake.md`. They are JSON on disk; a field with its default is
left out, and a field that this version does not know is passed over.
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
"""The format of the log that is written; a higher one is refused."""

Kind = Literal["create", "advance", "compact", "expire"]
"""What a commit was made for."""

_T = TypeVar("_T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Input(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A capture that was consumed."""

    source: str
    sequence: int
    path: str
    """As it was named to the reader; the folder may move, its name identifies it."""
    bytes: int
    mtime_ns: int
    fault: str | None = None
    """late_file, vanished_file or unreadable_file, when it was refused; else it was read."""

    @property
    def name(self) -> str:
        """Its name without the folder, which is part of the source."""
        return self.path.rsplit("/", 1)[-1]


class AddedFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file of a table."""

    table: str
    path: str
    """In the lake: table, commit, name."""
    rows: int
    bytes: int
    min_ns: int | None = None
    """The earliest time in it; null when it has none."""
    max_ns: int | None = None
    """The latest time in it."""
    provisional: bool = False
    """Whether the next step of its source replaces it."""
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
    """A file that no longer counts, and may still be on disk."""

    path: str
    commit: int
    time: str


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything up to a commit."""

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
    """What must be looked at before anything else."""

    format: int
    schema: int


def read_record(path: Path) -> Record:
    """A record of the log. Raises LakeError, or FileNotFoundError when there is none."""
    return _decoded(path, Record)


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint of the log. Raises LakeError, or FileNotFoundError when there is none."""
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
            f"{lake}: a lake of format {version.format}; this version of wirelake knows formats"
            f" up to {FORMAT}: update it"
        )
    if version.schema > VERSION:
        raise NewerError(
            f"{lake}: its tables have version {version.schema}; this version of wirelake knows"
            f" versions up to {VERSION}: update it"
        )


def iso_time(time_ns: int) -> str:
    """A time as it stands in the log."""
    found = _EPOCH + timedelta(microseconds=time_ns // 1_000)
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_ns_of(text: str) -> int:
    """A time of the log in nanoseconds."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1) * 1_000

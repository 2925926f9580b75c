"""The entries of a log, and the state of a lake at a commit that they add up to.

A `Record` says what one commit added, removed and consumed; a `Checkpoint` has the sum of all
records up to a commit. Both are JSON (`docs/concepts/lake.md`, *The log*). A `Snapshot` applies
them one after the other: files by table, inputs by source, settings.

Fields with their default are left out of the JSON. A step may add hundreds of files, and most of
them have no protocol, source or share.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from wirelake.records.schema import VERSION

from .paths import DamagedError, NewerError, commit_of, is_public, table_of

__all__ = [
    "CHECKSUM_BYTES",
    "FORMAT",
    "OPEN",
    "AddedFile",
    "Checkpoint",
    "Input",
    "Kind",
    "Record",
    "Removed",
    "Snapshot",
    "Source",
    "checksum_of",
    "encoded",
    "iso_time",
    "read_checkpoint",
    "read_record",
    "sealed",
    "time_ns_of",
]


# -- entries of the log ------------------------------------------------------------------------

FORMAT: Final = 2
"""Version of the log format; a higher one is refused. Since 2 entries and files have checksums."""
OPEN: Final = ".open"
"""Suffix of a recording that is not sealed."""

Kind = Literal["create", "advance", "compact", "expire"]
"""Reason of a commit."""

_T = TypeVar("_T")
CHECKSUM_BYTES: Final = 16
_SEAL: Final = re.compile(rb',\s*"checksum":\s*"(?P<checksum>[0-9a-f]{32})"\s*\}\s*\Z')
"""The last field of an entry."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Input(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A capture that was read or refused."""

    source: str
    sequence: int
    path: str
    """Path when it was read. The folder may move: only the file name identifies a capture."""
    bytes: int
    mtime_ns: int
    ordered_by: str | None = None
    """What the sequence number comes from: recording, pattern, number or time; None if an older
    version read it."""
    fault: str | None = None
    """late_file, vanished_file or unreadable_file if it was refused; None if it was read."""

    @property
    def name(self) -> str:
        """File name, the same whether it is sealed; the folder is part of the source."""
        return self.path.rsplit("/", 1)[-1].removesuffix(OPEN)


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
    checksum: str | None = None
    """BLAKE2b of the file, 128 bits in hexadecimal (`b2sum -l 128`); None if an older version wrote
    it."""

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
    version: str = ""
    """Version of wirelake that made the commit; empty before format 2."""
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


def encoded(entry: Record | Checkpoint, *, indent: int = 0) -> bytes:
    """Return an entry as JSON, with a checksum of everything before it as the last field."""
    text = msgspec.json.encode(entry)
    return sealed(msgspec.json.format(text, indent=indent) if indent else text)


def sealed(text: bytes) -> bytes:
    """Return a JSON object with its checksum."""
    body = text.rstrip()[:-1].rstrip()
    return body + b',\n "checksum": "' + checksum_of(body).encode() + b'"\n}'


def checksum_of(data: bytes) -> str:
    """Return the checksum of some bytes."""
    return hashlib.blake2b(data, digest_size=CHECKSUM_BYTES).hexdigest()


def _check_seal(data: bytes, path: Path) -> bool:
    """Return whether an entry has a checksum. Raises DamagedError if it is wrong."""
    # Of the bytes, not of the decoded fields: a newer version may add fields to them.
    match = _SEAL.search(data)
    if match is None:
        return False
    if checksum_of(data[: match.start()]) != match["checksum"].decode():
        raise DamagedError(f"{path}: damaged (wrong checksum); restore it from a backup")
    return True


def _decoded(path: Path, kind: type[_T]) -> _T:
    data = path.read_bytes()
    has_checksum = _check_seal(data, path)
    try:
        # The versions first: the fields of a newer format would look like damage.
        version = msgspec.json.decode(data, type=_Version)
        _check(version, path)
        if version.format >= 2 and not has_checksum:
            raise DamagedError(f"{path}: damaged (no checksum); restore it from a backup")
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


# -- the state at a commit ---------------------------------------------------------------------

_LATE: Final = "late_file"


class Source:
    """The captures of one source that were read or refused."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        """In the order in which they were consumed, including refused ones."""
        self.first: int | None = None
        """First sequence number that was read; None if all were late."""
        self.last: int | None = None
        """Highest sequence number that was read."""
        self._sequences: set[int] = set()
        self._known: dict[tuple[int, str], Input] = {}

    def add(self, consumed: Input) -> None:
        """Add a consumed capture."""
        self.inputs.append(consumed)
        self._known[consumed.sequence, consumed.name] = consumed
        # A late file never had its turn. One that had vanished or could not be opened had it: its
        # successors need not wait for it.
        if consumed.fault == _LATE:
            return
        self._sequences.add(consumed.sequence)
        self.first = consumed.sequence if self.first is None else self.first
        self.last = max(consumed.sequence, consumed.sequence if self.last is None else self.last)

    def has(self, sequence: int) -> bool:
        """Return whether a file with this sequence number was read, or missing at its turn."""
        return sequence in self._sequences

    def known(self, sequence: int, name: str) -> Input | None:
        """Return the last capture consumed with this sequence number and name."""
        return self._known.get((sequence, name))


class Snapshot:
    """The state of a lake at a commit. A writer updates its own with each commit."""

    def __init__(self) -> None:
        self.commit = -1
        """The last commit; -1 before the first."""
        self.schema = 0
        """Version of the table schemas at that commit."""
        self.time = ""
        """Time of that commit, ISO 8601."""
        self.settings: dict[str, Any] = {}
        """Settings of the first commit; they never change."""
        self.tables: dict[str, dict[str, AddedFile]] = {}
        """Files by table and path, in the order of their commits."""
        self.sources: dict[str, Source] = {}
        """Consumed captures by source."""
        self.removed: dict[str, Removed] = {}
        """Removed files that may still be on disk, by path."""
        self.staging = ""
        """Staging folder of the last commit."""
        self._by_name: dict[tuple[str, str], Input] = {}
        """The last capture consumed with a name, by subfolder of the captures and name."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Snapshot:
        """Return the state that a checkpoint contains."""
        snapshot = cls()
        snapshot.commit, snapshot.schema = checkpoint.commit, checkpoint.schema
        snapshot.time, snapshot.staging = checkpoint.time, checkpoint.staging
        snapshot.settings = checkpoint.settings
        snapshot._consume(checkpoint.inputs)
        snapshot._add(checkpoint.files)
        snapshot.removed = {each.path: each for each in checkpoint.removed}
        return snapshot

    def to_checkpoint(self) -> Checkpoint:
        """Return the state as a checkpoint."""
        return Checkpoint(
            commit=self.commit,
            format=FORMAT,
            schema=self.schema,
            time=self.time,
            settings=self.settings,
            inputs=[each for source in self.sources.values() for each in source.inputs],
            files=self.all_files(),
            removed=list(self.removed.values()),
            staging=self.staging,
        )

    def apply(self, record: Record) -> None:
        """Apply the next commit."""
        self.commit, self.schema, self.time = record.commit, record.schema, record.time
        self.staging = record.staging
        if record.settings is not None:
            self.settings = record.settings
        self._consume(record.inputs)
        for path in record.remove:
            # A removed file stays on disk for readers of earlier snapshots. `removed` remembers it
            # until `sweep_removed` may delete it; a checkpoint carries that list on.
            if self.tables.get(table_of(path), {}).pop(path, None) is not None:
                self.removed[path] = Removed(path, record.commit, record.time)
        self._add(record.add)

    def files(self, table: str) -> list[AddedFile]:
        """Return the files of a table; none if it has no rows yet."""
        return list(self.tables.get(table, {}).values())

    def all_files(self) -> list[AddedFile]:
        """Return the files of all tables."""
        return [each for files in self.tables.values() for each in files.values()]

    def public_files(self) -> list[AddedFile]:
        """Return the files of all public tables."""
        return [each for each in self.all_files() if is_public(each.table)]

    def named(self, folder: str, name: str) -> Input | None:
        """Return the last capture consumed with this name in a subfolder of the captures."""
        return self._by_name.get((folder, name))

    def _consume(self, inputs: Iterable[Input]) -> None:
        for each in inputs:
            self._by_name[each.source.rpartition("/")[0], each.name] = each
            self.sources.setdefault(each.source, Source()).add(each)

    def _add(self, files: Iterable[AddedFile]) -> None:
        for each in files:
            self.tables.setdefault(each.table, {})[each.path] = each

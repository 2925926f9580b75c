"""The report of `verify`; rows of a lake, rows that are expected, and where they differ.

Both sides become plain Python values of the same Arrow schema. Rows that are equal cancel each
other out; of those that are left, the most similar ones are paired, so that a wrong value is
reported by its column even where it is part of the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wirelake.records.schema import schema
from wirelake.tables.log import Log
from wirelake.tables.parquet import file_batches, files_at
from wirelake.tables.snapshot import Snapshot

__all__ = [
    "KEYS",
    "MAX_DIFFERENCES",
    "Difference",
    "LakeRows",
    "Report",
    "Row",
    "Rows",
    "differences",
    "normalized",
]


# -- the report --------------------------------------------------------------------------------

MAX_DIFFERENCES: Final = 1_000
"""Differences that a report lists. Further ones are only counted: a table that is wrong as a whole
would otherwise fill the memory."""
_MAX_TEXT: Final = 120


class Difference(msgspec.Struct, frozen=True):
    """A value, or a whole row (`column` is None), that is not as the captures say."""

    table: str
    key: dict[str, Any]
    column: str | None
    lake: Any
    expected: Any

    def __str__(self) -> str:
        where = " ".join(f"{name}={_text(value)}" for name, value in self.key.items())
        if self.column is not None:
            values = f"{_text(self.lake)}; expected {_text(self.expected)}"
            return f"{self.table}: {where}: {self.column} is {values}"
        if self.lake is None:
            return f"{self.table}: {where}: row is missing from the lake"
        return f"{self.table}: {where}: row is not in the captures"


def _text(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


class Report(msgspec.Struct):
    """The result of `verify`."""

    lake: str
    commit: int = -1
    sample: str = "1"
    """The fraction of connections, clients, tunnels and minutes that was compared."""
    connections: int = 0
    clients: int = 0
    tunnels: int = 0
    minutes: int = 0
    rows: dict[str, int] = {}
    """Rows of the lake that were compared, by table."""
    captures: int = 0
    bytes: int = 0
    """Files that were read, and their size."""
    seconds: float = 0.0
    versions: dict[str, int] = {}
    """Commits by the version of wirelake that made them; empty text for log format 1."""
    skipped: list[str] = []
    """What could not be compared although nothing is wrong."""
    problems: list[str] = []
    """What is wrong apart from rows: a damaged log, captures that are gone."""
    differences: list[Difference] = []
    """At most `MAX_DIFFERENCES`."""
    differing: int = 0
    """All differences."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and not self.differing

    def findings(self) -> list[str]:
        """Return everything that is wrong, as sentences."""
        further = self.differing - len(self.differences)
        return [
            *self.problems,
            *map(str, self.differences),
            *([f"{further} further differences"] if further else []),
        ]

    def count(self, table: str, rows: int) -> None:
        """Count rows that were compared."""
        self.rows[table] = self.rows.get(table, 0) + rows

    def add(self, differences: list[Difference], total: int | None = None) -> None:
        """Add differences, of which there are `total`."""
        self.differences += differences[: MAX_DIFFERENCES - len(self.differences)]
        self.differing += len(differences) if total is None else total


# -- rows --------------------------------------------------------------------------------------

Row = dict[str, Any]
Rows = Iterable[Row]
Keep = Callable[[pa.RecordBatch], pa.Array]
"""Returns which rows of a batch to keep."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "messages": ("connection", "direction", "file", "offset"),
    "faults": ("connection", "direction", "file", "offset", "code"),
    "coverage": ("connection", "direction"),
    "calls": ("connection", "direction", "message_id", "request_ns"),
    "connections": ("connection",),
    "deliveries": ("notification", "client", "protocol"),
    "tunnels": ("connection", "first_ns"),
    "traffic_minutes": ("minute_ns", "protocol", "direction", "kind"),
    "latency_minutes": ("minute_ns", "protocol", "target", "bucket"),
    "delivery_minutes": ("minute_ns", "protocol", "topic"),
    "error_minutes": ("minute_ns", "what", "protocol", "target", "code"),
    "talker_minutes": ("minute_ns", "rank"),
}
"""The columns by which a report names a row; a row is paired with one that shares the first."""
_PAIRED: Final = 64
"""Rows of one group that are paired by similarity, which takes the square of their number."""


class LakeRows:
    """The rows of a lake at a commit."""

    def __init__(self, lake: str, commit: int):
        log = Log(lake)
        self._layout = log.layout
        self._snapshot: Snapshot = log.snapshot(commit)

    def protocols(self, table: str) -> list[str | None]:
        """Return the protocols that have files of their own; [None] for one set of files."""
        found = {file.protocol for file in self._snapshot.files(table)}
        return sorted(found, key=str) or [None]

    def batches(
        self, table: str, columns: Sequence[str] | None = None, protocol: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read a table, or the files of one protocol of it."""
        target = schema(table, [protocol] if protocol is not None else ())
        if columns is not None:
            target = pa.schema([target.field(name) for name in columns])
        files = [
            file
            for file in self._snapshot.files(table)
            if protocol is None or file.protocol == protocol
        ]
        for _, path in files_at(self._layout, self._snapshot, files):
            yield from file_batches(path, target)

    def outdated(self, table: str, protocol: str | None = None) -> tuple[str, ...]:
        """Return the columns that files of an older version lack, at any depth of a struct.

        They cannot be compared: the captures have values where such a file has none.
        """
        target = schema(table, [protocol] if protocol is not None else ())
        found: set[str] = set()
        files = [
            file
            for file in self._snapshot.files(table)
            if protocol is None or file.protocol == protocol
        ]
        for _, path in files_at(self._layout, self._snapshot, files):
            have = pq.read_schema(path)
            found |= {
                field.name
                for field in target
                if field.name not in have.names or have.field(field.name).type != field.type
            }
        return tuple(name for name in target.names if name in found)

    def rows(self, table: str, keep: Keep, protocol: str | None = None) -> list[Row]:
        """Read the rows of a table that `keep` selects."""
        found: list[Row] = []
        for batch in self.batches(table, protocol=protocol):
            found += batch.filter(pc.fill_null(keep(batch), False)).to_pylist()
        return found


def normalized(table: str, rows: Sequence[Row], protocol: str | None = None) -> list[Row]:
    """Return rows as a table would store them."""
    columns = schema(table, [protocol] if protocol is not None else ())
    found: list[Row] = pa.Table.from_pylist(list(rows), schema=columns).to_pylist()
    return found


def differences(
    table: str, lake: Rows, expected: Rows, *, without: Sequence[str] = ()
) -> list[Difference]:
    """Compare rows in any order; the columns `without` do not count."""
    # Grouped by the first key column, which a wrong row most likely still has right; pairing all
    # rows with each other would take the square of their number.
    left, right = _uncommon(lake, expected, without)
    groups: dict[Any, tuple[list[Row], list[Row]]] = {}
    first = KEYS[table][0]
    for side, rows in enumerate((left, right)):
        for row in rows:
            groups.setdefault(row[first], ([], []))[side].append(row)
    return [each for pair in groups.values() for each in _paired(table, *pair)]


def _uncommon(lake: Rows, expected: Rows, without: Sequence[str]) -> tuple[list[Row], list[Row]]:
    """Return the rows that only one side has. `repr` compares NaN with NaN as equal."""
    sides = [[_without(row, without) for row in rows] for rows in (lake, expected)]
    counts = [Counter(map(repr, rows)) for rows in sides]
    found: tuple[list[Row], list[Row]] = ([], [])
    for rows, only, kept in zip(
        sides, (counts[0] - counts[1], counts[1] - counts[0]), found, strict=True
    ):
        for row in rows if only else ():
            text = repr(row)
            if only[text] > 0:
                only[text] -= 1
                kept.append(row)
    return found


def _without(row: Row, names: Sequence[str]) -> Row:
    return {name: value for name, value in row.items() if name not in names} if names else row


def _paired(table: str, lake: list[Row], expected: list[Row]) -> Iterator[Difference]:
    """Pair the rows of a group, the most similar first."""
    if len(lake) <= _PAIRED and len(expected) <= _PAIRED:
        similar = sorted(
            (len(_columns(one, other)), at, to)
            for at, one in enumerate(lake)
            for to, other in enumerate(expected)
        )
    else:
        similar = [(0, at, at) for at in range(min(len(lake), len(expected)))]
    taken: tuple[set[int], set[int]] = (set(), set())
    for _, at, to in similar:
        if at not in taken[0] and to not in taken[1]:
            taken[0].add(at)
            taken[1].add(to)
            for name in _columns(lake[at], expected[to]):
                values = _value(lake[at].get(name)), _value(expected[to].get(name))
                yield Difference(table, _key(table, expected[to]), name, *values)
    for at, row in enumerate(lake):
        if at not in taken[0]:
            yield Difference(table, _key(table, row), None, _value(row), None)
    for to, row in enumerate(expected):
        if to not in taken[1]:
            yield Difference(table, _key(table, row), None, None, _value(row))


def _columns(one: Row, other: Row) -> list[str]:
    """Return the columns in which two rows differ."""
    found: list[str] = []
    for name in one.keys() | other.keys():
        if repr(one.get(name)) != repr(other.get(name)):
            found.append(name)
    return sorted(found)


def _key(table: str, row: Row) -> dict[str, Any]:
    return {name: _value(row.get(name)) for name in KEYS[table]}


def _value(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _value(each) for name, each in value.items()}
    return [_value(each) for each in value] if isinstance(value, list) else value

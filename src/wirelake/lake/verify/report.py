"""What `verify` compared, and what differs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["MAX_DIFFERENCES", "Difference", "Report"]

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

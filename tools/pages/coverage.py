"""The page of what the documents define, and the test that uses each part of it.

`docs/coverage.toml` is the table: a list of elements for each protocol.
`tests/docs/test_coverage.py` checks that it lists everything that is declared, and that its tests
exist.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wirelake.wire.views.describe import table

__all__ = ["COLUMNS", "Element", "elements", "pages"]

_SOURCE = Path(__file__).parents[2] / "docs" / "coverage.toml"
COLUMNS = ("hub", "client", "cli", "tables")
_HEADS = ["element", "hub", "client", "command line", "tables"]
_INTRODUCTION = """# Coverage of the documents

Every message, field, option and flow of the documents, and for each the test that uses it: with a
hub, with the Python client, on the command line, and in the tables. Where there is no test, the
cell gives the reason. Paths are relative to `tests`.
"""


class Element(NamedTuple):
    """One row of the table."""

    protocol: str
    name: str
    covers: tuple[str, ...]
    """What the code declares of it: fields as `layout.field`, settings, options, numbers."""
    flow: bool
    """Whether it is an exchange of several messages, which no declaration names."""
    cells: dict[str, tuple[str, ...]]

    def cell(self, column: str) -> tuple[tuple[str, ...], str]:
        """Return the tests of a cell, and its reason when it has none."""
        found = self.cells.get(column, ())
        tests = tuple(each for each in found if each.startswith("tests/"))
        return tests, " ".join(each for each in found if each not in tests)


def elements() -> list[Element]:
    """Return the rows of all protocols."""
    data = tomllib.loads(_SOURCE.read_text(encoding="utf-8"))
    return [
        Element(
            protocol,
            row["element"],
            tuple(row.get("covers", ())),
            row.get("flow", False),
            {column: _texts(row.get(column, ())) for column in COLUMNS},
        )
        for protocol, rows in data.items()
        for row in rows
    ]


def _texts(cell: str | list[str]) -> tuple[str, ...]:
    return (cell,) if isinstance(cell, str) else tuple(cell)


def pages() -> dict[str, str]:
    """Return the page."""
    rows = elements()
    lines = [_INTRODUCTION]
    for protocol in dict.fromkeys(row.protocol for row in rows):
        lines += [f"## {protocol}", ""]
        lines += table(_HEADS, [_cells(row) for row in rows if row.protocol == protocol])
    lines.append("*Generated from `docs/coverage.toml` by `make pages`.*")
    return {"coverage.md": "\n".join(lines) + "\n"}


def _cells(row: Element) -> list[str]:
    covered = ", ".join(f"`{each}`" for each in row.covers)
    name = f"**{row.name}**" + (f": {covered}" if covered else "")
    return [name, *("<br>".join(_shown(row, column)) for column in COLUMNS)]


def _shown(row: Element, column: str) -> Iterator[str]:
    tests, reason = row.cell(column)
    for test in tests:
        yield f"`{test.removeprefix('tests/').replace('.py::test_', ' ')}`"
    if reason:
        yield reason

"""What a kernel writes: flat columns in tables, and how they become Arrow arrays again.

A kernel decodes many slices in one call. Each slice is a row of the root table. What a slice may
have none or many of stands in tables of its own: an alternative of the body has a row for each
slice that chose it, a list a row for each item. Rows are written in the order of the slices, so no
row needs to say whose it is: counting tells.

*Shapes* say how columns make up values. A plan is made by the emitter together with the code that
fills it, so the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from wirelake.wire import model as m

__all__ = [
    "Binary",
    "Choice",
    "Column",
    "Empty",
    "Flags",
    "Lists",
    "Maybe",
    "Numbers",
    "Plan",
    "Reals",
    "RowList",
    "Shape",
    "Staged",
    "Structs",
    "Table",
    "Vars",
]


@dataclass(frozen=True, eq=False)
class Column:
    """One array of a table."""

    name: str
    """A Python identifier, unique in the plan."""
    dtype: str


@dataclass(eq=False)
class Table:
    """Columns of the same length."""

    name: str
    least: int = 0
    """The fewest bytes that a row takes on the wire; 0 when there is one row for each slice."""
    columns: list[Column] = field(default_factory=list)

    def column(self, name: str, dtype: str) -> Column:
        """A new column."""
        found = Column(f"{self.name}_{name}", dtype)
        self.columns.append(found)
        return found


# -- shapes ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Numbers:
    """Integers, in the width of the table of messages."""

    column: Column


@dataclass(frozen=True, eq=False)
class Flags:
    """Booleans, a byte each."""

    column: Column


@dataclass(frozen=True, eq=False)
class Reals:
    """The bits of floating-point numbers."""

    column: Column


@dataclass(frozen=True, eq=False)
class Binary:
    """Bytes or text: where they begin in the buffer, and how many they are."""

    start: Column
    size: Column
    text: str | None
    secret: bool = False


@dataclass(frozen=True, eq=False)
class Staged:
    """Bytes that hold another layout once they are opened."""

    start: Column
    size: Column
    layout: m.Layout


@dataclass(frozen=True, eq=False)
class Maybe:
    """A value that may be absent."""

    valid: Column
    of: Shape


@dataclass(frozen=True, eq=False)
class Lists:
    """Items in a table of their own; `ends` says where those of each row end."""

    ends: Column
    table: Table
    item: Shape


@dataclass(frozen=True, eq=False)
class Vars:
    """Nodes of self-describing values, in a table of their own."""

    ends: Column
    table: Table


@dataclass(frozen=True, eq=False)
class Structs:
    """Named values. A `Choice` among them has no name: its alternatives are fields themselves."""

    fields: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """The alternatives of a body: `tag` holds the place of the chosen one in `names`."""

    tag: Column
    names: tuple[str, ...]
    tables: tuple[Table, ...]
    shapes: tuple[Structs, ...]


@dataclass(frozen=True, eq=False)
class RowList:
    """Rows up to an end row: `tag` holds the type of each; a type without table is opaque."""

    ends: Column
    table: Table
    tag: Column
    names: tuple[str, ...]
    tags: tuple[int, ...]
    tables: tuple[Table, ...]
    shapes: tuple[Structs, ...]
    opaque: Binary


@dataclass(frozen=True, eq=False)
class Empty:
    """A field that a kernel never fills: a message that has it is read by the scalar codec."""

    type: pa.DataType


Shape: TypeAlias = (
    Numbers
    | Flags
    | Reals
    | Binary
    | Staged
    | Maybe
    | Lists
    | Vars
    | Structs
    | Choice
    | RowList
    | Empty
)
"""How columns make up a value."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The tables of a kernel, root first, and the shape of its values."""

    tables: tuple[Table, ...]
    shape: Structs

    @property
    def columns(self) -> list[Column]:
        """All columns, in the order of the kernel's arguments."""
        return [column for table in self.tables for column in table.columns]

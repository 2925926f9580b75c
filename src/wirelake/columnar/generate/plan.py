"""`Plan`: the columns that a kernel writes, and how they form values.

A kernel decodes many slices in one call. Each slice is a row of the root table. Parts that a slice
has none or many of are in tables of their own: an alternative of the body has one row for each
slice that chose it, a list one row for each item. Rows are written in the order of the slices, so a
row needs no reference to its slice: ends and tags are enough to find it.

*Shapes* describe how columns form values, for `decode/arrays.py`. The emitter makes the plan
together with the code that fills it, so the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from wirelake.wire import model as m

__all__ = [
    "BYTES",
    "INTEGER",
    "NODE_COLUMNS",
    "POSITION",
    "REAL32",
    "REAL64",
    "TEXT",
    "Binary",
    "Choice",
    "Column",
    "Empty",
    "Flags",
    "Floats",
    "Lists",
    "Maybe",
    "Nodes",
    "Numbers",
    "Plan",
    "RowList",
    "Shape",
    "Staged",
    "Structs",
    "Table",
]

POSITION = "int32"
"""Dtype of positions in a buffer. A buffer is a window or a frame, far below 2 GiB; half the bytes
of int64 in the columns that take most of the memory."""

NODE_COLUMNS = (
    ("parent", "int32"),
    ("name_start", POSITION),
    ("name_size", POSITION),
    ("type", "int16"),
    ("what", "uint8"),
    ("bits", "int64"),
    ("start", POSITION),
    ("size", POSITION),
)
"""The columns of a table of nodes of self-describing values; a size of -1 means none."""

INTEGER, REAL32, REAL64, TEXT, BYTES = 1, 2, 3, 4, 5
"""Values of `what`: the content of a node; 0 for none."""


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
    min_row_bytes: int = 0
    """Minimum size of a row on the wire, from which `decode/kernel.py` computes the capacity; 0
    when there is one row for each slice."""
    columns: list[Column] = field(default_factory=list)

    def column(self, name: str, dtype: str) -> Column:
        """Add a column."""
        found = Column(f"{self.name}_{name}", dtype)
        self.columns.append(found)
        return found


# -- shapes ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Numbers:
    """Integers, in the width of the table `messages`."""

    column: Column


@dataclass(frozen=True, eq=False)
class Flags:
    """Booleans, one byte each."""

    column: Column


@dataclass(frozen=True, eq=False)
class Floats:
    """The bits of floating-point numbers."""

    column: Column


@dataclass(frozen=True, eq=False)
class Binary:
    """Bytes or text: position and size in the buffer."""

    start: Column
    size: Column
    text: str | None
    secret: bool = False


@dataclass(frozen=True, eq=False)
class Staged:
    """Bytes that contain another layout, possibly encrypted."""

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
    """Items in a table of their own; `ends` has the end of each row's items."""

    ends: Column
    table: Table
    item: Shape


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of self-describing values, in a table of their own."""

    ends: Column
    table: Table


@dataclass(frozen=True, eq=False)
class Structs:
    """Named values. A `Choice` among them has no name: its alternatives are fields themselves."""

    fields: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """The alternatives of a body: `tag` is the index of the chosen one in `names`."""

    tag: Column
    names: tuple[str, ...]
    tables: tuple[Table, ...]
    shapes: tuple[Structs, ...]


@dataclass(frozen=True, eq=False)
class RowList:
    """Rows up to an end row: `tag` is the type of each; a type without a table is opaque."""

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
    """A field that kernels never fill: a message that has it is left to the scalar codec."""

    type: pa.DataType


Shape: TypeAlias = (
    Numbers
    | Flags
    | Floats
    | Binary
    | Staged
    | Maybe
    | Lists
    | Nodes
    | Structs
    | Choice
    | RowList
    | Empty
)
"""How columns form a value."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The tables of a kernel, root first, and the shape of its values."""

    tables: tuple[Table, ...]
    shape: Structs

    @property
    def columns(self) -> list[Column]:
        """All columns, in the order of the kernel's arguments."""
        # The order is part of the interface between the emitted function and `Decoder`.
        return [column for table in self.tables for column in table.columns]

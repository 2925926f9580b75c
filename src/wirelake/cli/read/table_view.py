"""Rows as a text table: aligned, as wide as the terminal, times in UTC.

Only the rows that are shown stay in memory: the first ones in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import click
import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from ..output.rows import values_of
from ..output.sorting import RowOrder, sorted_table
from ..output.text import duration_text, json_text, printable, time_text

__all__ = [
    "COLUMNS",
    "DEFAULT_ROWS",
    "IMPORTANCE",
    "FirstRows",
    "GrowingTable",
    "WrittenTable",
    "write_table",
]

DEFAULT_ROWS: Final = 50
"""Rows of a table without --limit."""
_MAX_CELL_WIDTH: Final = 40
"""Widest cell on a terminal that is too narrow for all columns."""
_MIN_ELASTIC_WIDTH: Final = 16
"""Narrowest elastic cell."""

_RANKS: Final[dict[str, dict[str, int]]] = {
    "messages": {
        "ts_ns": 1, "connection": 8, "direction": 6, "protocol": 2, "kind": 3, "name": 7,
        "target": 4, "status": 5, "size_bytes": 9,
    },
    "packets": {
        "ts_ns": 1, "connection": 10, "direction": 9, "src": 2, "src_port": 3, "dst": 4,
        "dst_port": 5, "flags": 7, "payload_bytes": 6, "note": 8,
    },
    "faults": {
        "ts_ns": 1, "connection": 6, "direction": 5, "protocol": 2, "code": 3, "detail": 4,
        "field": 11, "present_bytes": 8, "missing_bytes": 7, "file": 9, "offset": 10,
    },
    "coverage": {
        "connection": 1, "direction": 2, "protocol": 3, "messages": 7, "faults": 4,
        "span_bytes": 8, "decoded_bytes": 9, "faulty_bytes": 6, "undecryptable_bytes": 10,
        "ignored_bytes": 11, "gap_bytes": 5,
    },
    "calls": {
        "request_ns": 1, "connection": 9, "protocol": 6, "target": 2, "outcome": 3, "status": 5,
        "latency_ns": 4, "client": 7, "cause": 8,
    },
    "deliveries": {
        "first_sent_ns": 1, "notification": 2, "client": 5, "outcome": 3, "latency_ns": 4,
        "sends": 7, "acks": 8, "topic": 6, "first_connection": 9,
    },
    "connections": {
        "first_ns": 1, "connection": 2, "protocol": 3, "client_address": 10, "client_port": 12,
        "server_port": 13, "duration_ns": 5, "messages_c2s": 8, "messages_s2c": 9, "closed_by": 6,
        "closed_how": 11, "faults": 7, "client": 4,
    },
    "tunnels": {
        "first_ns": 1, "connection": 2, "outcome": 3, "user_address": 4, "user_port": 9,
        "messages_c2s": 6, "messages_s2c": 7, "switches": 8, "closed_by": 5, "first_link": 10,
    },
}  # fmt: skip
"""By table: the columns shown without --columns, in their order, each with its importance; 1 is the
most important. A narrow terminal shows those that fit."""
COLUMNS: Final = {table: tuple(ranks) for table, ranks in _RANKS.items()}
"""By table: the columns shown without --columns."""
IMPORTANCE: Final = {
    table: tuple(sorted(ranks, key=ranks.__getitem__)) for table, ranks in _RANKS.items()
}
"""By table: the same columns, the most important first."""

_DURATIONS: Final = frozenset({"latency_ns", "duration_ns", "handshake_ns"})
"""Columns with durations instead of times."""
_ID_SUFFIXES: Final = ("_ns", "_id", "_to", "_port", "_link", "connection", "flags")
"""Suffixes of columns whose numbers are ids, not quantities."""
_ELASTIC: Final = frozenset({"detail", "target", "reason", "file", "body", "client"})
"""Columns that are still useful when truncated."""


class FirstRows:
    """The first rows of a table in an order, up to a limit."""

    def __init__(self, schema: pa.Schema, order: RowOrder, limit: int | None):
        self._order = order
        self._limit = limit
        self._rows = schema.empty_table()
        self.count = 0
        """Number of all rows, including those not kept."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self.count += batch.num_rows
        # Sorted and cut only now and then: the cost of a sort is shared by a thousand rows, and
        # memory stays small however long the capture is.
        self._rows = pa.concat_tables([self._rows, pa.Table.from_batches([batch])])
        if self._limit is not None and self._rows.num_rows > 2 * self._limit + 1_000:
            self._rows = self.table()

    def table(self) -> pa.Table:
        """Return the rows."""
        return sorted_table(self._rows, self._order).slice(0, self._limit).combine_chunks()


class WrittenTable(NamedTuple):
    """What a written table does not show."""

    hidden: list[str]
    """Columns that did not fit."""
    date: str | None
    """Date of all times if they are on one day; the cells then have the time of day only."""


def write_table(
    stream: BinaryIO,
    table: pa.Table,
    names: Sequence[str],
    width: int | None,
    importance: Sequence[str] | None = None,
) -> WrittenTable:
    """Write the columns that fit; all of them if `width` is None.

    `importance` has the same names, the most important first; by default their order.
    """
    date = _only_date(table, names) if width is not None else None
    columns = {name: _cells(name, table.column(name), date) for name in names}
    widths = _fitting(columns, width, importance or names)
    right = {name for name in widths if _is_quantity(table.schema.field(name))}
    header = _line({name: name for name in widths}, widths, right)
    lines = [click.style(header, bold=True) if width is not None else header]
    for number in range(table.num_rows):
        lines.append(_line({name: columns[name][number] for name in widths}, widths, right))
    stream.write("".join(f"{line}\n" for line in lines).encode())
    return WrittenTable([name for name in columns if name not in widths], date)


class GrowingTable:
    """A text table whose rows come in parts: a heading is written where the columns change."""

    def __init__(
        self,
        stream: BinaryIO,
        names: Sequence[str],
        width: int | None,
        importance: Sequence[str] | None = None,
    ):
        self._stream = stream
        self._names = names
        self._width = width
        self._importance = importance or names
        self._widest: dict[str, str] = {name: name for name in names}
        """By column: its widest cell so far."""
        self._widths: dict[str, int] = {}
        self._date: str | None = None

    def write(self, table: pa.Table) -> None:
        """Write more rows, and flush them."""
        if self._width is not None and self._date is None:
            self._date = _only_date(table, self._names)
        columns = {name: _cells(name, table.column(name), self._date) for name in self._names}
        for name, cells in columns.items():
            self._widest[name] = max([self._widest[name], *cells], key=cell_len)
        least = {name: [cell] for name, cell in self._widest.items()}
        widths = _fitting(least, self._width, self._importance)
        right = {name for name in widths if _is_quantity(table.schema.field(name))}
        lines = []
        if widths != self._widths:
            self._widths = widths
            header = _line({name: name for name in widths}, widths, right)
            lines.append(click.style(header, bold=True) if self._width is not None else header)
        for number in range(table.num_rows):
            lines.append(_line({name: columns[name][number] for name in widths}, widths, right))
        self._stream.write("".join(f"{line}\n" for line in lines).encode())
        self._stream.flush()


def _line(cells: Mapping[str, str], widths: Mapping[str, int], right: Collection[str]) -> str:
    """Return a line of padded cells, two spaces apart."""
    return "  ".join(
        _sized(cell, widths[name], right=name in right) for name, cell in cells.items()
    ).rstrip()


def _sized(cell: str, width: int, *, right: bool) -> str:
    """Return a cell padded or truncated to a width in terminal columns; CJK characters take two."""
    missing = width - cell_len(cell)
    if missing < 0:
        return f"{set_cell_size(cell, width - 1)}…"
    return f"{' ' * missing}{cell}" if right else f"{cell}{' ' * missing}"


def _fitting(
    columns: Mapping[str, list[str]], width: int | None, importance: Sequence[str]
) -> dict[str, int]:
    """Return the columns that fit, and their widths."""
    widths = {name: max(map(cell_len, [name, *cells])) for name, cells in columns.items()}
    if width is None or _total(widths) <= width:
        return widths
    widest = {name: min(each, _MAX_CELL_WIDTH, width) for name, each in widths.items()}
    least: dict[str, int] = {}
    # A column that is too wide does not keep out less important ones behind it. But those may not
    # narrow the columns before them: they get only what nothing else could use.
    skipped = False
    for name in importance:
        narrow = min(widest[name], _MIN_ELASTIC_WIDTH) if name in _ELASTIC else widest[name]
        used = _total({each: (widest if skipped else least)[each] for each in least})
        if not least or used + 2 + narrow <= width:
            least[name] = narrow
        else:
            skipped = True
    for name, narrow in least.items():
        least[name] = min(widest[name], narrow + width - _total(least))
    return {name: least[name] for name in columns if name in least}


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + 2 * (len(widths) - 1)


# -- cells -----------------------------------------------------------------------------------


def _cells(name: str, column: pa.ChunkedArray, date: str | None) -> list[str]:
    values = values_of(column.combine_chunks())
    if _is_duration(name):
        return ["" if value is None else duration_text(value) for value in values]
    if name.endswith("_ns"):
        texts = ("" if value is None else time_text(value) for value in values)
        return [text.removeprefix(f"{date} ") for text in texts]
    return [_cell(value) for value in values]


def _only_date(table: pa.Table, names: Iterable[str]) -> str | None:
    """Return the date of all times in a table; None if there are several or none."""
    dates = {
        time_text(value).partition(" ")[0]
        for name in names
        if name.endswith("_ns") and not _is_duration(name)
        for value in table.column(name).to_pylist()
        if value is not None
    }
    return dates.pop() if len(dates) == 1 else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json_text(value))


def _is_duration(name: str) -> bool:
    return name.rpartition(".")[2] in _DURATIONS


def _is_quantity(field: pa.Field) -> bool:
    """Return whether a column has quantities, not ids or times; they are right-aligned."""
    number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    return bool(number) and (_is_duration(field.name) or not field.name.endswith(_ID_SUFFIXES))

"""Rows as a text table: aligned, as wide as the terminal, times in UTC.

Only the rows that are shown stay in memory: the first ones by time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import click
import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from ..output.rows import ORDERS, values_of
from ..output.text import duration_text, json_text, printable, time_text

__all__ = [
    "COLUMNS",
    "DEFAULT_ROWS",
    "IMPORTANCE",
    "TIMES",
    "FirstRows",
    "WrittenTable",
    "write_table",
]

DEFAULT_ROWS: Final = 50
"""Rows of a table without --limit."""
_MAX_CELL_WIDTH: Final = 40
"""Widest cell on a terminal that is too narrow for all columns."""
_MIN_ELASTIC_WIDTH: Final = 16
"""Narrowest elastic cell."""

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "messages": (
        "ts_ns", "connection", "direction", "protocol", "kind", "name", "target", "status",
        "size_bytes",
    ),
    "packets": (
        "ts_ns", "connection", "direction", "src", "src_port", "dst", "dst_port", "flags",
        "payload_bytes", "note",
    ),
    "faults": (
        "ts_ns", "connection", "direction", "protocol", "code", "detail", "field",
        "present_bytes", "missing_bytes", "file", "offset",
    ),
    "coverage": (
        "connection", "direction", "protocol", "messages", "faults", "span_bytes", "decoded_bytes",
        "faulty_bytes", "undecryptable_bytes", "ignored_bytes", "gap_bytes",
    ),
    "calls": (
        "request_ns", "connection", "protocol", "target", "outcome", "status", "latency_ns",
        "client", "cause",
    ),
    "deliveries": (
        "first_sent_ns", "notification", "client", "outcome", "latency_ns", "sends", "acks",
        "topic", "first_connection",
    ),
    "connections": (
        "first_ns", "connection", "protocol", "client_address", "client_port", "server_port",
        "duration_ns", "messages_c2s", "messages_s2c", "closed_by", "closed_how", "faults",
        "client",
    ),
    "tunnels": (
        "first_ns", "connection", "outcome", "user_address", "user_port", "messages_c2s",
        "messages_s2c", "switches", "closed_by", "first_link",
    ),
}  # fmt: skip
"""By table: the columns shown without --columns."""

TIMES: Final = {**{table: order.column for table, order in ORDERS.items()}, "packets": "ts_ns"}
"""By table: the column that orders the rows."""

_DURATIONS: Final = frozenset({"latency_ns", "duration_ns", "handshake_ns"})
"""Columns with durations instead of times."""
_ID_SUFFIXES: Final = ("_ns", "_id", "_to", "_port", "_link", "connection", "flags")
"""Suffixes of columns whose numbers are ids, not quantities."""
_ELASTIC: Final = frozenset({"detail", "target", "reason", "file", "body", "client"})
"""Columns that are still useful when truncated."""
IMPORTANCE: Final[dict[str, tuple[str, ...]]] = {
    "messages": (
        "ts_ns", "protocol", "kind", "target", "status", "direction", "name", "connection",
        "size_bytes",
    ),
    "packets": (
        "ts_ns", "src", "src_port", "dst", "dst_port", "payload_bytes", "flags", "note",
        "direction", "connection",
    ),
    "faults": (
        "ts_ns", "protocol", "code", "detail", "direction", "connection", "missing_bytes",
        "present_bytes", "file", "offset", "field",
    ),
    "coverage": (
        "connection", "direction", "protocol", "faults", "gap_bytes", "faulty_bytes", "messages",
        "span_bytes", "decoded_bytes", "undecryptable_bytes", "ignored_bytes",
    ),
    "calls": (
        "request_ns", "target", "outcome", "latency_ns", "status", "protocol", "client", "cause",
        "connection",
    ),
    "deliveries": (
        "first_sent_ns", "notification", "outcome", "latency_ns", "client", "topic", "sends",
        "acks", "first_connection",
    ),
    "connections": (
        "first_ns", "connection", "protocol", "client", "duration_ns", "closed_by", "faults",
        "messages_c2s", "messages_s2c", "client_address", "closed_how", "client_port",
        "server_port",
    ),
    "tunnels": (
        "first_ns", "connection", "outcome", "user_address", "closed_by", "messages_c2s",
        "messages_s2c", "switches", "user_port", "first_link",
    ),
}  # fmt: skip
"""By table: the same columns, the most important first. A narrow terminal shows those that fit."""


class FirstRows:
    """The first rows of a table by time, up to a limit."""

    def __init__(self, schema: pa.Schema, time: str, limit: int | None):
        self._time = time
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
        return self._rows.sort_by(self._time).slice(0, self._limit).combine_chunks()


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

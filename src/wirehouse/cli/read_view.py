"""Rows as a table that a person can read: aligned, as wide as the terminal, times in UTC.

Only the rows that are shown are held, however many there are: those that come first in time.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import pyarrow as pa

from .read_values import json_text, values_of

__all__ = [
    "COLUMNS",
    "ROWS",
    "TIMES",
    "First",
    "counted",
    "duration_text",
    "printable",
    "time_text",
    "write_table",
]

ROWS: Final = 50
"""Rows that are shown unless more are asked for."""
_WIDEST: Final = 40
"""Characters of a cell that are shown when there is not room for all."""

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
        "ts_ns", "connection", "direction", "protocol", "code", "field", "present_bytes",
        "missing_bytes", "detail", "file", "offset",
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
"""By table: what is shown unless other columns are asked for."""

TIMES: Final = {
    "messages": "ts_ns",
    "packets": "ts_ns",
    "faults": "ts_ns",
    "coverage": "first_ns",
    "calls": "request_ns",
    "deliveries": "first_sent_ns",
    "connections": "first_ns",
    "tunnels": "first_ns",
}
"""By table: the column that says which rows come first."""

_DURATIONS: Final = frozenset({"latency_ns", "duration_ns", "handshake_ns"})


_NO_QUANTITIES: Final = ("_ns", "_id", "_to", "_port", "_link", "connection", "flags", "seq", "ack")


class First:
    """The rows of a table that come first in time, so many of them."""

    def __init__(self, schema: pa.Schema, time: str, limit: int | None):
        self._time = time
        self._limit = limit
        self._held = schema.empty_table()
        self.count = 0
        """All rows, those included that are not held."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes notice of rows."""
        self.count += batch.num_rows
        self._held = pa.concat_tables([self._held, pa.Table.from_batches([batch])])
        if self._limit is not None and self._held.num_rows > 2 * self._limit + 1_000:
            self._held = self.table()

    def table(self) -> pa.Table:
        """The rows."""
        return self._held.sort_by(self._time).slice(0, self._limit).combine_chunks()


def write_table(
    stream: BinaryIO, table: pa.Table, names: Iterable[str], width: int | None
) -> list[str]:
    """Writes the columns that there is room for; gives the names of the others."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [(name, _cells(name, table.column(name))) for name in names]
    shown, widths = _fitting(columns, width)
    view = Table(box=None, pad_edge=False, header_style="bold")
    for (name, _), most in zip(shown, widths, strict=True):
        view.add_column(
            Text(name),
            justify="right" if _is_quantity(table.schema.field(name)) else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=most,
        )
    for row in zip(*(cells for _, cells in shown), strict=True):
        view.add_row(*map(Text, row))
    text = io.StringIO()
    total = sum(widths) + 2 * len(widths)
    Console(file=text, width=total, force_terminal=width is not None, highlight=False).print(view)
    stream.write("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()).encode())
    return [name for name, _ in columns[len(shown) :]]


def _fitting(
    columns: list[tuple[str, list[str]]], width: int | None
) -> tuple[list[tuple[str, list[str]]], list[int]]:
    """The columns that fit, from the left, and their widths."""
    from rich.cells import cell_len

    natural = [max(map(cell_len, [name, *cells])) for name, cells in columns]
    if width is None or sum(natural) + 2 * len(natural) <= width:
        return columns, natural
    capped = [min(each, _WIDEST) for each in natural]
    count = len(capped)
    while count > 1 and sum(capped[:count]) + 2 * count > width:
        count -= 1
    return columns[:count], capped[:count]


# -- cells -----------------------------------------------------------------------------------


def _cells(name: str, column: pa.ChunkedArray) -> list[str]:
    values = values_of(column.combine_chunks() if column.num_chunks else pa.array([], column.type))
    if name.rpartition(".")[2] in _DURATIONS:
        return ["" if value is None else duration_text(value) for value in values]
    if name.endswith("_ns"):
        return _times(values)
    return [_cell(value) for value in values]


def _times(values: list[int | None]) -> list[str]:
    """Times; the date only in the first row and where it changes."""
    texts: list[str] = []
    last = ""
    for value in values:
        date, _, clock = "".join(() if value is None else time_text(value)).partition(" ")
        texts.append(f"{'' if date == last else date} {clock}" if clock else date)
        last = date or last
    width = max(map(len, texts), default=0)
    return [f"{text:>{width}}" for text in texts]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json_text(value))


def _is_quantity(field: pa.Field) -> bool:
    """Whether a column has numbers that are compared at a glance: no ids, no times."""
    number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    name = field.name.rpartition(".")[2]
    return bool(number) and (name in _DURATIONS or not name.endswith(_NO_QUANTITIES))


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def counted(count: int, noun: str) -> str:
    """So many of them."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def time_text(ns: int) -> str:
    """A time in UTC, to the microsecond."""
    try:
        whole = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ns)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{ns % 1_000_000_000 // 1_000:06d}"


def duration_text(ns: int) -> str:
    """A duration with three digits and a unit."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)):
        if abs(ns) >= size:
            return f"{ns / size:,.3f} {unit}" if unit == "s" else f"{ns / size:.3g} {unit}"
    return f"{ns} ns"

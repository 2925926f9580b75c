"""Tables for people: which rows, which columns, how wide; and the words for times."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from wirelake.cli.output.rows import ORDERS
from wirelake.cli.output.sorting import RowOrder
from wirelake.cli.output.text import counted, duration_text, printable, time_text
from wirelake.cli.read import table_view
from wirelake.columnar.read.reader import TABLES, ReadOptions, table_schema

SECOND = 1_000_000_000
NOON = 1_767_614_400 * SECOND


def shown(table: pa.Table, width: int | None) -> tuple[list[str], table_view.WrittenTable]:
    stream = io.BytesIO()
    about = table_view.write_table(stream, table, table.column_names, width)
    return stream.getvalue().decode().splitlines(), about


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_its_columns(table: str) -> None:
    known = table_schema(ReadOptions(table=table)).names
    assert set(table_view.COLUMNS[table]) <= set(known)
    assert ORDERS[table].column in known


@given(
    times=st.lists(st.none() | st.integers(0, 1000), max_size=60),
    cut=st.integers(1, 20),
    limit=st.none() | st.integers(1, 70),
)
def test_the_first_rows_however_they_come(
    times: list[int | None], cut: int, limit: int | None
) -> None:
    schema = pa.schema([("ts_ns", pa.int64()), ("number", pa.int64())])
    first = table_view.FirstRows(schema, RowOrder("ts_ns"), limit)
    for start in range(0, len(times), cut):
        part = times[start : start + cut]
        rows = [{"ts_ns": each, "number": start + n} for n, each in enumerate(part)]
        first.add(pa.RecordBatch.from_pylist(rows, schema=schema))
    wanted = sorted((each is None, each) for each in times)[:limit]
    assert first.table().column("ts_ns").to_pylist() == [each for _, each in wanted]
    assert first.count == len(times)


def test_few_rows_are_kept() -> None:
    schema = pa.schema([("ts_ns", pa.int64())])
    first = table_view.FirstRows(schema, RowOrder("ts_ns"), 5)
    for start in range(0, 100_000, 1_000):
        times = pa.array(range(200_000 - start, 199_000 - start, -1), pa.int64())
        first.add(pa.RecordBatch.from_arrays([times], schema=schema))
        assert first._rows.num_rows <= 3_000
    assert first.table().column("ts_ns").to_pylist() == [100_001 + n for n in range(5)]


def test_cells() -> None:
    table = pa.table(
        {
            "ts_ns": [NOON + 1_234_567, None],
            "latency_ns": pa.array([1_500_000, None]),
            "connection": [7, 12345],
            "name": ["a\x1b[31m", None],
            "ids": [["x", "y"], None],
            "body": pa.array([b"\0\1", b"text"]),
        }
    )
    lines, about = shown(table, None)
    assert [line.split() for line in lines] == [
        ["ts_ns", "latency_ns", "connection", "name", "ids", "body"],
        ["2026-01-05", "12:00:00.001234", "1.5", "ms", "7", "a\\x1b[31m", '["x","y"]',
         '{"hex":"0001"}'],
        ["12345", "text"],
    ]  # fmt: skip
    assert about == ([], None)


def test_one_day_is_printed_once_on_a_terminal() -> None:
    table = pa.table({"ts_ns": [NOON, NOON + 60 * SECOND]})
    lines, about = shown(table, 80)
    assert about.date == "2026-01-05"
    assert lines[1:] == ["12:00:00.000000", "12:01:00.000000"]
    lines, about = shown(pa.table({"ts_ns": [NOON, NOON + 86_400 * SECOND]}), 80)
    assert about.date is None
    assert lines[2] == "2026-01-06 12:00:00.000000"


@given(
    width=st.integers(1, 120),
    table=st.sampled_from(TABLES),
    text=st.text(st.characters(codec="utf-8"), max_size=80),
)
def test_a_table_is_never_wider_than_its_terminal(width: int, table: str, text: str) -> None:
    schema = table_schema(ReadOptions(table=table, columns=table_view.COLUMNS[table]))
    values = {pa.string(): text, pa.int32(): 65_535}
    row = [values.get(field.type, NOON) for field in schema]
    filled = pa.table([[cell] for cell in row], schema=schema)
    stream = io.BytesIO()
    about = table_view.write_table(stream, filled, schema.names, width)
    lines = stream.getvalue().decode().split("\n")
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert len(plain) == 3
    assert all(cell_len(line) <= width for line in plain)
    assert len(about.hidden) < len(schema.names)
    header = plain[0].split()
    if width >= 40:
        assert not set(header) & set(about.hidden)


def test_what_yields_first() -> None:
    schema = table_schema(ReadOptions(columns=table_view.COLUMNS["messages"]))
    row = [
        NOON, 1 << 62, "c2s", "comet", "request", "subscribe", "room/" + "x" * 30, "ok", 200,
    ]  # fmt: skip
    table = pa.table([[cell] for cell in row], schema=schema)
    importance = table_view.IMPORTANCE["messages"]
    hidden = {width: _written(table, width, importance)[1].hidden for width in (200, 110, 95, 80)}
    assert hidden[200] == []
    assert hidden[110] == ["size_bytes"]
    assert hidden[95] == ["connection", "size_bytes"]
    assert hidden[80] == ["connection", "name", "size_bytes"]
    assert "room/xxx" in _written(table, 80, importance)[0][1]
    # Columns that were asked for yield from the last to the first.
    assert shown(table, 80)[1].hidden == ["target", "status", "size_bytes"]


def _written(
    table: pa.Table, width: int, importance: tuple[str, ...]
) -> tuple[list[str], table_view.WrittenTable]:
    stream = io.BytesIO()
    about = table_view.write_table(stream, table, table.column_names, width, importance)
    return stream.getvalue().decode().splitlines(), about


@pytest.mark.parametrize("table", TABLES)
def test_eighty_columns_show_what_happened(table: str) -> None:
    """When, what and how it ended: the ids of connections may be as long as they get."""
    wanted = {
        "messages": {"ts_ns", "protocol", "kind", "target", "status"},
        "packets": {"ts_ns", "src", "src_port", "dst", "dst_port"},
        "calls": {"request_ns", "target", "outcome", "latency_ns", "status"},
        "deliveries": {"first_sent_ns", "notification", "outcome", "latency_ns"},
        "connections": {"first_ns", "connection", "protocol", "client"},
        "tunnels": {"first_ns", "connection", "outcome"},
        "faults": {"ts_ns", "protocol", "code", "detail"},
        "coverage": {"connection", "direction", "protocol", "faults", "gap_bytes"},
    }
    texts = {
        "direction": "c2s", "protocol": "magline", "kind": "response", "status": "ok",
        "outcome": "answered", "code": "trailing_bytes", "src": "127.0.0.1", "dst": "127.0.0.1",
        "notification": "m0123456789abcdef", "target": "some-service/some-operation",
    }  # fmt: skip
    schema = table_schema(ReadOptions(table=table, columns=table_view.COLUMNS[table]))
    cells = [
        texts.get(field.name, "x" * 30)
        if field.type == pa.string()
        else 1_500_000
        if field.name == "latency_ns"
        else 9_620
        if field.type == pa.int32() or field.name.endswith("_bytes")
        else NOON
        if field.name.endswith("_ns")
        else 3
        if field.name in ("faults", "messages", "sends", "acks")
        else 1 << 62
        for field in schema
    ]
    filled = pa.table([[cell] for cell in cells], schema=schema)
    lines, about = _written(filled, 80, table_view.IMPORTANCE[table])
    assert wanted[table] <= set(schema.names) - set(about.hidden), lines
    assert set(table_view.IMPORTANCE[table]) == set(table_view.COLUMNS[table])


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 us"),
        (12_345, "12.3 us"),
        (1_500_000, "1.5 ms"),
        (999_400_000, "999 ms"),
        (1_234_567_890, "1.235 s"),
        (7_200 * SECOND, "7,200.000 s"),
        (-5_000_000, "-5 ms"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert duration_text(ns) == text


def test_times() -> None:
    assert time_text(0) == "1970-01-01 00:00:00.000000"
    assert time_text(NOON + 999_999_999) == "2026-01-05 12:00:00.999999"
    assert time_text(-1) == "1969-12-31 23:59:59.999999"


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_time_has_a_text(ns: int) -> None:
    assert time_text(ns)


@given(st.text())
def test_what_is_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text


def test_counts() -> None:
    assert [counted(n, "row") for n in (0, 1, 1_000)] == ["0 rows", "1 row", "1,000 rows"]

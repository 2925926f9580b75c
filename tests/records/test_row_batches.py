"""Rows of engines out of Arrow batches, and batches out of rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols import registry
from wirelake.records.calls import CallsEngine
from wirelake.records.protocol_rules import rules_of
from wirelake.records.rows import MessageRow, fields_of, rows_from_batch
from wirelake.records.schema import COMMON, schema

from .row_batches import batch_from_rows, fault_rows
from .scenes import answer, ask, run

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=3)


def _rows() -> st.SearchStrategy[dict[str, Any]]:
    optional = {
        "first_ns": NUMBERS,
        "message_id": NUMBERS,
        "reply_to": NUMBERS,
        "target": TEXTS,
        "status": TEXTS,
        "reason": TEXTS,
        "client": TEXTS,
        "ids": st.lists(TEXTS, max_size=3),
        "body_bytes": NUMBERS,
        "tunnel_link": NUMBERS,
    }
    always = {
        "ts_ns": NUMBERS,
        "connection": NUMBERS,
        "direction": st.sampled_from(["c2s", "s2c"]),
        "protocol": TEXTS,
        "kind": TEXTS,
        "name": TEXTS,
        "size_bytes": NUMBERS,
    }
    return st.fixed_dictionaries(
        always | {name: st.none() | each for name, each in optional.items()}
    )


@given(st.lists(_rows(), max_size=8), st.integers(0, 3))
def test_rows_are_those_of_the_batch(some: list[dict[str, Any]], skipped: int) -> None:
    batch = pa.RecordBatch.from_pylist(some, schema=COMMON).slice(skipped)
    assert rows_from_batch(batch) == [MessageRow(**row) for row in some[skipped:]]


def test_columns_that_a_batch_lacks_are_null() -> None:
    columns = ["ts_ns", "connection", "direction", "protocol", "kind", "name", "size_bytes"]
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(columns, (1, 2, "c2s", "tny", "request", "request", 9), strict=True))],
        schema=pa.schema([COMMON.field(name) for name in columns]),
    )
    (row,) = rows_from_batch(batch)
    assert row == MessageRow(1, None, 2, "c2s", "tny", "request", "request", size_bytes=9)


def test_text_may_come_in_dictionaries() -> None:
    columns = {
        name: pa.array([value, value])
        for name, value in (("ts_ns", 1), ("connection", 2), ("size_bytes", 3))
    }
    for name in ("direction", "protocol", "kind", "name", "target"):
        columns[name] = pa.array(["x", None]).dictionary_encode()
    first, second = rows_from_batch(pa.RecordBatch.from_pydict(columns))
    assert (first.target, second.target, second.ts_ns) == ("x", None, 1)


STRUCTS: dict[tuple[str, str], dict[str, Any]] = {
    ("comet", "message"): {"message": {"ts": 5, "msg_id": "m"}},
    ("comet", "message_list"): {"message_list": {"messages": [{"ts": 5}, {"ts": 6}]}},
    ("comet", "report_environ"): {
        "report_environ": {"network_type": 1, "isp": 2, "phone_type": "p"}
    },
    ("magline", "syn"): {"resume": {"sid": b"s"}},
    ("relay", "tunnel_connect"): {"tunnel_connect": {"ip": b"abcd", "port": 9}},
    ("relay", "tunnel_connected"): {"tunnel_connected": {"result": True}},
}
FIELDS = [
    {"ts": 5},
    {"ts": [5, 6]},
    {"network_type": 1, "isp": 2, "phone_type": "p"},
    {"resume_sid": b"s"},
    {"ip": b"abcd", "port": 9},
    {"result": True},
]


def _message(protocol: str, name: str, struct: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "ts_ns": 1,
        "connection": 2,
        "direction": "c2s",
        "protocol": protocol,
        "kind": "request",
        "name": name,
        "size_bytes": 3,
        protocol: struct,
    }


def test_fields_that_engines_want() -> None:
    wanted = {(name, message) for name in registry.BUILT_IN for message in rules_of(name).fields}
    assert set(STRUCTS) == wanted
    messages = [_message(*pair, struct) for pair, struct in STRUCTS.items()]
    batch = pa.RecordBatch.from_pylist(messages, schema=schema("messages"))
    assert [row.fields for row in rows_from_batch(batch)] == FIELDS
    assert [fields_of(*pair, struct) for pair, struct in STRUCTS.items()] == FIELDS


def test_fields_that_are_not_there() -> None:
    messages = [
        _message("comet", "message_list", {"message_list": None}),
        _message("comet", "message", None),
        _message("comet", "auth", {"auth": {"client_id": "c"}}),
    ]
    batch = pa.RecordBatch.from_pylist(messages, schema=schema("messages"))
    assert [row.fields for row in rows_from_batch(batch)] == [{"ts": None}, {"ts": None}, None]
    assert fields_of("comet", "message_list", {"message_list": None}) == {"ts": None}
    assert fields_of("comet", "message_list", {"message_list": {"messages": None}}) == {"ts": None}
    assert fields_of("comet", "message", None) is None
    assert fields_of("tny", "ping", {}) is None


def test_faults_of_streams() -> None:
    columns = ["ts_ns", "connection", "direction", "code", "missing_bytes", "protocol"]
    rows = [(5, 7, "c2s", "gap", 9, "tny"), (5, None, None, "bad_block", 0, None)]
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in rows], schema=schema("faults")
    )
    (row,) = fault_rows(batch)
    assert (row.ts_ns, row.connection, row.direction, row.code) == (5, 7, "c2s", "gap")
    assert (row.missing_bytes, row.protocol) == (9, "tny")


def test_rows_become_a_batch() -> None:
    events = [
        each for number in range(1, 1501) for each in (ask(number, number), answer(2000, number))
    ]
    rows = run(CallsEngine(), events)
    batch = batch_from_rows("calls", rows)
    assert batch.schema == schema("calls")
    assert batch.column("message_id").to_pylist() == list(range(1, 1501))
    assert batch.column("latency_ns").to_pylist() == [2000 - number for number in range(1, 1501)]
    assert batch_from_rows("calls", []).num_rows == 0

"""Values of Arrow arrays for JSON: whatever the type, and as Arrow itself would have them."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.cli.output.rows import bytes_value, rows_of, values_of, write_csv, write_json
from wirelake.cli.output.sorting import RowOrder
from wirelake.cli.output.text import json_text
from wirelake.protocols.esnp.layout import VarType

PLAIN: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
}


def nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(kinds, min_size=1, max_size=3).map(
        lambda found: pa.struct([(f"f{n}", kind) for n, kind in enumerate(found)])
    )
    return kinds.map(pa.list_) | structs


def test_unsigned_integers_are_positive() -> None:
    node = pa.struct([("parent", pa.int32()), ("type", pa.int16()), ("int", pa.int64())])
    kinds = (VarType.UINT64, VarType.INT64, VarType.UINT64)
    rows = [
        {"parent": -1, "type": int(kind), "int": n}
        for kind, n in zip(kinds, (-1, -1, 5), strict=True)
    ]
    found = values_of(pa.array([rows, None], pa.list_(node)))
    assert [each["int"] for each in found[0]] == [(1 << 64) - 1, -1, 5]


KINDS = st.recursive(st.sampled_from(list(PLAIN)), nested, max_leaves=5)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        found = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_list(kind):
        found = st.lists(values(kind.value_type), max_size=3)
    else:
        found = PLAIN[kind]
    return st.none() | found


def expected(value: Any) -> Any:
    """One value at a time, by what the page says."""
    match value:
        case dict():
            return {name: expected(each) for name, each in value.items() if each is not None}
        case list():
            return [expected(each) for each in value]
        case bytes():
            return bytes_value(value)
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case _:
            return value


@given(st.data())
def test_values_are_those_of_arrow(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    rows = data.draw(st.lists(values(kind), max_size=8))
    array = pa.array(rows, kind)
    start = data.draw(st.integers(0, len(rows)))
    assert values_of(array) == [expected(row) for row in rows]
    assert values_of(array[start:]) == [expected(row) for row in rows[start:]]


@given(st.binary(max_size=40))
def test_bytes_can_be_had_again(data: bytes) -> None:
    found = json.loads(json_text(bytes_value(data)))
    again = found.encode() if isinstance(found, str) else bytes.fromhex(found["hex"])
    assert again == data


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", ""),
        (b"plain", "plain"),
        ("早安\n\t".encode(), "早安\n\t"),
        (b"\0", {"hex": "00"}),
        (b"\x1b[31m", {"hex": "1b5b33316d"}),
        (b"\xff", {"hex": "ff"}),
    ],
)
def test_bytes(data: bytes, value: Any) -> None:
    assert bytes_value(data) == value


@given(st.text(st.characters(codec="utf-8")))
def test_json_is_one_line_that_a_terminal_shows(text: str) -> None:
    line = json_text({"text": text})
    assert line.isprintable()
    assert json.loads(line) == {"text": text}


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_structs_that_are_null_are_left_out_of_rows() -> None:
    found = batch(a=[1, None], s=[{"x": None, "y": 2}, None], t=[None, {"x": 3}])
    assert list(rows_of(found, ["a", "s", "t"])) == [
        {"a": 1, "s": {"y": 2}},
        {"a": None, "t": {"x": 3}},
    ]
    assert list(rows_of(found, ["t"])) == [{}, {"t": {"x": 3}}]


def test_rows_beyond_one_slice() -> None:
    found = batch(a=list(range(3_000)))
    assert [row["a"] for row in rows_of(found, ["a"])] == list(range(3_000))


def test_rows_come_in_order_or_as_they_are() -> None:
    windows = [[batch(ts=[6, 2, None], n=[6, 2, 7])], [batch(ts=[3], n=[3])]]

    def written(order: RowOrder | None, limit: int | None = None) -> list[int]:
        stream = io.BytesIO()
        count = write_json(windows, stream, ["n"], order, limit)
        found = [json.loads(line)["n"] for line in stream.getvalue().splitlines()]
        assert count == len(found)
        return found

    assert written(RowOrder("ts")) == [2, 3, 6, 7]
    assert written(RowOrder("ts", descending=True), 2) == [6, 3]
    assert written(None) == [6, 2, 7, 3]
    assert written(None, 3) == [6, 2, 7]


def test_integers_that_a_float_cannot_hold_are_text() -> None:
    large = 2**53
    found = batch(
        connection=[1, large], ts_ns=[large, 2 * large], n=[large - 1, large], u=[None, 2**63 - 1],
        s=[{"message_id": 1, "x": [large + 1]}, {"message_id": None, "x": [5]}],
    )  # fmt: skip
    stream = io.BytesIO()
    write_json([[found]], stream, found.schema.names, None, None)
    one, other = map(json.loads, stream.getvalue().splitlines())
    assert one == {
        "connection": "1", "ts_ns": large, "n": large - 1, "u": None,
        "s": {"message_id": "1", "x": [str(large + 1)]},
    }  # fmt: skip
    assert other == {
        "connection": str(large), "ts_ns": 2 * large, "n": str(large), "u": str(2**63 - 1),
        "s": {"x": [5]},
    }  # fmt: skip


def test_csv_quotes_what_it_must() -> None:
    stream = io.BytesIO()
    found = batch(a=['x,"y"\n', None], b=[True, None], c=[[1, 2], []], d=[b"\0", b"ok"])
    assert write_csv([[found]], stream, ["a", "b", "c", "d"], None, None) == 2
    assert stream.getvalue().decode() == (
        'a,b,c,d\n"x,""y""\n",true,"[1,2]","{""hex"":""00""}"\n,,[],ok\n'
    )


def test_integers_of_self_describing_values() -> None:
    kinds = {"u": VarType.UINT64, "s": VarType.INT64}
    for number, name, wanted in (
        (-1, "u", str(2**64 - 1)),
        (-1, "s", -1),
        (-(2**60), "u", str(2**64 - 2**60)),
        (-(2**60), "s", str(-(2**60))),
        (2**60, "s", str(2**60)),
    ):
        node = {"parent": -1, "type": int(kinds[name]), "int": number}
        found = list(rows_of(batch(v=[{"v": [node]}]), ["v"], exact=True))
        assert found[0]["v"]["v"][0]["int"] == wanted

"""Pushed-down conditions are translated exactly to the filter language, or left to Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from wirelake.lake.datasource.pushdown import conditions
from wirelake.records.filter import compile_filter

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("inner", pa.struct([pa.field("text", pa.string())])),
    ]
)

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.fixed_dictionaries(
    {
        "number": st.none() | NUMBERS | st.integers(-3, 3),
        "text": st.none() | st.text(max_size=4) | st.sampled_from("ab"),
        "flag": st.none() | st.booleans(),
        "inner": st.none() | st.fixed_dictionaries({"text": st.none() | st.text(max_size=2)}),
    }
)
COMPARISONS = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
COLUMNS: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("number",): NUMBERS | st.integers(-3, 3),
    ("text",): st.text(max_size=4) | st.sampled_from(["a", "b", '"', "\\", "\\n", "\n"]),
    ("inner", "text"): st.text(max_size=2),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    path = draw(st.sampled_from(list(COLUMNS)))
    value = COLUMNS[path]
    return draw(
        st.one_of(
            st.builds(lambda kind, v: kind(path, v), st.sampled_from(COMPARISONS), value),
            st.builds(lambda vs: In(path, tuple(vs)), st.lists(value, min_size=1, max_size=3)),
            st.sampled_from([IsNull(path), IsNotNull(path)]),
        )
    )


def meant(condition: Any, row: dict[str, Any]) -> bool:
    """What Spark means, with unknown as false."""
    value: Any = row
    for step in condition.attribute:
        value = None if value is None else value[step]
    match condition:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case In():
            return value is not None and value in condition.value
    if value is None:
        return False
    mine, other = (_ordered(value), _ordered(condition.value))
    return {
        EqualTo: mine == other,
        GreaterThan: mine > other,
        GreaterThanOrEqual: mine >= other,
        LessThan: mine < other,
        LessThanOrEqual: mine <= other,
    }[type(condition)]


def _ordered(value: Any) -> Any:
    """Spark orders texts by their bytes."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@given(st.lists(filters(), max_size=3), st.lists(ROWS, max_size=5))
def test_pushed_filters_keep_their_meaning(asked: list[Filter], rows: list[dict[str, Any]]) -> None:
    taken, rest = conditions(asked, SCHEMA)
    assert len(taken) + len(rest) == len(asked)
    mine = [each for each in asked if not any(each is other for other in rest)]
    for text, condition in zip(taken, mine, strict=True):
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        found = compile_filter(text, SCHEMA).mask(batch).to_pylist()
        assert found == [meant(condition, row) for row in rows]


def test_common_filters_are_pushed_down() -> None:
    asked: list[Filter] = [
        IsNotNull(("number",)),
        GreaterThan(("number",), 5),
        EqualTo(("text",), 'a"b'),
        EqualTo(("flag",), True),
        In(("inner", "text"), ("x", "y")),
    ]
    assert conditions(asked, SCHEMA) == (
        [
            "number is not null",
            "number > 5",
            'text == "a\\"b"',
            "flag == true",
            'inner.text in ("x", "y")',
        ],
        [],
    )


def test_other_filters_stay_in_spark() -> None:
    asked: list[Filter] = [
        Not(EqualTo(("number",), 5)),
        EqualNullSafe(("number",), 5),
        StringContains(("text",), "x"),
        EqualTo(("number",), 1.5),
        In(("number",), (1, None)),
        EqualTo(("nothing",), 5),
    ]
    taken, rest = conditions(asked, SCHEMA)
    assert taken == []
    assert all(mine is other for mine, other in zip(rest, asked, strict=True))

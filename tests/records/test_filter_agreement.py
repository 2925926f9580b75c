"""A filter says the same of a batch and of each of its rows, and never fails once compiled."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from wirelake.records.filter import Filter, FilterError, compile_filter

SCHEMA = pa.schema(
    [
        ("count", pa.int64()),
        ("small", pa.int8()),
        ("ratio", pa.float64()),
        ("rough", pa.float32()),
        ("name", pa.string()),
        ("code", pa.dictionary(pa.int8(), pa.string())),
        ("data", pa.binary()),
        ("on", pa.bool_()),
        ("ids", pa.list_(pa.string())),
        ("s", pa.struct([("n", pa.int32()), ("t", pa.struct([("x", pa.string())]))])),
    ]
)

TEXTS = st.text(st.sampled_from('ab*?\\"\n/é通'), max_size=4)
INTEGERS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


def rows() -> st.SearchStrategy[dict[str, Any]]:
    """Rows that fit the schema, with nulls anywhere."""
    columns: dict[str, st.SearchStrategy[Any]] = {
        "count": INTEGERS,
        "small": st.integers(-128, 127),
        "ratio": st.floats(),
        "rough": st.floats(width=32),
        "name": TEXTS,
        "code": TEXTS,
        "data": st.binary(max_size=2),
        "on": st.booleans(),
        "ids": st.lists(TEXTS, max_size=3),
        "s": st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(-3, 3),
                "t": st.none() | st.fixed_dictionaries({"x": st.none() | TEXTS}),
            }
        ),
    }
    return st.fixed_dictionaries({name: st.none() | each for name, each in columns.items()})


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


NUMBERS = st.one_of(
    INTEGERS.map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(-4, 4).map(lambda number: f"{number:.3f}"),
    st.floats(allow_nan=False, allow_infinity=False, max_value=1e299, min_value=-1e299).map(
        lambda number: f"{number:.17e}"
    ),
)
MARKS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
LITERALS: dict[str, st.SearchStrategy[str]] = {
    "count": NUMBERS,
    "small": NUMBERS,
    "ratio": NUMBERS,
    "rough": NUMBERS,
    "s.n": NUMBERS,
    "name": TEXTS.map(_quoted),
    "code": TEXTS.map(_quoted),
    "s.t.x": TEXTS.map(_quoted),
    "data": st.binary(max_size=2).map(lambda data: f'x"{data.hex()}"'),
    "on": st.sampled_from(["true", "false"]),
}
NUMERIC = ["count", "small", "ratio", "rough", "s.n"]
TEXTUAL = ["name", "code", "s.t.x"]


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """One comparison of any form."""
    column = draw(st.sampled_from(list(LITERALS)))
    literal, mark = draw(LITERALS[column]), draw(MARKS)
    values = ", ".join(draw(st.lists(LITERALS[column], min_size=1, max_size=3)))
    alike = NUMERIC if column in NUMERIC else TEXTUAL if column in TEXTUAL else [column]
    nullable = draw(st.sampled_from([*SCHEMA.names, "s.n", "s.t", "s.t.x"]))
    return draw(
        st.sampled_from(
            [
                f"{column} {mark} {literal}",
                f"{literal} {mark} {column}",
                f"{column} {mark} {draw(st.sampled_from(alike))}",
                f"{column} in ({values})",
                f"{column} not in ({values})",
                f"{nullable} is null",
                f"{nullable} is not null",
                f"{draw(st.sampled_from(TEXTUAL))} ~ {_quoted(draw(TEXTS))}",
                f"{draw(st.sampled_from(TEXTUAL))} !~ {_quoted(draw(TEXTS))}",
                f"{_quoted(draw(TEXTS))} in ids",
                f"{_quoted(draw(TEXTS))} not in ids",
                "on",
            ]
        )
    )


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not ({text})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda texts: f"({' and '.join(texts)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda texts: f"({' or '.join(texts)})"),
    ),
    max_leaves=5,
)


@given(FILTERS, st.lists(rows(), max_size=6), st.integers(0, 2))
def test_batch_and_rows_agree(text: str, some: list[dict[str, Any]], skipped: int) -> None:
    compiled = compile_filter(text, SCHEMA)
    batch = pa.RecordBatch.from_pylist(some, schema=SCHEMA).slice(skipped)
    mask = compiled.mask(batch)
    assert mask.type == pa.bool_()
    assert mask.null_count == 0
    assert mask.to_pylist() == [compiled.test(row) for row in batch.to_pylist()]


@given(FILTERS, rows())
def test_of_a_filter_and_its_opposite_at_most_one_is_true(text: str, row: dict[str, Any]) -> None:
    direct, opposite = (compile_filter(each, SCHEMA) for each in (text, f"not ({text})"))
    assert not (direct.test(row) and opposite.test(row))


@given(
    st.text(max_size=30)
    | st.lists(
        st.sampled_from(
            [*SCHEMA.names, "and", "or", "not", "in", "is", "null", "(", ")", ",", "=="]
        )
        | NUMBERS
        | st.sampled_from(["5ms", "2026-01-01", '"x"', "'", "~", 'x"00"', "<", "true", "s.t"]),
        max_size=12,
    ).map(" ".join)
)
def test_any_text_is_a_filter_or_an_error_with_a_place(text: str) -> None:
    found = _read(text)
    if isinstance(found, FilterError):
        assert 0 <= found.start <= found.stop <= max(len(text), 1)
        assert "^" in str(found)
    else:
        assert found.test({}) in (True, False)
        assert len(found.mask(pa.RecordBatch.from_pylist([{}], schema=SCHEMA))) == 1


def _read(text: str) -> Filter | FilterError:
    try:
        return compile_filter(text, SCHEMA)
    except FilterError as error:
        return error

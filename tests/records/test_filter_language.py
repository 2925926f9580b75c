"""The filter language: what each form means, and what an error says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from wirelake.records.filter import FilterError, compile_filter
from wirelake.records.schema import schema

SCHEMA = pa.schema(
    [
        ("count", pa.int64()),
        ("small", pa.int16()),
        ("ratio", pa.float64()),
        ("target", pa.string()),
        ("status", pa.dictionary(pa.int32(), pa.string())),
        ("body", pa.binary()),
        ("sealed", pa.bool_()),
        ("ids", pa.list_(pa.string())),
        ("ts_ns", pa.int64()),
        ("wait_ms", pa.int64()),
        ("size_bytes", pa.int64()),
        (
            "comet",
            pa.struct(
                [
                    ("auth", pa.struct([("client_id", pa.string()), ("level", pa.int32())])),
                    ("messages", pa.list_(pa.struct([("ts", pa.int64())]))),
                ]
            ),
        ),
    ]
)


def holds(text: str, **row: Any) -> bool:
    """What a filter says of a row, both ways."""
    compiled = compile_filter(text, SCHEMA)
    batch = pa.RecordBatch.from_pylist([row], schema=SCHEMA)
    (masked,) = compiled.mask(batch).to_pylist()
    assert compiled.test(row) is masked
    assert compiled.select(batch).num_rows == int(masked)
    return bool(masked)


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("count == 5", {"count": 5}, True),
        ("count = 5", {"count": 5}, True),
        ("count <> 5", {"count": 5}, False),
        ("count != 5", {"count": 6}, True),
        ("5 < count", {"count": 6}, True),
        ("5 >= count", {"count": 6}, False),
        ("count > -1", {"count": 0}, True),
        ("count == 0xff", {"count": 255}, True),
        ("count == 1_000", {"count": 1000}, True),
        ("count > 1.5", {"count": 2}, True),
        ("count >= 1.5", {"count": 1}, False),
        ("count < 1.5", {"count": 1}, True),
        ("count <= 1.5", {"count": 2}, False),
        ("count == 1.5", {"count": 1}, False),
        ("count != 1.5", {"count": 1}, True),
        ("count == 2.0", {"count": 2}, True),
        ("count < 1e30", {"count": 2**63 - 1}, True),
        ("count > -99999999999999999999", {"count": -(2**63)}, True),
        ("count == 99999999999999999999", {"count": 1}, False),
        ("count != 99999999999999999999", {"count": 1}, True),
        ("count > 99999999999999999999", {"count": 1}, False),
        ("ratio == 1", {"ratio": 1.0}, True),
        ("ratio > 0.1", {"ratio": 0.1}, False),
        ("small < 100000", {"small": 32767}, True),
        ('target == "a"', {"target": "a"}, True),
        ("target == 'it\\'s'", {"target": "it's"}, True),
        ('target == "a\\nb"', {"target": "a\nb"}, True),
        ('target < "b"', {"target": "a"}, True),
        ('status == "ok"', {"status": "ok"}, True),
        ('body == x"00ff"', {"body": b"\x00\xff"}, True),
        ("sealed", {"sealed": True}, True),
        ("not sealed", {"sealed": True}, False),
        ("sealed == false", {"sealed": False}, True),
        ("count == small", {"count": 3, "small": 3}, True),
        ("count > ratio", {"count": 3, "ratio": 2.5}, True),
        ("wait_ms > 2s", {"wait_ms": 2001}, True),
        ("wait_ms == 1us", {"wait_ms": 0}, False),
        ("wait_ms > 1us", {"wait_ms": 0}, False),
        ("ts_ns == 1.5µs", {"ts_ns": 1500}, True),
        ("ts_ns >= 1970-01-02", {"ts_ns": 86_400 * 10**9}, True),
        ("ts_ns == 1970-01-01T00:00:01.5Z", {"ts_ns": 1_500_000_000}, True),
        ("ts_ns == 1970-01-01T02:00+02:00", {"ts_ns": 0}, True),
        ("size_bytes == 1.5KiB", {"size_bytes": 1536}, True),
        ("size_bytes == 2kB", {"size_bytes": 2000}, True),
        ("count in (1, 2, 3)", {"count": 2}, True),
        ("count in (1.5, 1e30)", {"count": 2}, False),
        ("count not in (1, 2, 3)", {"count": 2}, False),
        ("ratio in (0, 1)", {"ratio": -0.0}, True),
        ('"m1" in ids', {"ids": ["m0", "m1"]}, True),
        ('"m1" not in ids', {"ids": ["m0", "m1"]}, False),
        ('"m1" in ids', {"ids": []}, False),
        ('comet.auth.client_id == "c1"', {"comet": {"auth": {"client_id": "c1"}}}, True),
        ('comet.auth.client_id == "c1"', {"comet": {"auth": None}}, False),
        ("comet.auth is null", {"comet": None}, True),
        ("comet.auth is not null", {"comet": {"auth": {"client_id": None}}}, True),
        ("TARGET_IS == 1 or count == 1", {}, None),
        ("count == 1 AND NOT sealed OR TRUE == sealed", {"count": 0, "sealed": True}, True),
    ],
)
def test_what_a_filter_means(text: str, row: dict[str, Any], expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(FilterError):
            compile_filter(text, SCHEMA)
    else:
        assert holds(text, **row) is expected


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("test/*", "test/add", True),
        ("test/*", "test/", True),
        ("test/*", "atest/add", False),
        ("*add", "test/add", True),
        ("t?st", "test", True),
        ("t?st", "tst", False),
        ("t?st", "t\nst", True),
        ("*", "", True),
        ("", "", True),
        ("a.c", "abc", False),
        ("[ab]", "[ab]", True),
        ("a\\*c", "a*c", True),
        ("a\\*c", "abc", False),
        ("?", "通", True),
        ("*a*b*c", "xxaxxbxxc", True),
        ("*a*b*c", "xxaxxcxxb", False),
        ("a*a", "a", False),
        ("*ab*ab", "aab", False),
    ],
)
def test_globs(pattern: str, value: str, expected: bool) -> None:
    assert holds(f'target ~ "{pattern}"', target=value) is expected
    assert holds(f'target !~ "{pattern}"', target=value) is not expected


def test_a_hostile_glob_is_fast() -> None:
    compiled = compile_filter(f'target ~ "{"*a" * 30}b"', SCHEMA)
    assert compiled.test({"target": "a" * 5_000}) is False


@pytest.mark.parametrize(
    "text",
    [
        "count == 1",
        "not count == 1",
        "count in (1)",
        "count not in (1)",
        'target ~ "*"',
        'target !~ "*"',
        "sealed",
        "not sealed",
        '"x" in ids',
        '"x" not in ids',
        "count < 1e30",
        "count == small",
        "count == 1 and sealed",
        "not (count == 1 or count != 1)",
    ],
)
def test_null_is_neither_true_nor_false(text: str) -> None:
    assert holds(text) is False
    assert holds(f"not ({text})") is False


def test_known_answers_win_over_unknown_ones() -> None:
    assert holds("sealed or count == 1", count=1)
    assert not holds("sealed and count == 2", count=1)
    assert holds("not (sealed and count == 2)", count=1)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("latncy > 5", "latncy", "unknown column 'latncy'"),
        ("target == pong", "pong", 'for text, write "pong"'),
        ("coumt > 5", "coumt", "did you mean count"),
        ("client_id == 'x'", "client_id", "did you mean comet.auth.client_id?"),
        ("comet.auth.clientid == 'x'", "comet.auth.clientid", "comet.auth.client_id"),
        ("count.x == 1", "count.x", "count has no fields"),
        ("comet.messages.ts > 1", "comet.messages.ts", "is a list"),
        ("count == 'x'", "'x'", "count is integer"),
        ("target == 5", "5", "target is text"),
        ("target in ('x', 5)", "5", "target is text"),
        ("count == null", "null", "is null"),
        ("count == ", "", "a value"),
        ("count 5", "5", "a comparison"),
        ("count", "", "a comparison"),
        ("count == 1 count", "count", "`and`, `or` or the end"),
        ("(count == 1", "", "`)`"),
        ("count == 1)", ")", "the end"),
        ("count == 5lightyears", "lightyears", "unknown unit"),
        ("ts_ns == 0.5ns", "0.5ns", "not a whole number of nanoseconds"),
        ("count > 5ms", "5ms", "no time unit"),
        ("count > 1e999", "1e999", "too large"),
        ("count > 1" + "0" * 5000, "1" + "0" * 5000, "too large"),
        ("ts_ns > 2026-02-30", "2026-02-30", "invalid time"),
        ('target == "x', '"', "no closing"),
        ('body == x"0"', 'x"0"', "hexadecimal"),
        ("count == 1 ; drop", ";", "no meaning"),
        ("count ~ 'x'", "~", "~ needs text"),
        ("target ~ 5", "5", "a pattern"),
        ("1 == 1", "1", "one side of the comparison"),
        ("5 in count", "count", "not a list"),
        ("5 in ids", "5", "list of text"),
        ("ids == 'x'", "'x'", "cannot be compared"),
        ("count == ids", "ids", "cannot be compared"),
        ("count == target", "target", "target is text"),
        ("count in 5", "5", "`(`"),
        ("", "", "a column or a value"),
        ("(" * 60 + "sealed" + ")" * 60, "(", "nested deeper"),
    ],
)
def test_an_error_points_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text, SCHEMA)
    error = caught.value
    assert words in error.detail
    assert text[error.start : error.stop] == place


def test_an_error_shows_the_line_and_a_caret() -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter("count == 1\n  and latncy > 5", SCHEMA)
    lines = str(caught.value).split("\n")
    assert lines[1:] == ["    and latncy > 5", "        ^^^^^^"]


@pytest.mark.parametrize("text", ["x" * 200_000, "target == '\ud800'"])
def test_what_cannot_be_shown_is_refused_all_the_same(text: str) -> None:
    with pytest.raises(FilterError):
        compile_filter(text, SCHEMA)


def test_lists_are_distinguished() -> None:
    rows = [{"ids": ids} for ids in (["a"], ["b", "a"], ["b"], [], None, ["b", "b"], ["a", None])]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    compiled = compile_filter('"a" in ids', SCHEMA)
    expected = [True, True, False, False, False, False, True]
    assert compiled.mask(batch).to_pylist() == expected
    assert compiled.mask(batch.slice(2)).to_pylist() == expected[2:]


def test_columns_are_the_ones_to_read() -> None:
    compiled = compile_filter("comet.auth.level > 1 or count == 1", SCHEMA)
    assert compiled.columns == {"comet", "count"}


def test_a_batch_may_lack_columns_and_fields() -> None:
    compiled = compile_filter("comet.auth.level is null and count is null", SCHEMA)
    fields = pa.struct([("auth", pa.struct([("client_id", pa.string())]))])
    without = pa.RecordBatch.from_pylist(
        [{"comet": {"auth": {"client_id": "c"}}}], schema=pa.schema([("comet", fields)])
    )
    assert compiled.mask(without).to_pylist() == [True]
    assert compile_filter("count == 1", SCHEMA).mask(without).to_pylist() == [False]


def test_fields_of_a_null_struct_are_null_with_any_child_values() -> None:
    child = pa.array(["c1", "c2"])
    struct = pa.StructArray.from_arrays([child], ["client_id"], mask=pa.array([True, False]))
    batch = pa.RecordBatch.from_arrays([struct], ["auth"])
    compiled = compile_filter('auth.client_id ~ "c*"', batch.schema)
    assert compiled.mask(batch).to_pylist() == [False, True]


def test_the_example_of_the_guide() -> None:
    text = 'protocol == "comet" and latency_ns > 5ms and target ~ "test/*"'
    compiled = compile_filter(text, schema("calls"))
    assert compiled.test({"protocol": "comet", "latency_ns": 5_000_001, "target": "test/add"})
    assert repr(compiled) == f"Filter({text!r})"


@pytest.mark.parametrize(
    ("table", "text", "similar"),
    [
        ("messages", 'kind == "reqest"', "request"),
        ("messages", 'direction != "c2S"', "c2s"),
        ("calls", 'outcome in ("lost", "anwsered")', "answered"),
        ("deliveries", 'outcome == "acknowledged"', None),
        ("calls", 'outcome == "answered"', None),
        ("calls", 'target == "reqest"', None),
        ("facts", 'kind == "publish"', None),
    ],
)
def test_a_misspelt_value_is_not_an_empty_result(
    table: str, text: str, similar: str | None
) -> None:
    known = pa.schema([("kind", pa.string())]) if table == "facts" else schema(table)
    if similar is None:
        compile_filter(text, known)
        return
    with pytest.raises(FilterError, match=rf"unknown value .*; did you mean {similar}") as caught:
        compile_filter(text, known)
    assert caught.value.start == text.rindex('"', 0, -2 if text[-1] == ")" else -1)

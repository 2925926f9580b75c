"""What vector adapters share: every key is looked at, every difference is named."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from wirelake.conformance.expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_hash,
    check_prefixes,
    classify,
    difference,
    hex_bytes,
)
from wirelake.wire.errors import DecodeError, NeedMore


@pytest.mark.parametrize(
    ("wanted", "got", "text"),
    [
        (1, 1, None),
        (1, 2, "x: expected 1, got 2"),
        (True, 1, "x: expected True, got 1"),
        (0, False, "x: expected 0, got False"),
        (None, 0, "x: expected None, got 0"),
        ([1, 2], (1, 2), None),
        ([1, 2], [1], "x: expected 2 items, got 1"),
        ([1, [2]], [1, [3]], "x[1][0]: expected 2, got 3"),
        ({"a": 1}, {"a": 1, "free": 2}, None),
        ({"a": 1}, {"a": 1, "b": 2}, "x.b: got 2, which is not in the vector"),
        ({"a": 1}, {}, "x.a: expected 1, got nothing"),
        ({"a": {"b": "c"}}, {"a": {"b": "d"}}, "x.a.b: expected 'c', got 'd'"),
        ({}, [], "x: expected {}, got []"),
    ],
)
def test_difference(wanted: Any, got: Any, text: str | None) -> None:
    assert difference(wanted, got, "x", frozenset({"free"})) == text


def test_long_values_are_cut_in_messages() -> None:
    text = difference("a" * 1000, "b", "x")
    assert text is not None
    assert len(text) < 120


def test_an_unchecked_key_fails() -> None:
    expect = Expect({"a": 1, "b": 2})
    expect.equal("a", 1)
    expect.equal("c", 3)
    with pytest.raises(VectorFailure, match=r"expect\.b: unknown key"):
        expect.done()
    expect.get("b")
    expect.done()


def test_a_key_that_differs_fails() -> None:
    expect = Expect({"a": 1})
    with pytest.raises(VectorFailure, match=r"expect\.a: expected 1, got 2"):
        expect.equal("a", 2)
    with pytest.raises(VectorFailure, match=r"expect\.a: expected 1, got 3"):
        expect.computed("a", lambda: 3)


def test_computed_is_not_worked_out_in_vain() -> None:
    Expect({}).computed("a", lambda: pytest.fail("worked out"))


@pytest.mark.parametrize(
    "use",
    [
        lambda e: e.take("missing"),
        lambda e: e.text("number"),
        lambda e: e.text("text", ("a", "b")),
        lambda e: e.number("text"),
        lambda e: e.number("flag"),
        lambda e: e.octets("text"),
        lambda e: e.octets("number"),
        lambda e: e.child("number"),
        lambda e: e.children("text"),
        lambda e: e.children("list"),
    ],
)
def test_a_value_of_the_wrong_kind_fails(use: Any) -> None:
    with pytest.raises(VectorFailure, match=r"^expect\."):
        use(Expect({"number": 1, "text": "x", "flag": True, "list": [1]}))


def test_values_of_the_right_kind() -> None:
    expect = Expect({"n": 1, "t": "x", "h": "00ff", "o": {"k": 1}, "l": [{"k": 2}]})
    assert expect.number("n") == 1
    assert expect.text("t", ("x", "y")) == "x"
    assert expect.text("u", default="d") == "d"
    assert expect.octets("h") == b"\x00\xff"
    assert expect.child("o").take("k") == 1
    assert [entry.take("k") for entry in expect.children("l")] == [2]
    expect.done()


def test_vector() -> None:
    raw = {"name": "n", "protocol": "p", "hex": "01", "expect": {}, "notes": "", "origin": "o"}
    vector = Vector(raw)
    assert (vector.name, vector.data, vector.origin) == ("n", b"\x01", "o")
    vector.done()
    with pytest.raises(VectorFailure, match=r"vector\.more"):
        Vector({**raw, "more": 1}).done()
    with pytest.raises(VectorFailure, match="not hexadecimal"):
        Vector({**raw, "hex": "0"})


def test_hex() -> None:
    assert hex_bytes("0aFF", "x") == b"\x0a\xff"
    with pytest.raises(VectorFailure, match="x: expected a hexadecimal string"):
        hex_bytes(3, "x")


def test_classify() -> None:
    table = (
        ErrorClass("cut", ("short",), r"a\..*"),
        ErrorClass("other", ("short", "too_large"), r"(?!a\.).*"),
    )
    assert classify(table, DecodeError("short", "a.b")) == "cut"
    assert classify(table, DecodeError("short", "b")) == "other"
    assert classify(table, DecodeError("too_large", "a.b")) == "[too_large in a.b]"


def counted(data: bytes) -> bytes:
    """A decoder: a byte of length, then so many bytes."""
    if not data:
        raise NeedMore(1)
    if data[0] > 0x7F:
        raise DecodeError("too_large", "length", 0)
    if len(data) <= data[0]:
        raise NeedMore(data[0] + 1 - len(data))
    return data[1 : 1 + data[0]]


def test_prefixes() -> None:
    check_prefixes(counted, b"\x03abc")
    check_prefixes(counted, b"\x80abc", lambda error: error.code == "too_large")
    check_prefixes(lambda data: counted(data[:1] and b"\x7f" + data), bytes(2000)[:0])


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        (lambda data: data, "decode as a complete frame"),
        (lambda data: counted(b"\x7f" + data), "bytes need"),
        (lambda data: counted(b"\xff" + data), "alone give too_large"),
    ],
)
def test_prefixes_that_are_not_need_more(decode: Any, text: str) -> None:
    with pytest.raises(VectorFailure, match=text):
        check_prefixes(decode, b"abc")


def test_large_bytes_are_cut_at_a_sample_of_places() -> None:
    sizes = []

    def decode(data: bytes) -> None:
        sizes.append(len(data))
        raise NeedMore(1)

    check_prefixes(decode, bytes(1_000_000))
    assert {0, 1, 2, 999_999} <= set(sizes)
    assert len(sizes) < 200


def test_hash() -> None:
    data = bytes(100)
    good = {
        "total_len": 100,
        "head_hex": "0000",
        "header_hex": "000000",
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    expect = Expect(good)
    check_hash(expect, data)
    expect.done()
    for key, value in (("total_len", 99), ("head_hex", "01"), ("head_hex", ""), ("sha256", "00")):
        with pytest.raises(VectorFailure, match=key):
            check_hash(Expect({**good, key: value}), data)


def test_context() -> None:
    key = "ab" * 32
    context = Context(
        vectors={"p": [{"name": "one", "notes": f"private {key} (test)"}, {"name": "one", "n": 2}]}
    )
    assert context.find("p", "one") == context.of("p")[0]
    assert context.find("p", "two") is None
    assert context.of("q") == []
    assert context.keys32() == [bytes.fromhex(key)]
    assert context.cached("k", lambda: 1) == context.cached("k", lambda: 2) == 1

"""Which alterations are tried."""

from __future__ import annotations

from typing import Any

import pytest

from .mutation import altered_versions, is_positive

CLASSES = ("short", "long")


def vector(expect: dict[str, Any], data: str = "") -> dict[str, Any]:
    return {"name": "n", "protocol": "p", "hex": data, "expect": expect}


def altered(expect: dict[str, Any]) -> dict[str, Any]:
    """Every alteration of some expectations, by its name."""
    found = altered_versions(vector(expect), CLASSES)
    return {str(alteration): version["expect"] for alteration, version in found}


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, 2),
        (-1, 0),
        (1.5, 2.5),
        (True, False),
        (None, 1),
        ("text", "text~"),
        ("", "~"),
        ("00ff", "00f0"),
        ("0a", "0b"),
        ("abc", "abc~"),
        ([], [None]),
        ({}, {"altered": 1}),
    ],
)
def test_a_leaf(value: Any, other: Any) -> None:
    assert altered({"k": value}) == {"expect.k": {"k": other}}


def test_an_error_becomes_another_error() -> None:
    assert altered({"error": "short"}) == {"expect.error": {"error": "long"}}
    assert altered({"strict_error": "long"}) == {"expect.strict_error": {"strict_error": "short"}}
    assert altered({"error": "unheard of"}) == {"expect.error": {"error": "unheard of~"}}


def test_one_leaf_at_a_time_and_the_original_stays() -> None:
    expect = {"a": [1, {"b": 2}], "c": 3}
    assert altered(expect) == {
        "expect.a[0]": {"a": [2, {"b": 2}], "c": 3},
        "expect.a[1].b": {"a": [1, {"b": 3}], "c": 3},
        "expect.c": {"a": [1, {"b": 2}], "c": 4},
    }
    assert expect == {"a": [1, {"b": 2}], "c": 3}


def offsets(size: int, expect: dict[str, Any]) -> list[int]:
    found = altered_versions(vector(expect, bytes(size).hex()), CLASSES)
    return [a.offset for a, _ in found if a.offset is not None and a.flip == 1]


def test_every_byte_of_a_small_vector() -> None:
    assert offsets(256, {"ok": True}) == list(range(256))


def test_a_sample_of_a_large_vector() -> None:
    found = offsets(100_000, {"ok": True})
    assert found[0] == 0
    assert found[-1] == 99_999
    assert 50 < len(found) < 200


def test_bytes_are_altered_in_more_than_one_way() -> None:
    found = [v["hex"] for a, v in altered_versions(vector({}, "0f"), CLASSES)]
    assert found == ["0f", "0e", "8f"]


@pytest.mark.parametrize(
    ("expect", "positive"),
    [({"error": "short"}, False), ({"ok": False}, False), ({"ok": True}, True), ({"n": 1}, True)],
)
def test_bytes_are_altered_in_positive_vectors_only(expect: dict[str, Any], positive: bool) -> None:
    assert is_positive(vector(expect)) is positive
    assert bool(offsets(3, expect)) is positive

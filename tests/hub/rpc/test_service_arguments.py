"""Arguments by the signature of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.rpc.call_types import Arguments, ServiceDefinitionError, read_arguments
from wirelake.hub.rpc.services import Call

CALL = Call("tny", None, b"raw")


class Point(msgspec.Struct):
    """A typed argument."""

    x: int
    y: int = 0


def typed(
    name: str,
    colour: Literal["red", "blue"] = "red",
    at: Point | None = None,
    data: bytes = b"",
    share: float = 0.5,
    few: Annotated[list[int], msgspec.Meta(max_length=2)] = [],  # noqa: B006 - copied
    whatever=None,  # type: ignore[no-untyped-def]
) -> None:
    """Has one of each."""


def test_values_by_name() -> None:
    given = {"name": "n", "at": {"x": 1}, "data": b"\xff", "share": 1, "few": [1]}
    values = Arguments(typed).read(given, None)
    assert values == ("n", "red", Point(1), b"\xff", 1.0, [1], None)


def test_a_json_body() -> None:
    body = b'{"name": "n", "colour": "blue", "data": "/w==", "whatever": [1, "two"]}'
    values = Arguments(typed).read(body, None)
    assert values == ("n", "blue", None, b"\xff", 0.5, [], [1, "two"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "missing argument 'name'"),
        (b"", "missing argument 'name'"),
        ({"name": 1}, "argument 'name': expected str, got int"),
        ({"name": "n", "colour": "green"}, "argument 'colour': invalid enum value"),
        ({"name": "n", "at": {"x": "1"}}, "argument 'at.x': expected "),
        ({"name": "n", "at": {}}, "argument 'at': object missing required field x"),
        ({"name": "n", "few": [1, 2, 3]}, "length <= 2"),
        ({"name": "n", "nme": 1}, "unknown argument 'nme'; expected one of name, "),
        (b'{"name": "n", "nme": 1}', "; did you mean name?"),
        (b"[1]", "invalid arguments: Expected `object`"),
        (b'{"name"', "truncated"),
        (b"\xff\xfe", "malformed"),
        (b'{"name": "\xff"}', "utf-8"),
        (b'{"name": "n", "whatever": ' + b"[" * 50_000, "nested too deeply"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, words: str) -> None:
    with pytest.raises(HubError) as caught:
        Arguments(typed).read(given, None)
    assert caught.value.code == "bad_arguments"
    assert words in caught.value.text


def test_the_call_is_passed_to_its_parameter() -> None:
    def between(a: int, call: Call, b: int = 2) -> None: ...

    arguments = Arguments(between)
    assert arguments.wants_call
    assert arguments.names == ("a", "b")
    assert arguments.read({"a": 1}, CALL) == (1, CALL, 2)
    assert arguments.read(b'{"a": 1, "b": 3}', CALL) == (1, CALL, 3)


def test_a_function_with_only_the_call_reads_the_body() -> None:
    def raw(call: Call) -> None: ...

    assert Arguments(raw).read(b"\x00 no JSON", CALL) == (CALL,)


def starred(*each: int) -> None: ...
def named(**each: int) -> None: ...
def only(*, a: int) -> None: ...
def before(a: int, /) -> None: ...
def twice(one: Call, two: Call) -> None: ...
def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def odd(a: str | bytes) -> None: ...
def shared(a: list[int] = [1]) -> None: ...  # noqa: B006 - that is what is refused


@pytest.mark.parametrize(
    "function",
    [starred, named, only, before, twice, unknown, odd, shared],
    ids=lambda f: f.__name__,
)
def test_functions_that_cannot_be_services(function: Callable[..., Any]) -> None:
    with pytest.raises(ServiceDefinitionError, match=f"^{function.__name__}: "):
        Arguments(function)


def test_a_struct_of_its_own() -> None:
    assert read_arguments({"x": 1}, Point) == read_arguments(b'{"x": 1}', Point) == Point(1)
    for bad in ({"x": "1"}, b"{", b'{"y": 1}'):
        with pytest.raises(HubError, match=r"argument 'x'|truncated|missing"):
            read_arguments(bad, Point)

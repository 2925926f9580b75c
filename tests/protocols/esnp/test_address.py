"""ESNP addresses: the URL vectors, round trips in both directions, and what must be refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wirelake.protocols.esnp.address import (
    Address,
    AddressKind,
    address_from_pairs,
    address_to_pairs,
    format_url,
    parse_url,
)
from wirelake.wire.errors import DecodeError, EncodeError

VECTORS = Path(__file__).parents[2] / "vectors" / "esnp.jsonl"


def load() -> list[dict[str, Any]]:
    with VECTORS.open(encoding="utf-8") as lines:
        return [v for v in map(json.loads, lines) if v["name"].startswith("url_")]


PARSE = [v for v in load() if "url" in v]
FORMAT = [v for v in load() if "addr" in v]


def test_the_vectors_are_all_there() -> None:
    assert (len(PARSE), len(FORMAT)) == (11, 4)
    assert len(load()) == 15


def names(vectors: list[dict[str, Any]]) -> list[str]:
    return [vector["name"] for vector in vectors]


@pytest.mark.parametrize("vector", PARSE, ids=names(PARSE))
def test_parse_vector(vector: dict[str, Any]) -> None:
    expect = dict(vector["expect"])
    if expect.get("error") == "BadUrl":
        with pytest.raises(DecodeError, match="bad_url"):
            parse_url(vector["url"])
        return
    expect["other"] = {int(kind): value for kind, value in expect.get("other", {}).items()}
    address = parse_url(vector["url"])
    assert address == Address(**expect)
    assert parse_url(format_url(address)) == address


@pytest.mark.parametrize("vector", FORMAT, ids=names(FORMAT))
def test_format_vector(vector: dict[str, Any]) -> None:
    pairs = [(int(kind), value) for kind, value in vector["addr"].items()]
    address = address_from_pairs(pairs)
    assert format_url(address) == vector["expect"]["url"]
    assert parse_url(vector["expect"]["url"]) == address
    assert address_to_pairs(address) == sorted(pairs, reverse=True)


# -- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("ESNP://h/s/o", Address(host="h", service="s", op="o")),
        ("esnp://h", Address(host="h")),
        ("esnp://h/", Address(host="h")),
        ("esnp://h/s", Address(host="h", service="s")),
        ("esnp://h/s/", Address(host="h", service="s")),
        ("esnp://h?o=1", Address(host="h", object="1")),
        ("esnp:///s/o", Address(service="s", op="o")),
        ("esnp://h//o", Address(host="h", op="o")),
        ("esnp://h/s/a/b", Address(host="h", service="s", op="a/b")),
        ("esnp://user:pw@h:1/s/o#part", Address(host="h:1", service="s", op="o")),
        ("esnp://[::1]:80/s/o", Address(host="[::1]:80", service="s", op="o")),
        ("esnp://服/务/操?o=对", Address(host="服", service="务", op="操", object="对")),
        ("esnp://h/a+b/%5F", Address(host="h", service="a+b")),
        ("esnp://h/s/o?o=&g=", Address(host="h", service="s", op="o", group="")),
        ("esnp://h/s/o?o=1&o=2", Address(host="h", service="s", op="o", object="1")),
        ("esnp://h/s/o?o=&o=2", Address(host="h", service="s", op="o")),
        ("esnp://_?a35=n&a_35=m", Address(other={35: "n"})),
        ("esnp://_?a_10=x&o=y&a_50=v&g=w", Address(object="y", group="w")),
        ("esnp://_/s?a_30=t&a_20=op&a_40=_", Address(service="s", op="op")),
        ("esnp://_?a_35=&a_10=&a_50=", Address(other={35: ""}, group="")),
        ("esnp://_?a_0=x&a_2147483648=y", Address(params=(("a_0", "x"), ("a_2147483648", "y")))),
        (
            "esnp://_?z=1&b=&c&z=2&&=",
            Address(params=(("z", "1"), ("b", ""), ("c", ""), ("z", "2"), ("", ""))),
        ),
        ("esnp://_?x=%26+%2B", Address(params=(("x", "& +"),))),
        ("esnp://unknow/Unknow/_", Address(host="unknow", service="Unknow")),
    ],
)
def test_parse(url: str, wanted: Address) -> None:
    assert parse_url(url) == wanted
    assert parse_url(format_url(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1", 1),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("0", None),
        ("-5", None),
        ("abc", None),
        ("", None),
        ("1.5", None),
        ("١", None),
        ("9" * 5000, None),
    ],
)
def test_timeout(text: str, wanted: int | None) -> None:
    assert parse_url(f"esnp://h/s/o?to={text.replace('+', '%2B')}").timeout_ms == wanted


def test_the_old_marker_is_read_only_when_asked_for() -> None:
    assert parse_url("esnp://UNKNOW/unknow/Unknow", legacy_unknow=True) == Address()
    assert parse_url("esnp://_/_/_", legacy_unknow=True) == Address()
    assert parse_url("esnp://h/Known", legacy_unknow=True) == Address(host="h", service="Known")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h/s/o",
        "//h/s/o",
        "http://h/s/o",
        "esnp:h",
        "esnp:/h/s",
        " esnp://h",
        "esnp://h:port/s/o",
        "esnp://a:b:1/s/o",
        "esnp://[::1/s/o",
        "esnp://::1]/s/o",
        "esnp://a b/s/o",
        "esnp://h/s%/o",
        "esnp://h/s/%e4%b8",
        "esnp://h/s/o?o=%",
        "esnp://h/s/o?%zz=1",
        "esnp://h/s/o?x=%ff",
        "esnp://h/s\n/o",
        "esnp://h/\x00",
        "esnp://\ud800/s/o",
        "esnp://h/s/o?x=\udfff",
    ],
)
def test_bad_urls_are_refused(url: str) -> None:
    with pytest.raises(DecodeError, match="bad_url"):
        parse_url(url)


url_like = st.lists(
    st.sampled_from(list("esnp:/?#&=@[]%+_ao1205gt.\t\n é服\ud800")) | st.characters(), max_size=30
).map("".join)


@given(st.text() | url_like.map("esnp://".__add__), st.booleans())
@example("esnp://\udc80", False)
@example("esnp://h?to=" + "1" * 5000, False)
@example("esnp://h?a_" + "1" * 5000, False)
def test_any_text_gives_an_address_or_bad_url(text: str, legacy: bool) -> None:
    """And what is read can be written, and is then the same."""
    try:
        address = parse_url(text, legacy_unknow=legacy)
    except DecodeError as error:
        assert error.code == "bad_url"  # noqa: PT017 - one of two outcomes
    else:
        assert parse_url(format_url(address)) == address


# -- writing ----------------------------------------------------------------------------------


valid_text = st.text(st.characters(codec="utf-8"))
part = st.none() | valid_text.filter(lambda text: text not in ("", "_"))
hosts = part | st.sampled_from(["127.0.0.1:1080", "[::1]:80", ":80", "a:b", "user@h", "[x", "h:"])
kinds = st.integers(1, 2**31 - 1).filter(lambda kind: kind not in set(AddressKind))
addresses = st.builds(
    Address,
    host=hosts,
    service=part,
    op=part,
    object=st.none() | valid_text.filter(bool),
    group=st.none() | valid_text,
    other=st.dictionaries(kinds, valid_text, max_size=3),
    timeout_ms=st.none() | st.integers(1, 2**63 - 1),
    params=st.lists(
        st.tuples(valid_text.filter(lambda key: key[:1] not in set("aogt")), valid_text), max_size=3
    ).map(tuple),
)


@given(addresses)
def test_url_round_trip(address: Address) -> None:
    url = format_url(address)
    assert url.isascii()
    assert parse_url(url) == address
    assert format_url(parse_url(url)) == url


def test_the_order_of_what_is_written() -> None:
    address = Address(
        host="h:1",
        service="a b",
        op="c/d",
        object="a b&c",
        group="g",
        other={99: "z", 35: "n"},
        timeout_ms=5,
        params=(("x", "1"), ("b", "2")),
    )
    assert format_url(address) == (
        "esnp://h:1/a%20b/c%2Fd?o=a+b%26c&g=g&a_35=n&a_99=z&to=5&x=1&b=2"
    )
    assert format_url(Address()) == "esnp://_/_/_"


@pytest.mark.parametrize(
    "address",
    [
        Address(host="_"),
        Address(service="_"),
        Address(op="_"),
        Address(host=""),
        Address(service=""),
        Address(op=""),
        Address(object=""),
        Address(other={30: "x"}),
        Address(other={0: "x"}),
        Address(other={-7: "x"}),
        Address(other={2**31: "x"}),
        Address(timeout_ms=0),
        Address(timeout_ms=-1),
        Address(timeout_ms=2**63),
        Address(params=(("o", "x"),)),
        Address(params=(("to", "5"),)),
        Address(params=(("a35", "x"),)),
        Address(host="\ud800"),
        Address(op="\ud800"),
        Address(group="\ud800"),
    ],
)
def test_what_a_url_cannot_hold_is_refused(address: Address) -> None:
    with pytest.raises(EncodeError, match="bad_url"):
        format_url(address)


def test_an_underscore_is_a_value_in_the_query() -> None:
    address = Address(object="_", group="_", other={35: "_"})
    assert parse_url(format_url(address)) == address


# -- pairs ------------------------------------------------------------------------------------


def test_the_named_kinds() -> None:
    assert {kind.name: int(kind) for kind in AddressKind} == {
        "GROUP": 50,
        "HOST": 40,
        "SERVICE": 30,
        "OP": 20,
        "OBJECT": 10,
    }


def test_the_first_of_a_kind_counts_and_an_empty_name_is_absent() -> None:
    pairs = [(30, "s"), (30, "t"), (20, ""), (-7, "x"), (35, ""), (50, ""), (10, "")]
    address = address_from_pairs(pairs)
    assert address == Address(service="s", other={-7: "x", 35: ""}, group="")
    assert address_to_pairs(address) == [(50, ""), (35, ""), (30, "s"), (-7, "x")]


@given(addresses)
def test_pairs_round_trip(address: Address) -> None:
    """Everything but what is never sent: the timeout and the unknown parameters."""
    again = address_from_pairs(address_to_pairs(address))
    sent = (address.host, address.service, address.op, address.object, address.group)
    assert (again.host, again.service, again.op, again.object, again.group) == sent
    assert again.other == address.other
    assert (again.timeout_ms, again.params) == (None, ())

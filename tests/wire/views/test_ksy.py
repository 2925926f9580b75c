"""Kaitai files as text: names, references and escaping. What they parse: tests/interop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Any, ClassVar

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire import Layout, Protocol
from wirelake.wire.types import U8, Choice, LooseString16, Names, Secret, String8, Tag8
from wirelake.wire.views.ksy import dump, identifier, kaitai

ID = re.compile(r"[a-z][a-z0-9_]*")
PRIMITIVE = re.compile(r"[us][1248](le|be)?|f[48](le|be)|b\d+(le)?|str|bool")

FILES = {
    name: text
    for protocol in map(find, BUILT_IN)
    for dialect in protocol.dialects
    for name, text in kaitai(protocol, dialect).items()
}


def types_in(top: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield top
    yield from top.get("types", {}).values()


def type_names(attribute: dict[str, Any]) -> Iterator[str]:
    kind = attribute.get("type")
    found = kind["cases"].values() if isinstance(kind, dict) else [kind] if kind else []
    for name in found:
        yield name.partition("(")[0]


def test_one_file_for_each_direction_and_dialect() -> None:
    assert sorted(FILES) == [
        "comet_c2s.ksy",
        "comet_hipush_c2s.ksy",
        "comet_hipush_s2c.ksy",
        "comet_s2c.ksy",
        "esnp.ksy",
        "esnp_go.ksy",
        "magline.ksy",
        "relay.ksy",
        "relay_upstream.ksy",
        "tny.ksy",
        "tny_upstream.ksy",
    ]


def test_a_direction_can_be_chosen() -> None:
    comet, magline = find("comet"), find("magline")
    assert list(kaitai(comet, direction="s2c")) == ["comet_s2c.ksy"]
    assert kaitai(magline, direction="c2s") == kaitai(magline)


def test_wrong_choices_name_the_right_ones() -> None:
    with pytest.raises(ValueError, match="c2s or s2c"):
        kaitai(find("comet"), direction="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed, hipush"):
        kaitai(find("comet"), "other")


@pytest.mark.parametrize("name", FILES)
def test_names_are_valid_and_references_resolve(name: str) -> None:
    top = yaml.safe_load(FILES[name])
    assert f"{top['meta']['id']}.ksy" == name
    assert "imports" not in top["meta"]
    types, enums = top["types"], top.get("enums", {})
    assert not set(types) & set(enums)
    for word in [*types, *enums, *(word for enum in enums.values() for word in enum.values())]:
        assert ID.fullmatch(word), word
    for kind in types_in(top):
        attributes = [*kind.get("params", ()), *kind["seq"]]
        ids = [*(a["id"] for a in attributes), *kind.get("instances", ())]
        assert len(ids) == len(set(ids))
        assert all(ID.fullmatch(word) for word in ids)
        for attribute in [*attributes, *kind.get("instances", {}).values()]:
            assert attribute.get("enum") in {None, *enums}
            for used in type_names(attribute):
                assert used in types or PRIMITIVE.fullmatch(used), used


@pytest.mark.parametrize("name", FILES)
def test_only_bodies_of_the_direction_are_there(name: str) -> None:
    types = yaml.safe_load(FILES[name])["types"]
    if name.startswith("comet"):
        assert ("auth" in types) == name.endswith("c2s.ksy")
        assert ("auth_success" in types) == name.endswith("s2c.ksy")


def test_a_dialect_shows() -> None:
    seed, hipush = (yaml.safe_load(FILES[f"comet{d}_s2c.ksy"]) for d in ("", "_hipush"))
    assert "job_id" not in [a["id"] for a in seed["types"]["message"]["seq"]]
    assert "job_id" in [a["id"] for a in hipush["types"]["message"]["seq"]]


def test_documentation_is_carried() -> None:
    top = yaml.safe_load(FILES["comet_c2s.ksy"])
    assert top["doc"].startswith("comet, mobile push")
    assert top["doc-ref"] == "协议指令"
    auth = top["types"]["auth"]
    assert auth["doc"] == "A client signs on; the answer is auth_success or error."
    (token,) = (a for a in auth["seq"] if a["id"] == "token")
    assert token["doc"].endswith("Secret: do not show it.")


def test_layouts_behind_a_transform_are_types() -> None:
    assert {"message", "tracing_header"} <= set(yaml.safe_load(FILES["tny.ksy"])["types"])


# -- names that collide or are not Kaitai's --------------------------------------------------


class Class(IntEnum):
    """Has the name of a type and members that are keywords."""

    IF = 1
    If = 2


class Leaf(Layout):
    """Named like the protocol."""

    wire_name: ClassVar[str] = "odd"

    x: LooseString16
    x_text: String8
    len_x: U8
    grö_größe: U8  # noqa: PLC2401
    value: Annotated[U8, Names(Class)]
    token: Secret[U8]


class Frame(Layout):
    """A frame."""

    kind: ClassVar[Tag8]
    rest: U8
    body: Annotated[Leaf, Choice({1: Leaf})]


def test_odd_names() -> None:
    (text,) = kaitai(Protocol(name="odd", title="odd", frame=Frame)).values()
    top = yaml.safe_load(text)
    leaf = top["types"]["odd_2"]
    ids = [a["id"] for a in leaf["seq"]]
    wanted = "len_x_2 x len_x_text x_text len_x gruf6_gruf6udfe value token"
    assert ids == wanted.split()
    assert all(ID.fullmatch(word) for word in ids)
    assert list(leaf["instances"]) == ["x_text_2"]
    assert top["enums"]["class_"] == {1: "if_", 2: "if__2"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("client_id", "client_id"),
        ("ClientId", "client_id"),
        ("async", "async_"),
        ("ASYNC", "async_"),
        ("_x", "x_x"),
        ("9p", "x9p"),
        ("", "x"),
        ("é", "ue9"),
    ],
)
def test_identifier(name: str, wanted: str) -> None:
    assert identifier(name) == wanted


# -- YAML ------------------------------------------------------------------------------------


@given(
    st.text() | st.sampled_from(["on", "No", "~", "- a", "a: b", "# c", "'", '"', "0x1f", "1e3"])
)
def test_text_survives(text: str) -> None:
    assert yaml.safe_load(dump({"a": {"doc": text}, "b": [{"doc": text}, text]})) == {
        "a": {"doc": text},
        "b": [{"doc": text}, text],
    }


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "a\n\n  b: c\n# d",
        " led\nby a space",
        "ends\n",
        "\ttab\nx",
        "\x85\u2028",
        "\\n",
    ],
)
def test_lines_survive(text: str) -> None:
    assert yaml.safe_load(dump({"doc": text})) == {"doc": text}


def test_lone_surrogate_becomes_a_replacement() -> None:
    assert yaml.safe_load(dump({"doc": "a\udc80b"})) == {"doc": "a\ufffdb"}


def test_other_values() -> None:
    data = {"n": -1, "t": True, "f": False, "none": [], "map": {}, "ints": [1, 2], 7: "seven"}
    assert yaml.safe_load(dump(data)) == data

"""The Lua view as text: names, types, words, and what it refuses. tshark judges the rest."""

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, ClassVar

import pytest

from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import CODES, Protocol
from wirelake.wire import model as m
from wirelake.wire.types import U8, Bytes8, Choice, Layout, Length16, Names, Secret, String8, Tag8
from wirelake.wire.views._lua_fields import (
    abbreviation,
    bytes_literal,
    comment,
    first_lines,
    meanings,
    number_set,
    quote,
)
from wirelake.wire.views.lua import dissector


class Colour(IntEnum):
    """A colour."""

    RED = 1
    BLUE = 4


class Malformed(Layout):
    """Has a name that the dissector needs."""

    number: U8


class Grüße(Layout):  # noqa: PLC2401 - that is what is tested
    """Greets."""

    wire_name: ClassVar[str] = "grüße"

    straße: String8  # noqa: PLC2401
    """Where."""
    farbe: Annotated[U8, Names(Colour)]
    """Which."""


class Other(Layout):
    """Takes the name of a field's length."""

    name: Bytes8
    """Bytes."""


def _protocol(name: str, *layouts: type[Layout], port: int | None = None) -> Protocol:
    class Frame(Layout):
        """A frame."""

        length: ClassVar[Length16]
        type: ClassVar[Tag8]
        body: Annotated[object, Choice(dict(enumerate(layouts)))]

    return Protocol(name=name, title=f"{name}: a test", frame=Frame, port=port)


# -- text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain", '"plain"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("two\nlines\t", '"two\\nlines\\t"'),
        ("日本", '"日本"'),
        ("\x00\u200b", '"\\000\\226\\128\\139"'),
        ("\udcff", '"\\237\\179\\191"'),
    ],
)
def test_strings(text: str, literal: str) -> None:
    assert quote(text) == literal


def test_bytes_are_strings_with_escapes() -> None:
    assert bytes_literal(b'a"\\\x00\xff9') == '"a\\034\\092\\000\\2559"'


def test_comments_stay_comments() -> None:
    assert comment("one\n\ntwo", "") == ["-- one", "--", "-- two"]


def test_only_the_first_paragraph_describes() -> None:
    assert first_lines("One\n  line.\n\nMore.") == "One line."
    assert first_lines("") == ""


def test_names_that_filters_accept() -> None:
    assert abbreviation("client_id-2") == "client_id-2"
    assert abbreviation("straße") == "strau00dfe"


def test_tables() -> None:
    assert meanings({-1: "MINUS", 2: 'q"'}) == '{ [-1] = "MINUS", [2] = "q\\"" }'
    assert number_set(Colour) == "{ [1] = true, [4] = true }"


# -- the script --------------------------------------------------------------------------------


def test_a_field_has_name_label_values_and_description() -> None:
    script = dissector([COMET])
    assert (
        'F["report_environ.network_type"] = ProtoField.uint8('
        '"wirelake.comet.report_environ.network_type", "network_type", base.DEC,'
        ' N["NetworkType"], nil, "What it is connected through.")'
    ) in script
    assert 'N["NetworkType"] = { [0] = "WIFI", [1] = "G2", [2] = "G3", [3] = "G4" }' in script
    assert "-- In the document: 协议指令" in script


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_field_of_every_layout_is_declared_once(name: str) -> None:
    protocol = find(name)
    for dialect in protocol.dialects:
        script = dissector([protocol], dialect={name: dialect})
        for layout in protocol.layouts(dialect):
            for part in layout.parts:
                if isinstance(part, m.Field) and not isinstance(part.type, m.Rows):
                    full = f'("wirelake.{name}.{layout.name}.{part.name}"'
                    assert script.count(full) == 1, full
            assert script.count(f'L["{layout.name}"] = function') == 1


def test_bits_have_masks() -> None:
    script = dissector([TNY])
    assert 'ProtoField.uint8("wirelake.tny.message.line", "line", base.DEC, nil, 0x38,' in script
    assert 'ProtoField.bool("wirelake.tny.packet.encrypt", "encrypt", 8, nil, 0x8,' in script


def test_secrets_are_text_and_read_without_being_shown() -> None:
    script = dissector([COMET, RELAY])
    assert 'F["exchange_key.secret_key"] = ProtoField.string(' in script
    assert 'put_secret(s, tree, "auth.token", ' in script
    assert 'put_secret(s, tree, "link_open.key", ' in script


def test_dialects_differ() -> None:
    seed, hipush = dissector([COMET]), dissector([COMET], dialect={"comet": "hipush"})
    assert "job_id" not in seed
    assert "wirelake.comet.message.job_id" in hipush
    go = dissector([ESNP], dialect={"esnp": "go"})
    assert 'name = "list", count = T.unsigned32' in go
    assert 'name = "list", count = T.zigzag32' in dissector([ESNP])


def test_options_have_their_commands() -> None:
    script = dissector([MAGLINE])
    assert (
        "[1] = { forbidden = { 0x1, 0x2, 0x400, 0x800," in script
    )  # SYN: neither AUTH nor REPLY_TO
    assert "exact = 64 }, -- syn" in script


def test_ports() -> None:
    assert 'protocol("comet", "comet: mobile push", 9620)' in dissector([COMET])
    assert 'mobile push", 7000)' in dissector([COMET], ports={"comet": 7000})
    assert 'protocol("quiet", "quiet: a test", 0)' in dissector([_protocol("quiet", Other)])


def test_helpers_are_there_once() -> None:
    script = dissector([COMET, TNY, RELAY, MAGLINE, ESNP])
    assert script.count("local function leb128(") == 1
    assert script.count("register(P, ") == 5


def test_problems_have_listed_codes() -> None:
    """A code that `CODES` does not list cannot be reported, and every other has its meaning."""
    script = dissector([COMET, TNY, RELAY, MAGLINE, ESNP])
    codes = set(re.findall(r'fail\(s, "(\w+)"', script))
    codes |= set(re.findall(r'const\(s, tree, .*, "(\w+)"\)', script))
    assert {"short", "bad_version", "bad_magic", "bad_end"} <= codes <= set(CODES)
    for code in codes:
        assert f"  {code} = {quote(CODES[code])}," in script
    assert "bad_url" not in script


def test_the_script_depends_on_its_input_alone() -> None:
    assert dissector([TNY, ESNP]) == dissector([TNY, ESNP])


def test_names_outside_ascii() -> None:
    script = dissector([_protocol("gruss", Grüße)])
    assert '"wirelake.gruss.gru00fcu00dfe.strau00dfe", "straße", "Where.")' in script
    assert 'L["gru00fcu00dfe"] = function' in script


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocols", "options", "message"),
    [
        ([], {}, "expected at least one protocol"),
        ([COMET, COMET], {}, "duplicate protocol comet"),
        ([COMET], {"dialect": {"tny": "seed"}}, "dialect: unknown 'tny'; expected one of comet"),
        ([COMET], {"dialect": {"comet": "klingon"}}, "expected one of seed, hipush"),
        ([COMET], {"ports": {"tny": 1}}, "ports: unknown 'tny'; expected one of comet"),
        ([COMET], {"ports": {"comet": 65_536}}, "comet: invalid port 65536"),
        ([COMET], {"ports": {"comet": -1}}, "comet: invalid port -1"),
        ([COMET, TNY], {"ports": {"comet": 9610}}, "tny and comet have the same port, 9610"),
        ([_protocol("Loud", Other)], {}, "invalid protocol name 'Loud'"),
        ([_protocol("a.b", Other)], {}, "invalid protocol name 'a.b'"),
        ([_protocol("kind", Other)], {}, "'kind' is a field that all protocols share"),
        ([_protocol("p", Malformed)], {}, "two things would be called wirelake.p.malformed"),
    ],
)
def test_refusals(
    protocols: list[Protocol], options: dict[str, Mapping[str, object]], message: str
) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        dissector(protocols, **options)  # type: ignore[arg-type]


def test_a_secret_keeps_no_length() -> None:
    class Hidden(Layout):
        """Hides."""

        word: Secret[String8]

    script = dissector([_protocol("hide", Hidden)])
    assert "wirelake.hide.hidden.word" in script
    assert "hidden.word.length" not in script

"""The reference pages: complete, up to date, and Markdown that builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from typing import Annotated, ClassVar

import pytest

from wirelake.protocols.registry import BUILT_IN, find
from wirelake.wire import CODES, Layout, Protocol
from wirelake.wire import model as m
from wirelake.wire.types import U8, U16, U32LE, Choice, Magic, Names, Secret, String8, Tag8
from wirelake.wire.views import markdown
from wirelake.wire.views.describe import code, hexadecimal, literal, prose, table

pytestmark = pytest.mark.slow

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = markdown.pages()


def test_the_committed_pages_are_up_to_date() -> None:
    assert markdown.stale(REFERENCE) == [], (
        "run: python -m wirelake.wire.views.markdown docs/reference"
    )


def test_there_is_a_page_for_each_protocol_and_the_errors() -> None:
    assert sorted(PAGES) == sorted([*(f"{name}.md" for name in BUILT_IN), "errors.md"])


@pytest.mark.parametrize("name", PAGES)
def test_links_have_targets_and_tables_are_rectangular(name: str) -> None:
    targets = re.findall(r"^\((.+)\)=$", PAGES[name], re.MULTILINE)
    assert len(targets) == len(set(targets))
    assert set(re.findall(r"\]\(#(.+?)\)", PAGES[name])) <= set(targets)
    for block in PAGES[name].split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1, rows[:1]


@pytest.mark.parametrize("name", BUILT_IN)
def test_everything_that_is_declared_is_on_the_page(name: str) -> None:
    protocol, page = find(name), PAGES[f"{name}.md"]
    assert prose(protocol.title) in page
    for dialect in protocol.dialects:
        for layout in protocol.layouts(dialect):
            assert f"### {code(layout.name)}" in page
            assert prose(layout.doc) in page
            assert prose(layout.section) in page
            for part in layout.parts:
                members = part.bits if isinstance(part, m.BitGroup) else (part,)
                members = part.fields if isinstance(part, m.Options) else members
                for member in members:
                    assert f"| {code(member.name)} |" in page, member
                    assert prose(member.doc) in page, member
                    for number in getattr(member, "names", None) or ():
                        assert f"| {int(number)} | {code(number.name)} |" in page


def section(page: str, name: str) -> str:
    """The part of a page that is about one layout."""
    return page.partition(f"### {code(name)}\n")[2].partition("\n(")[0]


def test_dialects_have_tables_of_their_own_only_where_they_differ() -> None:
    page = PAGES["comet.md"]
    both = section(page, "message")
    seed, _, hipush = both.partition("Dialect `hipush`:")
    assert "Dialect `seed`:" in seed
    assert "`job_id`" not in seed
    assert "`job_id`" in hipush
    assert "Dialect" not in section(page, "topic_list")


def test_secrets_are_marked() -> None:
    (token,) = (line for line in section(PAGES["comet.md"], "auth").splitlines() if "token" in line)
    assert "**Secret**" in token


def test_commands_are_listed_for_each_direction() -> None:
    before, _, after = PAGES["comet.md"].partition("### Server to client")
    assert "| 0 (0x00) | [`auth`](#comet-auth) |" in before
    assert "| 0 (0x00) | [`ok`](#comet-ok) |" in after


def test_offsets_go_on_until_a_size_varies() -> None:
    rows = [line.split(" | ") for line in section(PAGES["magline.md"], "frame").splitlines()]
    offsets = {row[2]: row[0].lstrip("| ") for row in rows if len(row) > 5}
    assert (offsets["`magic`"], offsets["`seq`"], offsets["`auth`"]) == ("0", "8", "16")
    assert offsets["`body`"] == "var"


def test_limits() -> None:
    assert "| `envelope.length` | 1,048,576 bytes by default (dialect `seed`) |" in PAGES["tny.md"]
    assert "| `relay_packet.length` | at least 13 |" in PAGES["relay.md"]
    assert "| `syn` | 512 bytes |" in PAGES["magline.md"]
    assert "| `var` | 64 levels deep, 65,536 values |" in PAGES["esnp.md"]


def test_the_first_line_has_the_byte_order() -> None:
    orders = {name: page.splitlines()[2] for name, page in PAGES.items()}
    assert "**little-endian**" in orders["tny.md"]
    assert "big-endian" in orders["comet.md"]
    assert "**mixed**" in markdown.reference(NASTY).splitlines()[2]


def test_every_error_code_is_listed() -> None:
    for name in CODES:
        assert f"| {code(name)} |" in PAGES["errors.md"]


# -- text that Markdown could take for something else ----------------------------------------


class Odd(IntEnum):
    """Names | and <b>tags</b> {role}`x`."""

    A_B = 1


class Nasty(Layout):
    """<script> | {ref}`nowhere` and `a|b` and [link](nowhere.md) $x$.

    % not a comment
    # not a heading
    (label)=
    +++
    :::{note}
    """

    wire_name: ClassVar[str] = "odd"
    section: ClassVar[str] = "§ {type=0} | <x>"

    magic: ClassVar[Annotated[bytes, Magic(b"|<`")]]
    """`|` is a pipe, ` is not code."""
    text: Secret[String8]
    """Ends with a backslash \\"""
    odd: Annotated[U8, Names(Odd, closed=True)]
    """{math}`x`."""
    big: U16
    little: U32LE


class Frame(Layout):
    """A frame."""

    kind: ClassVar[Tag8]
    body: Annotated[Nasty, Choice({1: Nasty})]


NASTY = Protocol(name="nasty", title="nasty: <a> | {b}", frame=Frame)


def test_pages_build_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser']\n"
        "myst_enable_extensions = ['colon_fence', 'deflist']\n"
        "myst_heading_anchors = 3\n"
    )
    index = "# Index\n\n```{toctree}\n:glob:\n\n*\n```\n"
    for name, text in {**PAGES, "nasty.md": markdown.reference(NASTY), "index.md": index}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, str(tmp_path), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    html = (tmp_path / "out" / "nasty.html").read_text(encoding="utf-8")
    for shown in (
        "&lt;script&gt;",
        "{ref}",
        "% not a comment",
        "# not a heading",
        "(label)=",
        "+++",
    ):
        assert shown in html, shown
    assert "<script> |" not in html


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain *word*", "plain *word*"),
        ("a | b", r"a \| b"),
        ("<b> {c} [d]", r"\<b\> \{c\} \[d\]"),
        ("`<b>` stays", "`<b>` stays"),
        ("``a`b`` <c>", r"``a`b`` \<c\>"),
        ("one ` alone", r"one \` alone"),
    ],
)
def test_prose(text: str, wanted: str) -> None:
    assert prose(text) == wanted


def test_formatting_helpers() -> None:
    assert code("a") == "`a`"
    assert code("a`b") == "`` a`b ``"
    assert [hexadecimal(n) for n in (0, 10, 256)] == ["0x00", "0x0A", "0x0100"]
    assert literal(b"tny.") == "`tny.`"
    assert literal(b"\x00\x01") == "`00 01`"
    assert list(table(["a"], [["x|y \\| `|`"]]))[2] == r"| x\|y \| `\|` |"


# -- files -----------------------------------------------------------------------------------


def test_writing_makes_pages_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new"
    assert markdown.main([str(folder), "--check"]) == 1
    assert not folder.exists()
    assert markdown.main([str(folder)]) == 0
    assert "wrote comet.md" in capsys.readouterr().out
    assert markdown.main([str(folder), "--check"]) == 0
    (folder / "esnp.md").write_text("old")
    assert markdown.stale(folder) == ["esnp.md"]
    assert markdown.write_reference(folder) == ["esnp.md"]
    assert markdown.stale(folder) == []

"""The guide to one's own protocol builds `examples/parcel`: the same files, line by line."""

from __future__ import annotations

import dataclasses
import re

import pytest

from wirelake.wire.meaning import KINDS, Meaning

from .page_runner import ROOT
from .pages import File, steps

EXAMPLE = ROOT / "examples" / "parcel"
PAGE = (ROOT / "docs" / "guides" / "own-protocol.md").read_text("utf-8")
CODE = [path.relative_to(EXAMPLE).as_posix() for path in sorted(EXAMPLE.rglob("*.py"))]


def shown() -> dict[str, list[str]]:
    """The lines of each file that the page writes; names of files and empty lines do not count."""
    found: dict[str, list[str]] = {}
    for step in steps(PAGE):
        if isinstance(step, File):
            lines = found.setdefault(step.name, [])
            assert step.more == bool(lines), step.name
            lines += [line for line in step.text.splitlines()[1:] if line]
    return found


@pytest.mark.parametrize("name", [*CODE, "pyproject.toml"])
def test_the_page_shows_the_file_of_the_example(name: str) -> None:
    lines = (EXAMPLE / name).read_text("utf-8").splitlines()
    assert shown()[f"parcel/{name}"] == [line for line in lines if line]


def test_the_page_shows_no_other_file_of_the_package() -> None:
    files = {name for name in shown() if name.startswith("parcel/")}
    assert files == {f"parcel/{name}" for name in (*CODE, "pyproject.toml")}
    lines = sum(len((EXAMPLE / name).read_text("utf-8").splitlines()) for name in CODE)
    assert f"six Python files, {lines} lines" in PAGE
    assert len(CODE) == 6


def test_the_page_explains_every_field_of_a_meaning() -> None:
    table = PAGE.partition("| field | type | what it declares |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE))
    assert set(rows) == {field.name for field in dataclasses.fields(Meaning)}
    for kind in KINDS:
        assert f"`{kind}`" in rows["kind"]

"""The guide on captures is true: every command of it runs, and says what it is for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wirehouse.cli.read import TABLES

from .conftest import Run
from .simulated import rows, traffic

__all__ = ["traffic"]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "captures.md"
COMMANDS = re.findall(r"^\$ wirehouse (.*?)(?: \| cat)?$", GUIDE.read_text("utf-8"), re.MULTILINE)
NUMBER = re.compile(r"\d{15,}")


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 12
    assert {shlex.split(command)[0] for command in COMMANDS} == {
        "simulate", "capture", "read", "follow",
    }  # fmt: skip


def test_every_table_is_there() -> None:
    text = GUIDE.read_text("utf-8")
    assert [table for table in TABLES if f"| `{table}` |" not in text] == []


@pytest.mark.parametrize("command", [each for each in COMMANDS if not each.startswith("simulate")])
def test_the_commands_run(
    run: Run, traffic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "captures").symlink_to(traffic)
    some = str(rows(traffic, table="connections")[0]["connection"])
    found = run(*shlex.split(NUMBER.sub(some, command)))
    assert found.code == 0
    assert found.out or re.search(r"^\S+: [\d,]+ rows$", found.err, re.MULTILINE)

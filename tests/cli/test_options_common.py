"""What commands share: JSON on one line, input, output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.cli.errors import CommandError
from wirelake.cli.options import hex_bytes, name_value_pairs, read_input
from wirelake.cli.output.text import json_line, write_files

from .conftest import Run


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers()))
def test_json_is_one_line_with_any_line_separator(data: Any) -> None:
    line = json_line(data)
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert json.loads(line) == data


def test_json_keeps_what_people_can_read() -> None:
    assert json_line({"a": "消息 é"}) == '{"a": "消息 é"}'
    assert json_line("\x1b[31m\x85\u2028\U000e0001") == (
        '"\\u001b[31m\\u0085\\u2028\\udb40\\udc01"'
    )


def test_hexadecimal() -> None:
    assert hex_bytes("0x00 01:02-03") == bytes(range(4))
    with pytest.raises(click.UsageError):
        hex_bytes("0")


def test_a_terminal_has_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(click.UsageError, match="give a FILE"):
        read_input(None)


def test_files_go_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a" / "b"
    write_files(str(folder), {"x.md": "é"})
    assert (folder / "x.md").read_text(encoding="utf-8") == "é"
    assert capsys.readouterr().out == f"{folder / 'x.md'}\n"
    with pytest.raises(CommandError, match="not a folder"):
        write_files(str(folder / "x.md"), {})


def test_errors_do_not_drive_the_terminal(run: Run) -> None:
    found = run("decode", "esnp", "no\x1b[31m\nfile")
    assert found == (2, "", "wirelake: no\\x1b[31m file: No such file or directory\n")


def test_pairs() -> None:
    assert name_value_pairs("--conf", ("a.b=x=y", "c=")) == {"a.b": "x=y", "c": ""}
    with pytest.raises(click.UsageError, match="duplicate --conf 'a'"):
        name_value_pairs("--conf", ("a=1", "b=2", "a=2"))
    for bad in ("a", "=1", ""):
        with pytest.raises(click.UsageError, match="expected NAME=VALUE"):
            name_value_pairs("--conf", (bad,))

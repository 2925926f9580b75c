"""The closing text of the demo; test_demo.py runs the commands in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wirelake.cli.demo.report import commands, kept_text, next_text, program
from wirelake.cli.demo.run import RunningDemo

ADDRESSES = {"esnp": "127.0.0.1:1", "admin": "127.0.0.1:2"}


def test_paths_are_quoted() -> None:
    kept = RunningDemo(Path("/a b/c"), ADDRESSES)
    assert any("lake report '/a b/c/lake'" in each for each in commands(kept))
    words = kept_text(kept)
    assert "until Ctrl-C" in words
    assert "esnp     127.0.0.1:1" in words
    assert all(each in words for each in commands(kept))


def test_the_page_is_named_and_ways_to_go_on() -> None:
    assert next_text(Path("x.html"), kept=True) == "Report with plots: x.html"
    assert "demo --keep" in next_text(Path("x.html"), kept=False)


def test_the_program_is_what_the_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wirelake").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "wirelake"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert program() == str(tmp_path / "wirelake")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "not here" / "python"))
    assert program() == f"'{tmp_path}/not here/python' -m wirelake.cli"

"""The deployment page: its commands are valid, and its files exist."""

from __future__ import annotations

import re
import shlex

from tests.docs.pages import blocks

from .shipped import DEPLOY, ROOT, options

PAGE = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")


def lines() -> list[str]:
    """Return every command line of the page."""
    found = "\n".join("\n".join(each.lines) for each in blocks(PAGE) if each.language == "sh")
    return re.sub(r"\\\n\s*", "", found).splitlines()


def test_commands_are_valid() -> None:
    said = [
        options(shlex.split(found[1]))
        for line in lines()
        if (found := re.search(r"\bwirelake ((?:client|lake|hub) .*)$", line))
    ]
    assert len(said) == 7


def test_named_files_exist() -> None:
    named = set(re.findall(r"\bdeploy/[\w./*-]*[\w*/]", PAGE))
    assert len(named) > 8
    for each in named:
        assert list(ROOT.glob(each.rstrip("/"))), each


def test_every_folder_is_explained() -> None:
    for each in DEPLOY.iterdir():
        if each.is_dir() and each.name != "__pycache__":
            assert f"`deploy/{each.name}/`" in PAGE


def test_blocks_not_run_are_marked() -> None:
    assert "shown and not run" in PAGE
    assert not [each for each in blocks(PAGE) if each.language in {"console", "python"}]

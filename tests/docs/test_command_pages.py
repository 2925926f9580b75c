"""The page of commands: every command, every option, every example."""

from __future__ import annotations

import re

import click
from tools.pages.commands import commands, pages

from wirelake.cli.main import COMMANDS


def sections() -> dict[str, str]:
    """The text below each heading."""
    parts = re.split(r"^#+ (wirelake.*)$", pages()["cli.md"], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_a_section_and_a_link() -> None:
    found = sections()
    assert set(found) == {path for path, _, _ in commands()}
    assert [name for name in COMMANDS if f"wirelake {name}" not in found] == []
    assert [name for name in COMMANDS if f"](#wirelake-{name})" not in pages()["cli.md"]] == []


def test_subcommands_are_included() -> None:
    assert {"wirelake lake sql", "wirelake hub init", "wirelake client add"} <= set(sections())


def test_every_option_is_in_the_section_of_its_command() -> None:
    found = sections()
    for path, command, _ in commands():
        for each in command.params:
            if isinstance(each, click.Option) and not each.hidden:
                for name in each.opts:
                    assert name in found[path], (path, name)


def test_every_command_has_a_description() -> None:
    for path, text in sections().items():
        words = re.sub(r"```.*?```", "", text, flags=re.DOTALL).strip()
        assert re.match(r"[A-Z]", words), path


def test_click_escapes_are_removed() -> None:
    assert "\b" not in pages()["cli.md"]
    assert "wirelake read edge.pcapng\n" in pages()["cli.md"]

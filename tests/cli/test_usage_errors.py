"""A wrong command line: each kind of mistake in one form, for every command that can make it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from wirelake.cli.app import load
from wirelake.cli.main import COMMANDS

from .conftest import SOURCES, Run


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand, with the words that name it."""
    for name in COMMANDS:
        command = load(name)
        yield (name,), command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for below in command.list_commands(context):
                each = command.get_command(context, below)
                assert each is not None
                yield (name, below), each


EVERY = list(commands())
GROUPS = [
    (words, command)
    for words, command in EVERY
    if isinstance(command, click.Group) and command.no_args_is_help
]
OPTIONS = [
    (words, param)
    for words, command in EVERY
    for param in command.params
    if isinstance(param, click.Option) and not param.is_flag
    if (words, param.name) != (("demo",), "keep")  # its value is optional
]
NUMBERS = [
    (words, param)
    for words, param in OPTIONS
    if isinstance(param.type, click.types.IntParamType | click.types.FloatParamType)
]


@pytest.mark.parametrize(("words", "group"), GROUPS, ids=str)
def test_a_group_without_a_subcommand(run: Run, words: tuple[str, ...], group: click.Group) -> None:
    found = run(*words)
    path = " ".join(words)
    names = ", ".join(group.list_commands(click.Context(group)))
    expected = f"wirelake: missing subcommand; expected one of {names}"
    assert (found.code, found.err) == (2, f"{expected} (see wirelake {path} --help)\n")


@pytest.mark.parametrize(("words", "option"), OPTIONS, ids=str)
def test_an_option_without_its_value(
    run: Run, words: tuple[str, ...], option: click.Option
) -> None:
    name = option.opts[0]
    found = run(*words, name)
    expected = f"wirelake: {name} requires a value (see wirelake {' '.join(words)} --help)\n"
    assert (found.code, found.err) == (2, expected)


@pytest.mark.parametrize(("words", "option"), NUMBERS, ids=str)
def test_a_number_that_is_none(run: Run, words: tuple[str, ...], option: click.Option) -> None:
    found = run(*words, option.opts[0], "1x")
    name = max(option.opts, key=len)
    assert found.code == 2
    assert re.fullmatch(
        f"wirelake: invalid {name} '1x'; expected (an integer|a number)(, (at|above|below) .+)?"
        rf" \(see wirelake {' '.join(words)} --help\)\n",
        found.err,
    )


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("read", "missing argument FILE… (see wirelake read --help)"),
        ("read x --limit -1", "invalid --limit '-1'; expected an integer, at least 0 (see …)"),
        ("call x --timeout 0", "invalid --timeout '0'; expected a number, above 0 (see …)"),
        (
            "publish u t c --type 256",
            "invalid --type '256'; expected an integer, at least 0 and at most 255 (see …)",
        ),
        ("simulate", "missing option --out (see wirelake simulate --help)"),
        (
            "user add bob",
            "missing option --role; expected one of metrics, viewer, analyst, operator (see …)",
        ),
        ("completion", "missing argument SHELL; expected one of bash, zsh, fish (see …)"),
        ("read x --versoin", "unknown option '--versoin' (see wirelake read --help)"),
        ("read x --limt 3", "unknown option '--limt'; did you mean --limit? (see …)"),
    ],
)
def test_a_wrong_command_line(run: Run, args: str, text: str) -> None:
    found = run(*args.split())
    assert found.code == 2
    assert re.fullmatch(re.escape(f"wirelake: {text}\n").replace("…\\)", ".*\\)"), found.err)


@pytest.mark.parametrize("word", ["--help", "--version", "protocols"])
def test_an_output_that_cannot_be_written(word: str) -> None:
    with open("/dev/full", "wb") as full:
        found = subprocess.run(
            [sys.executable, "-m", "wirelake.cli", word],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCES},
            check=False,
            text=True,
        )
    assert found.returncode == 2
    assert re.fullmatch(r"wirelake: (standard output: )?No space left on device\n", found.stderr)

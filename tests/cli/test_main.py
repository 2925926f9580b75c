"""The top of the command line: help, version, exit codes, and how fast help comes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from wirelake import __version__
from wirelake.cli.app import TOP
from wirelake.cli.main import COMMANDS, help_text
from wirelake.protocols.registry import BUILT_IN
from wirelake.traffic.plan import _MAX_FAULTS

from .conftest import SOURCES, Run


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
def test_help(run: Run, args: tuple[str, ...]) -> None:
    found = run(*args)
    assert found == (0, help_text(), "")
    for name, summary in COMMANDS.items():
        assert f"{name} " in found.out
        assert summary in found.out


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"wirelake {__version__}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    for flag in ("--help", "-h"):
        found = run(command, flag)
        assert found.code == 0
        assert COMMANDS[command] in " ".join(found.out.split())
        assert f"  wirelake {command}" in found.out or f"| wirelake {command}" in found.out
        assert "Example" in found.out


def commands(top: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands and subcommands."""
    yield " ".join(path), top
    if isinstance(top, click.Group):
        context = click.Context(top)
        for name in top.list_commands(context):
            found = top.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


def test_only_examples_in_help_name_a_protocol() -> None:
    named = re.compile(rf"\b({'|'.join(BUILT_IN)})\b", re.IGNORECASE)
    checked = 0
    for name, command in commands(TOP):
        texts = [] if command.help is None else command.help.splitlines()
        texts = [line for line in texts if not re.match(r"  .*\bwirelake ", line)]
        texts += [getattr(each, "help", None) or "" for each in command.params]
        assert not [text for text in texts if named.search(text)], name
        checked += len(texts)
    assert not named.search(" ".join(COMMANDS.values()))
    assert checked > 200


def test_help_states_what_is_optional_and_the_maximum(run: Run) -> None:
    assert "subscribe [OPTIONS] [URL] [TOPIC]...\n" in run("subscribe", "--help").out
    faults = run("simulate", "--help").out.partition("--faults RATE")[2]
    assert f"at most {_MAX_FAULTS}" in " ".join(faults.split())


def test_help_of_commands_loads_no_slow_package() -> None:
    program = (
        "import sys; from wirelake.cli.lake.command import SUBCOMMANDS;"
        "from wirelake.cli.main import COMMANDS, main;"
        "every = [[name] for name in COMMANDS] + [['lake', name] for name in SUBCOMMANDS];"
        "assert not any(main([*each, '--help']) for each in every);"
        "slow = {'numba', 'numpy', 'pyarrow', 'duckdb', 'pyspark', 'rich'};"
        "sys.stderr.write(' '.join(sorted(slow & set(sys.modules))))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stderr == ""


@pytest.mark.parametrize("subcommand", ["show", "reference", "ksy"])
def test_every_subcommand_has_help_with_an_example(run: Run, subcommand: str) -> None:
    found = run("protocols", subcommand, "--help")
    assert found.code == 0
    assert f"  wirelake protocols {subcommand}" in found.out


@pytest.mark.parametrize(
    "args",
    [
        ("nope",),
        ("--nope",),
        ("decode",),
        ("decode", "nope", "--hex", "00"),
        ("decode", "comet", "--nope"),
        ("decode", "comet", "a", "b"),
        ("protocols", "nope"),
        ("protocols", "show"),
        ("conform",),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(run: Run, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("wirelake: ")
    assert err.count("\n") == 1


def test_unknown_commands_name_the_known(run: Run) -> None:
    assert ", ".join(COMMANDS) in run("nope").err


HEAVY = ("click", "rich", "msgspec", "cryptography", "hypothesis", "importlib.metadata", "re")


def test_help_imports_next_to_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "from wirelake.cli.main import main; main(['--help']);"
        "print(sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": SOURCES},
    )
    modules = ast.literal_eval(found.stderr)
    assert "wirelake.cli.main" in modules
    assert not set(HEAVY) & set(modules)
    assert len(modules) < 20, modules


def test_the_module_runs(shell: Run) -> None:
    assert shell("--version").out == f"wirelake {__version__}\n"

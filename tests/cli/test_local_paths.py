"""Every parameter of every command that is a path refuses an address with a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wirelake.cli.app import TOP
from wirelake.cli.completion import LocalPath
from wirelake.cli.main import main

ADDRESS = "s3a://bucket/folder"


def commands(
    group: click.Command, name: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command, with the words that call it."""
    if not isinstance(group, click.Group):
        yield " ".join(name), group
        return
    context = click.Context(group)
    for each in group.list_commands(context):
        found = group.get_command(context, each)
        assert found is not None
        yield from commands(found, (*name, each))


ALL = dict(commands(TOP))


def test_words_for_paths_are_paths() -> None:
    """A parameter whose help is about files or folders has the type that checks it."""
    words = ("folder", "file", "directory")
    unchecked = [
        f"{name} {param.name}"
        for name, command in ALL.items()
        for param in command.params
        if not isinstance(param.type, LocalPath | click.types.IntParamType | click.types.IntRange)
        and isinstance(param, click.Option)
        and not param.is_flag
        and param.metavar is not None
        and any(word in (param.metavar or "").lower() for word in (*words, "dir", "lake", "path"))
    ]
    assert unchecked == []


@pytest.mark.parametrize(
    ("name", "param"),
    [
        (name, param)
        for name, command in ALL.items()
        for param in command.params
        if isinstance(param.type, LocalPath)
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_an_address_is_refused(name: str, param: click.Parameter) -> None:
    with pytest.raises(click.UsageError, match="unsupported scheme 's3a'"):
        param.type_cast_value(
            click.Context(ALL[name]), (ADDRESS,) if param.multiple or param.nargs == -1 else ADDRESS
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ("lake", "run", "--from", ADDRESS, "--to", "lake"),
        ("lake", "run", "--from", "captures", "--to", ADDRESS),
        ("lake", "export", "lake", ADDRESS, "--format", "delta"),
        ("lake", "sql", ADDRESS, "select 1"),
        ("lake", "status", "lake", "--from", ADDRESS),
        ("read", ADDRESS),
        ("read", "a.pcap", "-o", "gs://bucket/x.parquet"),
        ("simulate", "--out", ADDRESS),
        ("hub", "--data", ADDRESS),
    ],
    ids=" ".join,
)
def test_nothing_is_created(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(arguments)) == 2
    said = capsys.readouterr().err
    assert "unsupported scheme" in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []

"""How a command fails: one line for people and an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

__all__ = [
    "BAD_DATA",
    "BAD_USAGE",
    "EXTRAS",
    "INTERRUPTED",
    "CommandError",
    "missing_package",
    "unknown_name",
]

# The exit codes of every command; `docs/reference/exit-codes.md` describes them.
BAD_DATA = 1
"""Exit code: the input is invalid, or a server refused or did not answer."""
BAD_USAGE = 2
"""Exit code: the command line or the environment is wrong."""
INTERRUPTED = 130
"""Exit code: Ctrl-C ended a command before its end, as shells report it. Commands that run until
they are interrupted exit with 0."""
EXTRAS: Final = {
    "capture": "cli,capture",
    "client": "cli,hub",
    "demo": "demo",
    "follow": "cli,columnar",
    "hub": "cli,hub",
    "lake": "cli,lake,java",
    "lake compact": "cli,tables",
    "lake expire": "cli,tables",
    "lake export": "cli,tables",
    "lake report": "cli,report",
    "lake sql": "cli,tables",
    "lake status": "cli,tables",
    "listen": "cli,columnar",
    "read": "cli,columnar",
    "report": "cli,columnar,report",
    "simulate": "cli,columnar",
    "sql": "cli,columnar,tables",
}
"""The extras with everything that a command or subcommand needs; commands not listed need `cli`."""


class CommandError(Exception):
    """A command failed. The message is one line; `code` is the exit code."""

    def __init__(self, message: str, code: int = BAD_DATA):
        super().__init__(message)
        self.code = code


def unknown_name(
    kind: str, name: str, known: Iterable[str], ctx: click.Context | None = None, *, of: str = ""
) -> click.UsageError:
    """Return the usage error for a name that is not among the known ones."""
    from wirelake.wire.errors import unknown  # 0.1 s: only when there is something to report

    return click.UsageError(unknown(kind, name, known, of=of), ctx)


def missing_package(command: str, name: str) -> str:
    """Return the text for a package that a command needs and that is not installed.

    `command` is a command, with its subcommand if it has one.
    """
    from wirelake.wire.errors import missing_dependency

    extras = EXTRAS.get(command) or EXTRAS.get(command.partition(" ")[0], "cli")
    return missing_dependency(name.partition(".")[0], extras)

"""How a command fails: one line for people and an exit code."""

from __future__ import annotations

from collections.abc import Iterable

import click

__all__ = ["BAD_DATA", "BAD_USAGE", "CommandError", "unknown_name"]

BAD_DATA = 1
"""Exit code: the input is invalid, or a server refused or did not answer."""
BAD_USAGE = 2
"""Exit code: the command line or the environment is wrong."""


class CommandError(Exception):
    """A command failed. The message is one line; `code` is the exit code."""

    def __init__(self, message: str, code: int = BAD_DATA):
        super().__init__(message)
        self.code = code


def unknown_name(
    kind: str, name: str, known: Iterable[str], ctx: click.Context | None = None
) -> click.UsageError:
    """Return the usage error for a name that is not among the known ones."""
    from wirelake.wire.errors import unknown  # 0.1 s: only when there is something to report

    return click.UsageError(unknown(kind, name, known), ctx)

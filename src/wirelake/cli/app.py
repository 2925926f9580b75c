"""Runs commands with click and turns every failure into one line and an exit code.

Users never see a traceback. `WIRELAKE_DEBUG=1` shows the one behind an internal error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from .completion import prepare
from .errors import BAD_DATA, BAD_USAGE, INTERRUPTED, CommandError, missing_package, unknown_name
from .main import COMMANDS, abandon_output, help_text, place_of

__all__ = ["TOP", "load", "run"]


class _Commands(click.Group):
    """The top-level group; it imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        return load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise unknown_name("command", args[0], COMMANDS, ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:  # noqa: ARG002
        """Return the commands, which need not be imported for that."""
        return [
            CompletionItem(name, help=summary)
            for name, summary in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        return help_text().rstrip()


TOP = _Commands(name="wirelake", context_settings={"help_option_names": ["-h", "--help"]})
"""The group of all commands."""


def load(name: str) -> click.Command:
    """Import a command."""
    module, attribute = place_of(name)
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return prepare(command)


def run(args: Sequence[str]) -> int:
    """Run a command and return the exit code."""
    # Escape characters that the terminal's encoding does not have, instead of failing.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = TOP.main(list(args), prog_name="wirelake", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        return abandon_output()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("WIRELAKE_DEBUG"):
            raise
        line, code = _explain(error, args[0] if args else "")
        click.echo(f"wirelake: {_one_line(line)}", err=True)
        return code


def _explain(error: Exception, command: str) -> tuple[str, int]:
    """Return the line for an error of a command, and its exit code."""
    # Imported here: commands without protocols start faster, and errors may be slow.
    from wirelake.protocols.registry import BrokenProtocolError, RegistryError
    from wirelake.wire.declare import DeclarationError
    from wirelake.wire.errors import WireError
    from wirelake.wire.paths import AddressError

    match error:
        case click.UsageError():
            return _usage(error), BAD_USAGE
        case click.ClickException():
            return error.format_message(), error.exit_code
        case CommandError():
            return str(error), error.code
        case BrokenProtocolError() | DeclarationError() | WireError():
            return str(error), BAD_DATA
        case RegistryError() | AddressError():
            return str(error), BAD_USAGE
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}", BAD_USAGE
        # Packages are imported where they are needed, so any command may find one missing. A module
        # of ours that is missing is a defect.
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] != "wirelake":
            return missing_package(command, name), BAD_USAGE
        # Nested JSON, or a layout that nests without end: the input's fault, not ours.
        case RecursionError() | MemoryError():
            return "the input is too large or nested too deeply", BAD_DATA
        case _:
            return (
                f"internal error: {type(error).__name__}: {error}"
                " (set WIRELAKE_DEBUG=1 for the traceback)"
            ), BAD_DATA


def _one_line(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))


def _usage(error: click.UsageError) -> str:
    path: Any = error.ctx.command_path if error.ctx is not None else "wirelake"
    text = error.format_message()
    if isinstance(error, click.NoSuchOption):
        from wirelake.wire.errors import did_you_mean

        params = error.ctx.command.params if error.ctx is not None else []
        known = [each for param in params for each in param.opts if each.startswith("--")]
        text = f"unknown option {error.option_name!r}{did_you_mean(error.option_name, known)}"
    return f"{text} (see {path} --help)"

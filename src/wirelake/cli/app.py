"""Runs commands with click and turns every failure into one line and an exit code.

Users never see a traceback. `WIRELAKE_DEBUG=1` shows the one behind an internal error.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem

from .completion import prepare
from .errors import BAD_DATA, BAD_USAGE, INTERRUPTED, CommandError, missing_package, unknown_name
from .main import COMMANDS, OUTPUT_CLOSED, abandon_output, help_text, place_of
from .signals import ended_by_signals

__all__ = ["TOP", "load", "run"]

_QUERY_INTERRUPTED: Final = "Query interrupted"
"""Message of the error that DuckDB raises after Ctrl-C."""


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
        with ended_by_signals():
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
        if str(error) == _QUERY_INTERRUPTED:
            return INTERRUPTED
        line, code = _explain(error, args)
        click.echo(f"wirelake: {_one_line(line)}", err=True)
        return code


def _explain(error: Exception, args: Sequence[str]) -> tuple[str, int]:
    """Return the line for an error of a command, and its exit code."""
    # Imported here: commands without protocols start faster, and errors may be slow.
    from wirelake.protocols.registry import BrokenProtocolError, RegistryError
    from wirelake.tables.paths import DamagedError, LakeError
    from wirelake.wire.declare import DeclarationError
    from wirelake.wire.errors import WireError
    from wirelake.wire.paths import AddressError

    match error:
        case click.UsageError():
            return _usage(error, args), BAD_USAGE
        case click.ClickException():
            return error.format_message(), error.exit_code
        case CommandError():
            return str(error), error.code
        case LakeError():
            return str(error), BAD_DATA if isinstance(error, DamagedError) else BAD_USAGE
        case BrokenProtocolError() | DeclarationError() | WireError():
            return str(error), BAD_DATA
        case RegistryError() | AddressError():
            return str(error), BAD_USAGE
        case OSError(errno=errno.EBADF, filename=None) if sys.__stdout__ is None:
            abandon_output()  # what is left in the buffer
            return OUTPUT_CLOSED, BAD_USAGE
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}", BAD_USAGE
        # Packages are imported where they are needed, so any command may find one missing. A module
        # of ours that is missing is a defect.
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] != "wirelake":
            return missing_package(" ".join(args[:2]), name), BAD_USAGE
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


def _usage(error: click.UsageError, args: Sequence[str]) -> str:
    """Return the text for a wrong command line, and where to read more.

    click's own texts are replaced: they differ from ours in form, and name its types.
    """
    path = _command_path(args) if error.ctx is None else error.ctx.command_path
    return f"{_problem(error)} (see {path} --help)"


def _problem(error: click.UsageError) -> str:
    match error:
        case click.NoSuchOption():
            from wirelake.wire.errors import did_you_mean

            params = error.ctx.command.params if error.ctx is not None else []
            known = [each for param in params for each in param.opts if each.startswith("--")]
            return f"unknown option {error.option_name!r}{did_you_mean(error.option_name, known)}"
        case NoArgsIsHelpError(ctx=click.Context(command=click.Group() as group) as ctx):
            return f"missing subcommand; expected one of {', '.join(group.list_commands(ctx))}"
        case click.BadOptionUsage():
            return f"{error.option_name} requires a value"
        case click.MissingParameter(param=click.Parameter() as param):
            arguments = _arguments(error.ctx)
            if param.nargs == -1 and len(arguments) > 1:
                # Which of them is missing is not known: the last one takes what there is first.
                return f"missing argument; expected {' '.join(arguments)}"
            names = getattr(param.type, "choices", ())
            expected = f"; expected one of {', '.join(names)}" if names else ""
            kind = "option" if isinstance(param, click.Option) else "argument"
            return f"missing {kind} {_name(param, error.ctx)}{expected}"
        case click.BadParameter(param=click.Parameter() as param, message=text):
            # Messages begin with the value, in quotes, or with what is wrong about it.
            name = _name(param, error.ctx)
            return f"invalid {name} {text}" if text[:1] in "'\"" else f"{name}: {text}"
        case _:
            return error.format_message()


def _arguments(ctx: click.Context | None) -> list[str]:
    """Return the arguments of a command as `--help` shows them."""
    if ctx is None:
        return []
    found = [each for each in ctx.command.params if isinstance(each, click.Argument)]
    return [each.make_metavar(ctx) for each in found]


def _name(param: click.Parameter, ctx: click.Context | None) -> str:
    """Return the long name of an option, or the name of an argument as `--help` shows it."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    if ctx is None or isinstance(param.type, click.Choice):  # its metavar lists the choices
        return param.human_readable_name
    return param.make_metavar(ctx)


def _command_path(args: Sequence[str]) -> str:
    """Return the command, with its subcommand, that a command line names."""
    # click's parser does not say which command it was parsing for.
    path: str = "wirelake"
    command: click.Command = TOP
    with click.Context(TOP) as ctx:
        for name in args:
            found = command.get_command(ctx, name) if isinstance(command, click.Group) else None
            if found is None:
                break
            path, command = f"{path} {name}", found
    return path

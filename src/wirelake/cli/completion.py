"""What every parameter of every command gets: tab completion, and suggestions for misspelt values.

`prepare` sets the type of a parameter by its metavar or its name, when its command is loaded, so
that the commands declare none of this. `wirelake completion SHELL` prints the script of a shell;
the shell then runs `wirelake` with `_WIRELAKE_COMPLETE` set, and click asks the types below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from .contexts import context_names
from .main import COMMANDS, COMPLETE
from .options import CONTEXT

__all__ = ["SHELLS", "command", "prepare"]

SHELLS: Final = ("bash", "zsh", "fish")
"""The supported shells."""

Names: TypeAlias = Callable[[click.Context], Iterable[str]]
"""Returns the possible values of a parameter."""


def prepare(command: click.Command) -> click.Command:
    """Set the types of a command's parameters, and of its subcommands that are loaded."""
    for param in command.params:
        kind = param.type
        if type(kind) is click.Choice:
            param.type = _Choice(kind.choices, case_sensitive=kind.case_sensitive)
        elif number := _NUMBERS.get(type(kind)):
            param.type = number.__new__(number)
            vars(param.type).update(vars(kind))  # the range
        elif type(kind) is StringParamType:
            param.type = _text_type(param) or kind
    if isinstance(command, click.Group):
        for each in command.commands.values():
            prepare(each)
    return command


def _text_type(param: click.Parameter) -> StringParamType | None:
    metavar = (param.metavar or (param.name or "").upper()).strip("[]….")
    if metavar in ("DIR", "FOLDER", "LAKE"):
        return _Folder()
    if metavar in ("FILE", "FILES", "OUT", "HEX"):
        return _File()
    names = _NAMES.get(param.name or "")
    return None if names is None else _Text(names)


# -- types -------------------------------------------------------------------------------------

# Subclasses of the type of text: `--help` and the reference pages show them as before.


class _Choice(click.Choice[Any]):
    """A choice that suggests similar names."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002
        from wirelake.wire.errors import unknown

        return unknown("value", value, self.choices)


class _Number(click.ParamType[Any]):
    """A number whose errors say what is expected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{str(value)!r}; expected {self._expected()}", param, ctx)

    def _expected(self) -> str:
        noun = "an integer" if self.name == "integer" else "a number"
        low, high = getattr(self, "min", None), getattr(self, "max", None)
        limits = []
        if low is not None:
            limits.append(f"above {low}" if getattr(self, "min_open", False) else f"at least {low}")
        if high is not None:
            limits.append(
                f"below {high}" if getattr(self, "max_open", False) else f"at most {high}"
            )
        return f"{noun}, {' and '.join(limits)}" if limits else noun


class _Int(_Number, click.types.IntParamType):
    name = "integer"


class _IntRange(_Number, click.IntRange):
    name = "integer"


class _Float(_Number, click.types.FloatParamType):
    name = "number"


class _FloatRange(_Number, click.FloatRange):
    name = "number"


_NUMBERS: Final[dict[type[Any], type[_Number]]] = {
    each.__bases__[1]: each for each in (_Int, _IntRange, _Float, _FloatRange)
}


class _Text(StringParamType):
    """Text that is completed from a list of names."""

    def __init__(self, names: Names):
        self._names = names

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem[str]]:
        """Return the names that continue the last item of a list, separated by commas."""
        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in self._names(ctx)
            if name.startswith(last)
        ]


class LocalPath(StringParamType):
    """A path on this machine: an address with a scheme is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; `file:` URLs become paths."""
        from wirelake.wire.paths import AddressError, local_path

        text = super().convert(value, param, ctx)
        try:
            # `local_path` would drop a slash at the end, which messages repeat as it was given.
            return str(local_path(text)) if ":/" in text else text
        except AddressError as error:
            raise click.UsageError(str(error), ctx) from None


class _File(LocalPath):
    """The name of a file."""

    _completed_by = "file"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem[str]]:
        """Let the shell complete the name."""
        return [CompletionItem(incomplete, type=self._completed_by)]


class _Folder(_File):
    """The name of a folder."""

    _completed_by = "dir"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse `-`, which would be a folder of that name."""
        if value == "-":
            self.fail("'-'; expected a folder, not standard input or output", param, ctx)
        return super().convert(value, param, ctx)


# -- names -------------------------------------------------------------------------------------


def _protocols(_: click.Context) -> Iterable[str]:
    from wirelake.protocols import registry

    return registry.names()


def _dialects(ctx: click.Context) -> Iterable[str]:
    from wirelake.protocols import registry

    chosen = ctx.params.get("protocol")
    names = registry.names() if chosen is None else [str(chosen)]
    try:
        return dict.fromkeys(each for name in names for each in registry.find(name).dialects)
    except registry.RegistryError:
        return ()


def _protocol_dialects(_: click.Context) -> Iterable[str]:
    from wirelake.protocols import registry

    protocols = registry.load_all()[0]
    return [f"{each.name}={dialect}" for each in protocols for dialect in each.dialects]


def _columns(ctx: click.Context) -> Iterable[str]:
    from wirelake.records.schema import schema

    return list(schema(str(ctx.params.get("table") or "messages")).names)


def _layouts(_: click.Context) -> Iterable[str]:
    from wirelake.protocols import registry

    protocols = registry.load_all()[0]
    layouts = [f"{each.name}.{layout.name}" for each in protocols for layout in each.layouts()]
    return [*(each.name for each in protocols), *layouts]


def _contexts(_: click.Context) -> Iterable[str]:
    return context_names()


_NAMES: Final[dict[str, Names]] = {
    "protocol": _protocols,
    "protocols": _protocols,
    "force_protocol": _protocols,
    "dialect": _dialects,
    "dialects": _protocol_dialects,
    "columns": _columns,
    "name": _layouts,
    "context": _contexts,
    "context_name": _contexts,
}
"""Possible values, by the name of a parameter."""


# -- wirelake completion --------------------------------------------------------------------------

_HELP = f"""{COMMANDS["completion"]}

Completes commands, options, files, protocols, tables, columns and contexts. bash and zsh read the
script when they start; fish finds it in its folder of completions.

\b
Examples:
  echo 'eval "$(wirelake completion bash)"' >> ~/.bashrc
  echo 'eval "$(wirelake completion zsh)"' >> ~/.zshrc
  wirelake completion fish > ~/.config/fish/completions/wirelake.fish
"""


@click.command(name="completion", help=_HELP, context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script of a shell."""
    from click.shell_completion import get_completion_class

    from .app import TOP

    found = get_completion_class(shell)
    assert found is not None
    source = found(TOP, {}, "wirelake", COMPLETE).source()
    # click's script for fish cuts a completion such as `target,status` at its comma.
    click.echo(source.replace('string split ","', 'string split -m 1 ","'), nl=False)

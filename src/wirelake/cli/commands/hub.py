"""`wirelake hub`: runs the live server, or writes its configuration."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import BAD_USAGE, CommandError
from ..main import COMMANDS
from ..output.common import CONTEXT

if TYPE_CHECKING:
    from wirelake.hub.config import Config
    from wirelake.hub.rpc.services import Services

__all__ = ["command"]

_HELP = f"""{COMMANDS["hub"]}

Without a command it runs until SIGTERM or Ctrl-C. It prints where it listens, then `ready`. SIGHUP
reads limits and certificates again.

\b
Examples:
  wirelake hub --data hub-data --demo
  wirelake hub init -o hub.toml
  wirelake hub --data hub-data --config hub.toml --record recordings
"""
_INSTALL: Final = "pip install 'wirelake[cli,hub]'"


class _HubGroup(click.Group):
    """What is wrong with a configuration, or missing, is one line."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(
                f"no command of hub is called {args[0]!r}; there is {', '.join(self.commands)}", ctx
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ImportError as error:
            name = error.name or ""
            if not name or name.startswith("wirelake"):
                raise
            raise CommandError(f"the hub needs {name}: {_INSTALL}", BAD_USAGE) from error


@click.group(
    name="hub", help=_HELP, cls=_HubGroup, context_settings=CONTEXT, invoke_without_command=True
)
@click.option(
    "--data",
    default="hub-data",
    show_default=True,
    metavar="DIR",
    help="Where clients, inboxes and keys are kept.",
)
@click.option("--config", "config_file", metavar="FILE", help="Its configuration, TOML.")
@click.option("--record", metavar="DIR", help="Record what crosses the hub, for wirelake read.")
@click.option(
    "--demo", is_flag=True, help="Services to try out, and magline clients without a key."
)
@click.option(
    "--services",
    "named",
    metavar="MODULE:NAME",
    help="Your services: a wirelake.hub.rpc.services.Services in a module that can be imported.",
)
@click.option("--verbose", is_flag=True, help="Log more than what is wrong.")
@click.pass_context
def command(
    ctx: click.Context,
    data: str,
    config_file: str | None,
    record: str | None,
    demo: bool,
    named: str | None,
    verbose: bool,
) -> None:
    """Run the hub."""
    if ctx.invoked_subcommand is not None:
        return
    _log_to_stderr(verbose)
    _run(data, config_file, record, demo, named)


def _run(
    data: str, config_file: str | None, record: str | None, demo: bool, named: str | None
) -> None:
    from wirelake.hub.config import ConfigError
    from wirelake.hub.run import run_hub

    os.umask(0o077)  # what is kept and recorded is nobody else's to read

    def read() -> Config:
        return _config(config_file, record, demo)

    try:
        run_hub(read(), data, _services(demo, named), say=_say, read_again=read)
    except ConfigError as error:
        raise CommandError(str(error), BAD_USAGE) from error


def _say(line: str) -> None:
    """A line that whoever waits for it sees at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _config(config_file: str | None, record: str | None, demo: bool) -> Config:
    """The file's configuration, and what the command line says on top of it."""
    from msgspec.structs import replace

    from wirelake.hub.config import load_config
    from wirelake.protocols import registry

    config = load_config(config_file)
    if record is not None:
        config = replace(config, record=replace(config.record, folder=record))
    if demo:
        for name in config.listeners:
            config = config.with_listener(name, **registry.binding(name).trial_settings)
    return config


def _services(demo: bool, named: str | None) -> Services:
    from wirelake.hub.rpc.services import Services

    if demo and named is not None:
        raise click.UsageError("--demo brings its own services: leave --services out")
    if demo:
        from wirelake.hub.rpc.demo_services import demo_services

        return demo_services()
    return Services() if named is None else _named_services(named)


def _named_services(named: str) -> Services:
    """The services at MODULE:NAME; modules of the working directory can be named, too."""
    import importlib

    from wirelake.hub.rpc.services import Services

    module, _, name = named.partition(":")
    if not module or not name:
        raise click.UsageError(f"--services: wanted MODULE:NAME, got {named!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise CommandError(f"--services: {error}", BAD_USAGE) from error
    if not isinstance(found, Services):
        raise CommandError(
            f"--services: {named} is no wirelake.hub.rpc.services.Services", BAD_USAGE
        )
    return found


def _log_to_stderr(verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


@command.command(name="init", context_settings=CONTEXT)
@click.option("-o", "--output", metavar="FILE", help="Where to; by default standard output.")
def init(output: str | None) -> None:
    """Write a configuration with every key, its meaning and its default."""
    from wirelake.hub.config import config_text

    if output is None:
        click.echo(config_text(), nl=False)
        return
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(config_text())
    except FileExistsError as error:
        raise CommandError(f"{output} is there already: name another file", BAD_USAGE) from error
    click.echo(output)

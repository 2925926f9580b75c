"""`wirelake hub`: runs the server, or writes its configuration."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..errors import BAD_USAGE, CommandError, unknown_name
from ..main import COMMANDS
from ..named_services import named_services
from ..options import CONTEXT, Group, is_port, name_value_pairs, warn_of_password
from ..output.text import json_line, print_notice

if TYPE_CHECKING:
    from wirelake.hub.config import Config
    from wirelake.hub.rpc.services import Services

__all__ = ["command"]

_ADMIN: Final = "admin"
_MAX_PORT: Final = 65_535

_HELP = f"""{COMMANDS["hub"]}

Without a subcommand, runs until SIGTERM or Ctrl-C. Prints its addresses, then `ready`. SIGHUP
reloads limits and certificates. A start that fails, because of an address in use for example,
leaves no files behind.

\b
Examples:
  wirelake hub --data hub-data --demo
  wirelake hub --demo --port comet=19620 --port admin=0 --verbose
  wirelake hub init -o hub.toml
  wirelake hub --data hub-data --config hub.toml --record recordings
  wirelake hub --store postgresql://wirelake_hub@db.example.com/wirelake
"""


@click.group(
    name="hub", help=_HELP, cls=Group, context_settings=CONTEXT, invoke_without_command=True
)
@click.option(
    "--data",
    default="hub-data",
    show_default=True,
    metavar="DIR",
    help="Data directory: clients, inboxes, keys.",
)
@click.option("--config", "config_file", metavar="FILE", help="Configuration file (TOML).")
@click.option(
    "--store",
    metavar="URL",
    help="Database, instead of a file in the data directory: a postgresql:// URL or a path.",
)
@click.option("--record", metavar="DIR", help="Folder to record all traffic to, as pcapng.")
@click.option(
    "--demo", is_flag=True, help="Run the demo services, with demo settings: not for production."
)
@click.option(
    "--services",
    "named",
    metavar="MODULE:NAME",
    help="Services to run: an instance of wirelake.hub.rpc.services.Services.",
)
@click.option(
    "--port",
    "ports",
    multiple=True,
    metavar="NAME=PORT",
    help="Port of a protocol's listener, or of `admin`; 0 chooses a free one; repeatable.",
)
@click.option(
    "--verbose",
    is_flag=True,
    help="Log more: each connection, sign-on, publish and HTTP request, on standard error.",
)
@click.pass_context
def command(
    ctx: click.Context,
    data: str,
    config_file: str | None,
    store: str | None,
    record: str | None,
    demo: bool,
    named: str | None,
    ports: tuple[str, ...],
    verbose: bool,
) -> None:
    """Run the hub."""
    if ctx.invoked_subcommand is not None:
        return
    _log_to_stderr(verbose)
    from wirelake.hub.config import ConfigError
    from wirelake.hub.run import run_hub

    warn_of_password(store)
    os.umask(0o077)  # data and recordings are private to the user

    def read() -> Config:
        return _config(config_file, store, record, demo, _ports(ports))

    try:
        config = read()
        _report_broken_protocols()
        run_hub(
            config,
            data,
            _services(demo, named),
            print_line=_print_line,
            reload_config=read,
            access_log=verbose,
        )
    except ConfigError as error:
        raise CommandError(str(error), BAD_USAGE) from error


def _ports(given: tuple[str, ...]) -> dict[str, int]:
    """Parse repeated `--port NAME=PORT` options."""
    ports: dict[str, int] = {}
    for name, text in name_value_pairs("--port", given, "NAME=PORT").items():
        if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > _MAX_PORT:
            # The option of this name of commands that read captures is PORT=PROTOCOL.
            swapped = f", such as {text}={name}" if is_port(name) and text else ""
            raise click.UsageError(
                f"invalid --port {f'{name}={text}'!r}; expected NAME=PORT with a port"
                f" 0-{_MAX_PORT}{swapped}"
            )
        ports[name] = int(text)
    return ports


def _report_broken_protocols() -> None:
    """Print a notice about each package whose protocol cannot be served."""
    from wirelake.protocols import registry

    for error in registry.all_bindings()[1]:
        print_notice(f"skipping {error}")


def _print_line(line: str) -> None:
    """Print a line and flush it: scripts wait for `ready`."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _config(
    config_file: str | None,
    store: str | None,
    record: str | None,
    demo: bool,
    ports: dict[str, int],
) -> Config:
    """Load the configuration and apply the options of the command line."""
    from msgspec.structs import replace

    from wirelake.hub.config import load_config
    from wirelake.protocols import registry

    config = load_config(config_file)
    if store is not None:
        config = replace(config, store=replace(config.store, path=store))
    if record is not None:
        config = replace(config, record=replace(config.record, folder=record))
    if demo:
        for name in config.listeners:
            config = config.with_listener(name, **registry.binding(name).demo_settings)
    for name, port in ports.items():
        if name == _ADMIN:
            config = replace(config, admin=replace(config.admin, port=port))
        elif name in config.listeners:
            config = config.with_listener(name, port=port)
        else:
            raise unknown_name("listener", name, [*config.listeners, _ADMIN])
    return config


def _services(demo: bool, named: str | None) -> Services:
    from wirelake.hub.rpc.services import Services

    if demo and named is not None:
        raise click.UsageError("--demo conflicts with --services")
    if demo:
        from wirelake.hub.rpc.demo_services import demo_services

        return demo_services()
    return Services() if named is None else named_services("--services", named)


def _log_to_stderr(verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


@command.command(name="init", context_settings=CONTEXT)
@click.option("-o", "--output", metavar="FILE", help="Output file.  [default: standard output]")
def init(output: str | None) -> None:
    """Write a configuration file with every key, its description and its default."""
    from wirelake.hub.config import config_text

    _report_broken_protocols()
    if output is None or output == "-":
        click.echo(config_text(), nl=False)
        return
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(config_text())
    except FileExistsError as error:
        raise CommandError(f"{output} already exists", BAD_USAGE) from error
    click.echo(output)


# -- the store ---------------------------------------------------------------------------------

_STORE_HELP = """Create, upgrade and fill the tables of a hub in PostgreSQL.

\b
Examples:
  wirelake hub store migrate --store postgresql://wirelake_owner@db.example.com/wirelake
  wirelake hub store copy --data hub-data --store postgresql://wirelake_owner@db.example.com/wirelake
"""


@command.group(name="store", help=_STORE_HELP, cls=Group, context_settings=CONTEXT)
def store_group() -> None:
    """Manage the store of a hub."""


_URL = click.option(
    "--store", "url", required=True, metavar="URL", help="Database: a postgresql:// URL."
)


@store_group.command(name="migrate", context_settings=CONTEXT)
@_URL
def migrate(url: str) -> None:
    """Create the tables of a hub, or upgrade those of an older version.

    For databases where the role of the hub may not do that. The role that runs this owns the
    tables.
    """
    from wirelake.hub.config import ConfigError
    from wirelake.hub.store import migrate_store, shown

    warn_of_password(url)
    try:
        before, after = migrate_store(url)
    except ConfigError as error:
        raise CommandError(str(error), BAD_USAGE) from error
    what = "created" if not before else "upgraded" if before < after else "up to date"
    click.echo(f"{shown(url)}: {what}, format {after}")


@store_group.command(name="copy", context_settings=CONTEXT)
@click.option(
    "--data",
    default="hub-data",
    show_default=True,
    metavar="DIR",
    help="Data directory of the hub to copy.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Configuration of the hub, if its SQLite database is elsewhere.",
)
@_URL
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table.")
def copy(data: str, config_file: str | None, url: str, as_json: bool) -> None:
    """Copy the SQLite store of a hub to an empty PostgreSQL database.

    The hub must not run. Everything is copied in one transaction, then number and checksum of the
    rows of each table are compared and printed. If it is interrupted, nothing was copied, and it
    can be repeated.
    """
    from wirelake.hub.config import ConfigError, load_config
    from wirelake.hub.store import copy_to_postgres, database_path, shown

    warn_of_password(url)
    try:
        path = database_path(load_config(config_file).store.path, Path(data))
        if isinstance(path, str):
            raise ConfigError(f"{shown(path)}: not a SQLite store")
        tables = copy_to_postgres(path, url, lambda _: None)
    except ConfigError as error:
        raise CommandError(str(error), BAD_USAGE) from error
    for table in tables:
        if as_json:
            click.echo(json_line(table._asdict()))
        else:
            click.echo(f"{table.name:<16}{table.rows:>12,} rows  sha256 {table.sha256}")

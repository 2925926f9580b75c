"""`wirelake dissector`: a Lua dissector for Wireshark and tshark, written or installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..main import COMMANDS
from ..options import CONTEXT, find_protocol, protocol_dialects
from ..output.text import print_notice

if TYPE_CHECKING:
    from wirelake.wire.protocol import Protocol

__all__ = ["command"]

_HELP = f"""{COMMANDS["dissector"]}

Without PROTOCOL, the script contains all installed protocols, including those of other packages.

--install writes it into Wireshark's personal plugin folder, and puts coloring rules before those of
Wireshark. An installed script is replaced; a file of the same name that is not one is left alone.

\b
Examples:
  wirelake dissector --install
  wirelake dissector -o wirelake.lua --colors wirelake.colors
  wirelake dissector tny --dialect tny=upstream > tny.lua
  tshark -X lua_script:wirelake.lua -r capture.pcapng -Y 'wirelake.latency > 0.05'
"""


@click.command(name="dissector", help=_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option("-o", "--output", metavar="FILE", help="Output file.  [default: standard output]")
@click.option(
    "--dialect",
    "dialects",
    multiple=True,
    metavar="PROTOCOL=NAME",
    help="Dialect of a protocol; repeatable.  [default: the first]",
)
@click.option("--colors", metavar="FILE", help="Write coloring rules to a file for import.")
@click.option("--install", is_flag=True, help="Install script and coloring rules for this user.")
@click.option("--uninstall", is_flag=True, help="Remove what --install wrote.")
@click.option(
    "--folder",
    metavar="DIR",
    help="Plugin folder of --install and --uninstall, without coloring rules."
    "  [default: Wireshark's personal one]",
)
def command(
    protocols: tuple[str, ...],
    output: str | None,
    dialects: tuple[str, ...],
    colors: str | None,
    install: bool,
    uninstall: bool,
    folder: str | None,
) -> None:
    """Write, install or remove the script."""
    _check_options(protocols, output, dialects, colors, install, uninstall, folder)
    if uninstall:
        _uninstall(folder)
        return
    chosen = _chosen(protocols)
    script = _script(chosen, dialects)
    if install:
        _install(script, chosen, folder)
        return
    if colors is not None:
        from wirelake.wire.views.colorfilters import coloring_rules

        Path(colors).write_text(coloring_rules(chosen), encoding="utf-8")
    if output is None or output == "-":
        click.echo(script, nl=False)
    else:
        Path(output).write_text(script, encoding="utf-8")


def _check_options(
    protocols: tuple[str, ...],
    output: str | None,
    dialects: tuple[str, ...],
    colors: str | None,
    install: bool,
    uninstall: bool,
    folder: str | None,
) -> None:
    if install and uninstall:
        raise click.UsageError("--install conflicts with --uninstall")
    if folder is not None and not (install or uninstall):
        raise click.UsageError("--folder requires --install or --uninstall")
    if (install or uninstall) and (output is not None or colors is not None):
        raise click.UsageError("--install conflicts with -o and --colors")
    if uninstall and (protocols or dialects):
        raise click.UsageError("--uninstall removes the script as a whole: name no protocols")


def _chosen(names: tuple[str, ...]) -> list[Protocol]:
    if names:
        return [find_protocol(name) for name in dict.fromkeys(names)]
    from wirelake.protocols.registry import load_all

    chosen, broken = load_all()
    for error in broken:
        print_notice(f"skipping {error}")
    return chosen


def _script(chosen: list[Protocol], dialects: tuple[str, ...]) -> str:
    from wirelake.wire.views.lua import dissector

    try:
        return dissector(chosen, dialect=protocol_dialects(dialects), carried=_carried_by(chosen))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _carried_by(protocols: list[Protocol]) -> list[Protocol]:
    """Return the protocols of messages in tunnels, as far as they are installed."""
    from wirelake.protocols.registry import RegistryError, find

    found = []
    for tunnels in filter(None, (protocol.meaning.tunnels for protocol in protocols)):
        try:
            found.append(find(tunnels.protocol))
        except RegistryError as error:
            print_notice(f"messages in tunnels are shown without their meaning: {error}")
    return found


# -- installing --------------------------------------------------------------------------------


def _install(script: str, chosen: list[Protocol], folder: str | None) -> None:
    from wirelake.wire.views.colorfilters import coloring_rules

    from .. import wireshark

    if folder is not None:
        click.echo(str(wireshark.install(script, Path(folder))))
        return
    folders = wireshark.find_folders()
    click.echo(str(wireshark.install(script, folders.plugins)))
    click.echo(str(wireshark.install_rules(coloring_rules(chosen), folders)))
    print_notice("restart Wireshark to load them")


def _uninstall(folder: str | None) -> None:
    from .. import wireshark

    if folder is not None:
        removed = [wireshark.uninstall(Path(folder))]
    else:
        folders = wireshark.find_folders()
        removed = [wireshark.uninstall(folders.plugins), wireshark.uninstall_rules(folders)]
    if not any(removed):
        print_notice("nothing is installed")
    for path in filter(None, removed):
        click.echo(str(path))

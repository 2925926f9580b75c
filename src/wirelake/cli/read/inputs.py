"""What commands that read captures have in common: which files, and how their bytes are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..errors import BAD_USAGE, CommandError
from ..output.common import check_dialect, find_protocol

__all__ = ["Reading", "captures", "protocol_options", "reading_options"]

_CAPTURE: Final = re.compile(r".+\.(pcap|pcapng|cap)(\.(gz|zst))?", re.IGNORECASE)
_OPEN: Final = ".open"

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Reading:
    """How bytes become messages."""

    force_protocol: str | None
    """The protocol of every connection, whatever its port."""
    ports: dict[int, str] | None
    """Protocols by port; None for the usual ones."""
    dialects: dict[str, str]
    """Dialects by protocol."""
    keys: tuple[str, ...] = ()
    """Key logs."""
    reveal: bool = False
    """Whether secrets are shown."""

    @classmethod
    def of(
        cls,
        force_protocol: str | None,
        ports: tuple[str, ...],
        dialects: tuple[str, ...],
        keys: tuple[str, ...] = (),
        reveal: bool = False,
    ) -> Reading:
        """From options as they were given; UsageError for what is not understood."""
        if force_protocol is not None:
            find_protocol(force_protocol)
        return cls(force_protocol, _ports(ports), _dialects(dialects), keys, reveal)


def protocol_options(command: Command) -> Command:
    """Add the options that choose protocols: `force_protocol`, `ports`, `dialects`."""
    for option in (
        click.option(
            "--as",
            "force_protocol",
            metavar="NAME",
            help="Decode every connection as this protocol.",
        ),
        click.option(
            "--port",
            "ports",
            multiple=True,
            metavar="PORT=NAME",
            help="What the servers at a port speak; may be repeated.",
        ),
        click.option(
            "--dialect",
            "dialects",
            multiple=True,
            metavar="PROTOCOL=NAME",
            help="Another dialect than the first; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def reading_options(command: Command) -> Command:
    """Adds these, and those that say what may be seen: `keys`, `reveal`."""
    keys = click.option(
        "--keys",
        multiple=True,
        metavar="FILE",
        help="A key log, for what is sealed; may be repeated.",
    )
    reveal = click.option("--reveal", is_flag=True, help="Show secrets.")
    found: Command = keys(reveal(protocol_options(command)))
    return found


def captures(paths: Iterable[str]) -> list[str]:
    """The files to read, each once: a folder stands for the captures in it, by name.

    Says which recordings of a folder are left out because they are not sealed.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path == "-":
            raise CommandError("captures are read from files, not from standard input", BAD_USAGE)
        if not path.isprintable():
            raise CommandError(f"{path!r}: wanted a name that can be printed", BAD_USAGE)
        found |= dict.fromkeys(_inside(Path(path)) if Path(path).is_dir() else [path])
    return list(found)


def _inside(folder: Path) -> list[str]:
    names = sorted(each.name for each in folder.iterdir() if each.is_file())
    unsealed = [name for name in names if _CAPTURE.fullmatch(name.removesuffix(_OPEN) or name)]
    unsealed = [name for name in unsealed if name.endswith(_OPEN)]
    if unsealed:
        also = f" and {len(unsealed) - 1} more" if len(unsealed) > 1 else ""
        click.echo(
            f"wirelake: left out, for it is not sealed: {folder / unsealed[0]}{also}", err=True
        )
    sealed = [str(folder / name) for name in names if _CAPTURE.fullmatch(name)]
    if not sealed:
        raise CommandError(
            f"{folder}: no captures in this folder (*.pcap, *.pcapng, also .gz and .zst)", BAD_USAGE
        )
    return sealed


def _ports(given: tuple[str, ...]) -> dict[int, str] | None:
    if not given:
        return None
    from wirelake.capture.decode.protocol_selector import default_ports

    chosen = default_ports()
    for text in given:
        port, separator, name = text.partition("=")
        if not separator or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
            raise click.UsageError(f"--port {text}: wanted PORT=NAME, such as 9999=comet")
        chosen[int(port)] = find_protocol(name).name
    return chosen


def _dialects(given: tuple[str, ...]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for text in given:
        name, separator, dialect = text.partition("=")
        if not separator:
            raise click.UsageError(f"--dialect {text}: wanted PROTOCOL=NAME")
        chosen[name] = check_dialect(find_protocol(name), dialect)
    return chosen

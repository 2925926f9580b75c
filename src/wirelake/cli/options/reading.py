"""Options of commands that read captures: the files, their protocols and keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..errors import BAD_USAGE, CommandError
from ..output.text import print_notice
from .common import find_protocol, protocol_dialects

__all__ = ["Reading", "captures", "protocol_options", "reading_options"]

_CAPTURE: Final = re.compile(r".+\.(pcap|pcapng|cap)(\.(gz|zst))?", re.IGNORECASE)
_UNFINISHED: Final = ".open"
"""Suffix of a file that a recorder is still writing."""

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Reading:
    """How captures are decoded."""

    force_protocol: str | None
    """Protocol of every connection; None to detect it."""
    ports: dict[int, str] | None
    """Protocols by server port; None for the default ones."""
    dialects: dict[str, str]
    """Dialects by protocol."""
    keys: tuple[str, ...] = ()
    """Key log files."""
    reveal: bool = False
    """Whether secrets are shown instead of masked."""

    @classmethod
    def of(
        cls,
        force_protocol: str | None,
        ports: tuple[str, ...],
        dialects: tuple[str, ...],
        keys: tuple[str, ...] = (),
        reveal: bool = False,
    ) -> Reading:
        """Parse the values of the options."""
        if force_protocol is not None:
            find_protocol(force_protocol)
        return cls(force_protocol, _ports(ports), protocol_dialects(dialects), keys, reveal)


def protocol_options(command: Command) -> Command:
    """Add the options `force_protocol`, `ports` and `dialects`."""
    for option in (
        click.option(
            "--as",
            "force_protocol",
            metavar="NAME",
            help="Protocol of every connection, instead of detecting it.",
        ),
        click.option(
            "--port",
            "ports",
            multiple=True,
            metavar="PORT=NAME",
            help="Protocol of a server port; repeatable.",
        ),
        click.option(
            "--dialect",
            "dialects",
            multiple=True,
            metavar="PROTOCOL=NAME",
            help="Dialect of a protocol; repeatable.  [default: the first]",
        ),
    ):
        command = option(command)
    return command


def reading_options(command: Command) -> Command:
    """Add the protocol options, and `keys` and `reveal`."""
    keys = click.option(
        "--keys",
        multiple=True,
        metavar="FILE",
        help="Key log for decryption; repeatable.",
    )
    reveal = click.option("--reveal", is_flag=True, help="Show secrets.")
    decorated: Command = keys(reveal(protocol_options(command)))
    return decorated


def captures(paths: Iterable[str]) -> list[str]:
    """Return the files to read, each once; a folder becomes its captures, sorted by name.

    Prints a notice about unfinished recordings, which are skipped.
    """
    files: dict[str, None] = {}
    for path in paths:
        if path == "-":
            raise CommandError(
                "captures cannot be read from standard input: give a FILE", BAD_USAGE
            )
        if not path.isprintable():
            raise CommandError(
                f"invalid file name {path!r}; expected printable characters", BAD_USAGE
            )
        files |= dict.fromkeys(_in_folder(Path(path)) if Path(path).is_dir() else [path])
    return list(files)


def _in_folder(folder: Path) -> list[str]:
    names = sorted(each.name for each in folder.iterdir() if each.is_file())
    unfinished = [
        name
        for name in names
        if name.endswith(_UNFINISHED) and _CAPTURE.fullmatch(name.removesuffix(_UNFINISHED))
    ]
    if unfinished:
        more = f" and {len(unfinished) - 1} more" if len(unfinished) > 1 else ""
        print_notice(f"skipping unfinished recording {folder / unfinished[0]}{more}")
    finished = [str(folder / name) for name in names if _CAPTURE.fullmatch(name)]
    if not finished:
        raise CommandError(
            f"{folder}: no captures in this folder; expected *.pcap or *.pcapng, also with .gz or"
            " .zst",
            BAD_USAGE,
        )
    return finished


def _ports(given: tuple[str, ...]) -> dict[int, str] | None:
    if not given:
        return None
    from wirelake.capture.decode.protocol_selector import default_ports

    chosen = default_ports()
    for text in given:
        port, separator, name = text.partition("=")
        if not separator or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
            raise click.UsageError(
                f"invalid --port {text!r}; expected PORT=NAME, such as 9999=comet"
            )
        chosen[int(port)] = find_protocol(name).name
    return chosen

"""Options that several commands share: their types, checks and help.

- Protocols, dialects and directions; NAME=VALUE pairs; input from a file or standard input.
- Option types: sizes (256MB), durations (30d), times, fractions (1/16).
- `joined`, for options whose values are one argument of a command.
- `reading_options`, `Reading` and `captures`, for commands that read captures.
- `output_format`, for commands that write rows.

Everything here is needed for `--help`, so packages that take long to import are imported in
functions.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import click

from .errors import BAD_USAGE, CommandError, unknown_name
from .output.text import print_notice

if TYPE_CHECKING:
    from wirelake.columnar.read.options import ReadOptions
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol

__all__ = [
    "CONTEXT",
    "FORMATS",
    "MOST",
    "Command",
    "Group",
    "Reading",
    "TimePoint",
    "admission_options",
    "captures",
    "check_dialect",
    "check_direction",
    "duration",
    "find_protocol",
    "follow_option",
    "fraction",
    "hex_bytes",
    "is_port",
    "jobs_option",
    "joined",
    "name_value_pairs",
    "open_option",
    "output_file",
    "output_format",
    "protocol_dialects",
    "protocol_options",
    "read_input",
    "reading_options",
    "size",
    "time_point",
    "typed_value",
    "warn_of_password",
]


MOST: Final = (1 << 63) - 1
"""The largest number that Arrow and DuckDB take. A larger limit is no limit either."""
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""click settings of every command."""


class Group(click.Group):
    """A group that reports unknown subcommands in one line, with suggestions."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the subcommands in the order of their declaration."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand and its arguments."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown_name("subcommand", args[0], self.commands, ctx)
        return super().resolve_command(ctx, args)


def output_file(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse `-` for an output that cannot be a pipe; a callback of options."""
    if value == "-":
        raise click.BadParameter("'-'; expected a file, not standard output", param=param)
    return value


def find_protocol(name: str) -> Protocol:
    """Return a protocol by name."""
    from wirelake.protocols.registry import find

    return find(name)


def check_dialect(protocol: Protocol, dialect: str | None) -> str:
    """Return the dialect, or the protocol's default one; fail if the protocol does not have it."""
    try:
        return protocol.dialect(dialect)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def check_direction(protocol: Protocol, direction: str | None) -> Direction | None:
    """Return the direction; fail if the protocol needs one and there is none."""
    if protocol.directed and direction is None:
        raise click.UsageError(
            f"missing --direction c2s or s2c: {protocol.name} numbers its messages by direction"
        )
    return "c2s" if direction == "c2s" else "s2c" if direction == "s2c" else None


def name_value_pairs(option: str, given: Iterable[str], form: str = "NAME=VALUE") -> dict[str, str]:
    """Parse repeated options of the form NAME=VALUE."""
    values: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"invalid {option} {text!r}; expected {form}")
        if name in values:
            raise click.UsageError(f"duplicate {option} {name!r}")
        values[name] = value
    return values


def typed_value(text: str) -> Any:
    """Parse a value: an integer, a JSON value, or else the text itself."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except ValueError:
        return text


def protocol_dialects(given: tuple[str, ...]) -> dict[str, str]:
    """Parse repeated `--dialect PROTOCOL=NAME` options."""
    pairs = name_value_pairs("--dialect", given, "PROTOCOL=NAME")
    return {name: check_dialect(find_protocol(name), dialect) for name, dialect in pairs.items()}


def hex_bytes(text: str) -> bytes:
    """Parse hexadecimal text; spaces, colons and dashes between bytes are ignored."""
    plain = text.removeprefix("0x").translate(str.maketrans("", "", ":-"))
    try:
        return bytes.fromhex(plain)
    except ValueError as error:
        raise click.UsageError(
            "invalid --hex text; expected an even number of hexadecimal digits"
        ) from error


def read_input(file: str | None) -> bytes:
    """Read a file, or standard input if it is `-` or not given."""
    if file is not None and file != "-":
        return Path(file).read_bytes()
    if file is None and sys.stdin.isatty():
        raise click.UsageError("missing input: give a FILE, or - for standard input")
    data: bytes = sys.stdin.buffer.read()
    return data


# -- option types ------------------------------------------------------------------------------

_TIMES: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AMOUNT: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)")
_SECOND: Final = 1_000_000_000


def size(text: str) -> int:
    """Parse a size, such as 256MB, to bytes."""
    from wirelake.traffic import SimulateError, parse_size

    try:
        return parse_size(text)
    except SimulateError as error:
        raise click.BadParameter(str(error)) from None


def duration(text: str) -> float:
    """Parse a duration, such as 30d, to seconds."""
    seconds = _seconds(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r}; expected seconds, or a number with s, m, h, d or w")
    return seconds


def fraction(text: str) -> int:
    """Parse 1/N, or 1 for everything, to N."""
    match = re.fullmatch(r"1/(\d{1,6})|1", text.strip())
    count = int(match[1] or 1) if match else 0
    if not count:
        raise click.BadParameter(f"{text!r}; expected 1 or a fraction such as 1/16")
    return count


@dataclass(frozen=True)
class TimePoint:
    """A time, or a duration before the end of the data."""

    ns: int
    from_end: bool = False

    def at(self, end_ns: int | None) -> int | None:
        """Return the time in nanoseconds; None if it is relative and there is no data."""
        if not self.from_end:
            return self.ns
        return None if end_ns is None else end_ns - self.ns


def time_point(text: str) -> TimePoint:
    """Parse a time, such as 2026-01-31T12:00, or a duration before the end, such as 2h."""
    seconds = _seconds(text) if re.search("[a-z]$", text) else None
    if seconds is not None:
        return TimePoint(int(seconds * _SECOND), from_end=True)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}; expected a time in UTC such as 2026-01-31T12:00, or a duration"
            " before the end such as 2h"
        ) from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return TimePoint(round(aware.timestamp() * 1_000_000) * 1_000)


def _seconds(text: str) -> float | None:
    match = _AMOUNT.fullmatch(text.strip())
    unit = _TIMES.get(match["unit"]) if match else None
    if match is None or unit is None:
        return None
    found = float(match["number"]) * unit
    return found if math.isfinite(found) else None


# -- captures ----------------------------------------------------------------------------------

_UNFINISHED: Final = ".open"
"""Suffix of a file that a recorder is still writing."""
_PORT_EXAMPLE: Final = "9999=comet"

Command = TypeVar("Command", bound=Callable[..., Any])
"""A command, or its function, that options are added to."""


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
    given_ports: tuple[int, ...] = ()
    """The ports that were named; `ports` has the default ones as well."""

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
        given = _given_ports(ports)
        return cls(
            force_protocol,
            _all_ports(given),
            protocol_dialects(dialects),
            keys,
            reveal,
            tuple(given),
        )

    def options(self, table: str, **more: Any) -> ReadOptions:
        """Return the options for reading a table."""
        from wirelake.columnar.read.options import ReadOptions

        return ReadOptions(
            table=table,
            force_protocol=self.force_protocol,
            ports=self.ports,
            keys=self.keys,
            dialects=self.dialects,
            reveal=self.reveal,
            **more,
        )


Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What adds an option to a command."""


def joined(
    command: Command, options: Sequence[Option], argument: str, join: Callable[..., Any]
) -> Command:
    """Add options; the command gets what `join` returns for their values, as one argument."""

    names = inspect.signature(join).parameters

    @functools.wraps(command)
    def with_joined(**values: Any) -> Any:
        own = {name: values.pop(name) for name in names if name in values}
        return command(**values, **{argument: join(**own)})

    decorated: Any = with_joined
    for option in reversed(options):
        decorated = option(decorated)
    return cast("Command", decorated)


_PROTOCOL_OPTIONS: Final = (
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
        metavar="PORT=PROTOCOL",
        help="Protocol of a server port; repeatable.",
    ),
    click.option(
        "--dialect",
        "dialects",
        multiple=True,
        metavar="PROTOCOL=NAME",
        help="Dialect of a protocol; repeatable.  [default: the first]",
    ),
)
_KEY_OPTIONS: Final = (
    click.option(
        "--keys", multiple=True, metavar="FILE", help="Key log for decryption; repeatable."
    ),
    click.option("--reveal", is_flag=True, help="Show secrets."),
)


def protocol_options(command: Command) -> Command:
    """Add the options that say which protocols connections have; the argument is `reading`."""
    return joined(command, _PROTOCOL_OPTIONS, "reading", Reading.of)


def reading_options(command: Command) -> Command:
    """Add the protocol options, `--keys` and `--reveal`; the argument is `reading`."""
    return joined(command, (*_PROTOCOL_OPTIONS, *_KEY_OPTIONS), "reading", Reading.of)


open_option: Final = click.option(
    "--include-open",
    is_flag=True,
    help="Also read recordings in folders that are still open (*.pcapng.open).",
)
"""Adds the option `include_open`."""
follow_option: Final = click.option("--follow", is_flag=True, help="Read files on as they grow.")
"""Adds the option `follow`."""
jobs_option: Final = click.option(
    "--jobs", type=click.IntRange(min=1), help="Number of CPUs to use.  [default: all]"
)
"""Adds the option `jobs`."""


def admission_options(command: Command) -> Command:
    """Add the options that decide when a lake reads a capture."""
    lateness = click.option(
        "--lateness",
        "lateness_s",
        type=duration,
        default="600",
        show_default=True,
        metavar="SECONDS",
        help="Maximum time to wait for a missing predecessor of a capture.",
    )
    settle = click.option(
        "--settle",
        "settle_s",
        type=duration,
        default="10",
        show_default=True,
        metavar="SECONDS",
        help="Time since the last write after which a capture is complete.",
    )
    decorated: Command = lateness(settle(command))
    return decorated


def captures(
    paths: Iterable[str], *, include_open: bool = False, standard_input: bool = False
) -> list[str]:
    """Return the files to read, each once; a folder becomes its captures, source by source.

    Unfinished recordings in folders are skipped with a notice, unless `include_open` is set.
    `standard_input` allows `-`, and pipes.
    """
    from wirelake.capture.live.inputs import is_live

    files: dict[str, str] = {}
    for path in paths:
        if path == "-" and not standard_input:
            raise CommandError(
                "captures cannot be read from standard input: give a FILE", BAD_USAGE
            )
        if not standard_input and is_live(path):
            raise CommandError(
                f"{path}: not a file: save what it holds to one first, or use wirelake read",
                BAD_USAGE,
            )
        folder = Path(path)
        for file in _in_folder(folder, include_open) if folder.is_dir() else [path]:
            if not file.isprintable():
                raise CommandError(
                    f"invalid file name {file!r}; expected printable characters", BAD_USAGE
                )
            # Whatever it is called: its rows would count twice.
            files.setdefault(os.path.realpath(file), file)
    return list(files.values())


def _in_folder(folder: Path, include_open: bool) -> list[str]:
    from wirelake.tables.inputs import skipped_text
    from wirelake.tables.names import CAPTURE, in_order

    names = {each.name for each in folder.iterdir() if each.is_file()}
    unfinished = [
        name
        for name in names
        if name.endswith(_UNFINISHED)
        and CAPTURE.fullmatch(name.removesuffix(_UNFINISHED))
        # Repaired: the copy has everything.
        and name.removesuffix(_UNFINISHED) not in names
    ]
    if unfinished and not include_open:
        sizes = [(folder / name).stat().st_size for name in unfinished]
        print_notice(skipped_text(folder, sizes, "add --include-open to read"))
    # In the order of a lake: by name, tap.pcap10 would be read before tap.pcap2.
    finished = in_order(folder, unfinished if include_open else ())
    if not finished:
        raise CommandError(
            f"{folder}: no captures in this folder; expected *.pcap or *.pcapng, also with .gz or"
            " .zst",
            BAD_USAGE,
        )
    return finished


def _given_ports(given: Iterable[str]) -> dict[int, str]:
    """Parse repeated `--port PORT=PROTOCOL` options."""
    chosen: dict[int, str] = {}
    for text in given:
        port, separator, name = text.partition("=")
        if not separator or not is_port(port):
            # The hub's option of this name is NAME=PORT.
            example = f"{name}={port}" if is_port(name) and port else _PORT_EXAMPLE
            raise click.UsageError(
                f"invalid --port {text!r}; expected PORT=PROTOCOL, such as {example}"
            )
        if int(port) in chosen:
            raise click.UsageError(f"duplicate --port {port!r}")
        chosen[int(port)] = find_protocol(name).name
    return chosen


def _all_ports(given: dict[int, str]) -> dict[int, str] | None:
    if not given:
        return None
    from wirelake.capture.decode.protocol_selector import default_ports

    return {**default_ports(), **given}


def is_port(text: str) -> bool:
    """Return whether a text is the number of a TCP port that servers can have."""
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and 0 < int(text) < 1 << 16


# -- output formats ----------------------------------------------------------------------------

FORMATS: Final = ("table", "json", "csv", "parquet", "arrow")
"""Every output format."""
_BINARY: Final = ("parquet", "arrow")
_EXTENSIONS: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}
"""Formats by the extension of the output file."""


def output_format(
    chosen: str | None, output: str | None, format_option: str, output_option: str
) -> str:
    """Return the chosen format, or the default for the output file, terminal or pipe."""
    if chosen is None and output is not None:
        extension = os.path.splitext(output)[1].lower()
        if extension not in _EXTENSIONS:
            raise click.UsageError(
                f"{output}: cannot infer the format; expected an extension of"
                f" {', '.join(_EXTENSIONS)}, or {format_option}"
            )
        chosen = _EXTENSIONS[extension]
    name = chosen or ("table" if sys.stdout.isatty() else "json")
    if name in _BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{name} cannot be written to a terminal: add {output_option} FILE")
    return name


def warn_of_password(store: str | None) -> None:
    """Print a notice about a password in `--store`: other users see command lines."""
    from wirelake.hub.store import is_postgres, shown

    if store is not None and is_postgres(store) and shown(store) != store:
        print_notice(
            "other users can see the password in --store; better give it in PGPASSWORD or a"
            " password file"
        )

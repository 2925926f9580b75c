"""`wirelake capture`: inspects, repairs and redacts capture files."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from ..errors import BAD_DATA, CommandError
from ..main import COMMANDS
from ..options import CONTEXT, Group, Reading, captures, open_option, output_file, protocol_options
from ..output.text import counted, json_line, printable, time_text

if TYPE_CHECKING:
    from wirelake.capture.tools.info import Info

__all__ = ["command"]

_MAX_LINES: Final = 10
"""Faults or ports that are listed; the others are counted."""

_HELP = f"""{COMMANDS["capture"]}

\b
Examples:
  wirelake capture info edge.pcapng
  wirelake capture repair edge-00000007.pcapng.open
  wirelake capture redact tap.pcap -o shareable.pcap --bodies --addresses
"""

_INFO_HELP = """Summarize capture files: format, packets, ports, protocols, faults.

FILE may be a folder of captures.

\b
Examples:
  wirelake capture info edge.pcapng
  wirelake capture info captures/ --json | jq .packets
"""

_REPAIR_HELP = """Repair a truncated or damaged capture file.

Copies every block that can be read and reports the bytes that cannot. The input is not changed.
Without -o, an unfinished recording (NAME.pcapng.open) becomes NAME.pcapng, and any other file
NAME.repaired.pcap.

\b
Examples:
  wirelake capture repair edge-00000007.pcapng.open
  wirelake capture repair broken.pcap -o whole.pcap
"""

_REDACT_HELP = """Copy a capture without its secrets.

Replaces secret fields, the content of sign-ons, keys, packets that are not TCP and all bytes that
cannot be decoded by zeros. Sizes and offsets stay the same.

\b
Examples:
  wirelake capture redact tap.pcap -o shareable.pcap
  wirelake capture redact tap.pcap -o shareable.pcap --bodies --addresses --seed incident-42
"""


@click.group(name="capture", help=_HELP, cls=Group, context_settings=CONTEXT)
def command() -> None:
    """Work on capture files."""


@command.command(name="info", help=_INFO_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@open_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per file, one per line.")
def info(files: tuple[str, ...], include_open: bool, as_json: bool) -> int:
    """Print a summary of each file; exit 1 if one of them is not a capture."""
    import msgspec

    from wirelake.capture.tools.info import info as capture_info

    code = 0
    for path in captures(files, include_open=include_open):
        summary = capture_info(path)
        if as_json:
            click.echo(json_line(msgspec.to_builtins(summary)))
        else:
            for line in _info_lines(summary):
                click.echo(line)
        if summary.format is None:
            code = BAD_DATA
    return code


@command.command(name="repair", help=_REPAIR_HELP, context_settings=CONTEXT)
@click.argument("file")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    callback=output_file,
    help="Repaired file; must not exist yet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def repair(file: str, output: str | None, as_json: bool) -> None:
    """Write a repaired copy."""
    import msgspec

    from wirelake.capture.tools.repair import repair as repair_capture

    _check_readable(file)
    try:
        result = repair_capture(file, output)
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from error
    if as_json:
        lost = [{**msgspec.to_builtins(each), "bytes": each.bytes.hex()} for each in result.lost]
        click.echo(json_line({**msgspec.to_builtins(result), "lost": lost}))
        return
    click.echo(f"{result.path}: {result.packets:,} packets, {result.kept_bytes:,} bytes kept")
    if not result.faults:
        click.echo("nothing was lost")
        return
    click.echo(f"lost: {result.lost_bytes:,} bytes in {counted(result.faults, 'place')}")
    for fault in result.lost[:_MAX_LINES]:
        click.echo(
            f"  at byte {fault.offset:,}: {fault.present_bytes:,} bytes, {fault.code}:"
            f" {printable(fault.detail)}"
        )
    if result.faults > _MAX_LINES:
        click.echo(f"  … and {result.faults - _MAX_LINES:,} more")


@command.command(name="redact", help=_REDACT_HELP, context_settings=CONTEXT)
@click.argument("file")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="OUT",
    callback=output_file,
    help="The copy; must not exist yet.",
)
@click.option("--bodies", is_flag=True, help="Zero message bodies, too.")
@click.option("--addresses", is_flag=True, help="Replace host addresses by pseudonyms.")
@click.option(
    "--seed",
    metavar="TEXT",
    help="Seed of the pseudonyms: the same seed gives a host the same pseudonym. Keep it secret."
    "  [default: random]",
)
@protocol_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def redact(
    file: str,
    output: str,
    bodies: bool,
    addresses: bool,
    seed: str | None,
    as_json: bool,
    reading: Reading,
) -> None:
    """Write a redacted copy."""
    if seed is not None and not addresses:
        raise click.UsageError("--seed requires --addresses")
    import msgspec

    from wirelake.capture.tools.redact import redact as redact_capture

    # Without --seed the pseudonyms of two copies cannot be linked. Addresses are few enough to try
    # them all, so a guessable seed would reveal them.
    _check_readable(file)
    pseudonyms = (seed or secrets.token_hex(16)) if addresses else None
    try:
        result = redact_capture(
            file,
            output,
            content=bodies,
            addresses=pseudonyms,
            ports=reading.ports,
            force_protocol=reading.force_protocol,
            dialects=reading.dialects,
        )
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from error
    if as_json:
        click.echo(json_line({"path": output, **msgspec.to_builtins(result)}))
        return
    zeroed = result.payload_bytes - result.shown_bytes
    click.echo(
        f"{output}: {result.packets:,} packets, {result.frames:,} messages,"
        f" {result.masked_frames:,} of them masked"
    )
    click.echo(
        f"also zeroed: {zeroed:,} of {result.payload_bytes:,} payload bytes,"
        f" {result.emptied_bytes:,} bytes outside packets"
    )


def _check_readable(path: str) -> None:
    """Raise OSError before anything is written."""
    with open(path, "rb"):
        pass


# -- text ------------------------------------------------------------------------------------


def _info_lines(summary: Info) -> Iterator[str]:
    yield click.style(summary.path, bold=True)
    if summary.format is None:
        yield f"  not a capture: {summary.size_bytes:,} bytes, neither pcap nor pcapng"
        return
    yield f"  {summary.format}, {summary.size_bytes:,} bytes{_recorded(summary)}"
    for each in summary.interfaces:
        link = each.link_name or f"link type {each.link}"
        unit = {10**6: "us", 10**9: "ns", 10**3: "ms"}.get(each.ticks_per_s)
        yield (
            f"  interface {each.number}: {link}, snap length {each.snap_length:,}, resolution"
            f" {unit or f'1/{each.ticks_per_s:,} s'}, {counted(each.packets, 'packet')}"
        )
    packets = counted(summary.packets, "packet")
    yield f"  {packets}, {summary.segments:,} of them TCP{_counts(summary.notes)}"
    if summary.first_ns is not None and summary.last_ns is not None:
        seconds = (summary.last_ns - summary.first_ns) / 1e9
        first, last = time_text(summary.first_ns), time_text(summary.last_ns)
        yield f"  from {first} to {last} UTC, {seconds:,.1f} s"
    for server in summary.servers[:_MAX_LINES]:
        yield (
            f"  port {server.port:<5}  {server.protocol or 'unknown':<8}"
            f"  {counted(server.connections, 'connection')}, {counted(server.packets, 'packet')},"
            f" {counted(server.payload_bytes, 'byte')}"
        )
    if len(summary.servers) > _MAX_LINES:
        yield f"  … and {len(summary.servers) - _MAX_LINES:,} more ports"
    if summary.facts:
        yield f"  facts{_counts(summary.facts)}"
    if summary.key_lines:
        keys = counted(summary.key_lines, "key")
        yield f"  contains {keys}: anyone with this file can decrypt its sealed messages"
    if summary.faults:
        yield click.style(
            f"  {summary.faulty_bytes:,} bytes unreadable{_counts(summary.faults)};"
            f" wirelake capture repair copies the rest",
            fg="red",
        )


def _recorded(summary: Info) -> str:
    if not summary.sources:
        return ""
    source, sequence = summary.sources[0]
    more = f" and {len(summary.sources) - 1:,} more sections" if len(summary.sources) > 1 else ""
    return f", recorded by {printable(source)}, sequence {sequence}{more}"


def _counts(counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count:,} {printable(name)}" for name, count in counts.items())
    return f" ({listed})" if listed else ""

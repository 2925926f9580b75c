"""What the commands on capture files do: call `wirelake.capture`, and say what came of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping

import click
import msgspec

from wirelake.capture.tools import info as capture_info
from wirelake.capture.tools.redact import redact as redact_capture
from wirelake.capture.tools.repair import repair as repair_capture

from ..errors import BAD_DATA, CommandError
from ..output.common import json_line
from ..read.formatting import (
    counted,
    printable,
    time_text,
)
from ..read.inputs import Reading, captures

__all__ = ["info", "redact", "repair"]


def info(paths: tuple[str, ...], *, as_json: bool) -> int:
    """Tells what files hold; 1 when one of them is no capture."""
    code = 0
    for path in captures(paths):
        told = capture_info.info(path)
        if as_json:
            click.echo(json_line(msgspec.to_builtins(told)))
        else:
            for line in _info_lines(told):
                click.echo(line)
        if told.format is None:
            code = BAD_DATA
    return code


def repair(path: str, out: str | None, *, as_json: bool) -> None:
    """Makes a whole file."""
    _check_readable(path)
    try:
        told = repair_capture(path, out)
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from error
    if as_json:
        lost = [{**msgspec.to_builtins(each), "bytes": each.bytes.hex()} for each in told.lost]
        click.echo(json_line({**msgspec.to_builtins(told), "lost": lost}))
        return
    click.echo(f"{told.path}: {told.packets:,} packets, {told.kept_bytes:,} bytes kept")
    if not told.faults:
        click.echo("nothing was lost")
        return
    click.echo(f"lost: {told.lost_bytes:,} bytes in {counted(told.faults, 'place')}")
    for fault in told.lost[:10]:
        click.echo(
            f"  at byte {fault.offset:,}: {fault.present_bytes:,} bytes, {fault.code}:"
            f" {printable(fault.detail)}"
        )
    if told.faults > 10:
        click.echo(f"  … and {told.faults - 10:,} more")


def redact(
    path: str,
    out: str,
    reading: Reading,
    *,
    bodies: bool,
    addresses: bool,
    seed: str | None,
    as_json: bool,
) -> None:
    """Makes a copy that may be shown."""
    _check_readable(path)
    pseudonyms = (seed or secrets.token_hex(16)) if addresses else None
    try:
        told = redact_capture(
            path,
            out,
            content=bodies,
            addresses=pseudonyms,
            ports=reading.ports,
            force_protocol=reading.force_protocol,
            dialects=reading.dialects,
        )
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from error
    if as_json:
        click.echo(json_line({"path": out, **msgspec.to_builtins(told)}))
        return
    hidden = told.payload_bytes - told.shown_bytes
    click.echo(
        f"{out}: {told.packets:,} packets, {told.frames:,} messages,"
        f" {told.masked_frames:,} of them masked"
    )
    click.echo(
        f"hidden besides: {hidden:,} of {told.payload_bytes:,} bytes of payload,"
        f" {told.emptied_bytes:,} bytes outside of packets"
    )


def _check_readable(path: str) -> None:
    """Raises OSError before anything is written."""
    with open(path, "rb"):
        pass


# -- words -----------------------------------------------------------------------------------


def _info_lines(told: capture_info.Info) -> Iterator[str]:
    yield click.style(told.path, bold=True)
    if told.format is None:
        yield f"  no capture: it has {told.size_bytes:,} bytes that are neither pcap nor pcapng"
        return
    yield f"  {told.format}, {told.size_bytes:,} bytes{_recorded(told)}"
    for each in told.interfaces:
        link = each.link_name or f"link type {each.link}"
        unit = {10**6: "us", 10**9: "ns", 10**3: "ms"}.get(each.ticks_per_s)
        yield (
            f"  interface {each.number}: {link}, snap length {each.snap_length:,}, times in"
            f" {unit or f'1/{each.ticks_per_s:,} s'}, {counted(each.packets, 'packet')}"
        )
    yield f"  {counted(told.packets, 'packet')}, {told.segments:,} of them TCP{_counts(told.notes)}"
    if told.first_ns is not None and told.last_ns is not None:
        seconds = (told.last_ns - told.first_ns) / 1e9
        yield (
            f"  from {time_text(told.first_ns)} to {time_text(told.last_ns)} UTC, {seconds:,.1f} s"
        )
    for server in told.servers[:10]:
        yield (
            f"  port {server.port:<5}  {server.protocol or 'unknown':<8}"
            f"  {counted(server.connections, 'connection')}, {counted(server.packets, 'packet')},"
            f" {counted(server.payload_bytes, 'byte')}"
        )
    if len(told.servers) > 10:
        yield f"  … and {len(told.servers) - 10:,} more ports"
    if told.facts:
        yield f"  facts{_counts(told.facts)}"
    if told.key_lines:
        yield f"  {told.key_lines:,} keys in it: whoever has the file can read what is sealed"
    if told.faults:
        yield click.style(
            f"  {told.faulty_bytes:,} bytes would not read{_counts(told.faults)};"
            f" wirelake capture repair makes a whole file",
            fg="red",
        )


def _recorded(told: capture_info.Info) -> str:
    if not told.sources:
        return ""
    source, sequence = told.sources[0]
    more = f" and {len(told.sources) - 1:,} more sections" if len(told.sources) > 1 else ""
    return f", recorded by {printable(source)}, number {sequence}{more}"


def _counts(counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count:,} {printable(name)}" for name, count in counts.items())
    return f" ({listed})" if listed else ""

"""`wirelake listen`: the messages and calls on an interface, as they happen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from ..errors import BAD_USAGE, CommandError
from ..main import COMMANDS
from ..options import CONTEXT, Reading
from ..output.text import counted, print_notice
from ..read.options import RowOptions, row_options

if TYPE_CHECKING:
    from wirelake.capture.live.programs import Listening

__all__ = ["command"]

_HELP: Final = f"""{COMMANDS["listen"]}

Captures through tcpdump or dumpcap, whichever is installed and may: this command itself needs no
rights. With --port, only those ports are captured; without, all TCP packets are, and connections
are recognized by port or by their first bytes. Prints rows until Ctrl-C.

\b
Examples:
  wirelake listen -i eth0 --port 9620=comet
  wirelake listen -i lo --table calls --filter 'outcome != "answered"'
  wirelake listen -i any --json --save edge.pcap | jq .target

Exit codes: 0 interrupted or LIMIT reached, 1 the capture ended early, 2 cannot capture.
"""


@click.command(name="listen", help=_HELP, context_settings=CONTEXT)
@click.option(
    "-i",
    "--interface",
    "interfaces",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Interface to listen on, or any; repeatable.",
)
@row_options
@click.option("--save", metavar="FILE", help="Also keep the capture; only with one interface.")
def command(
    interfaces: tuple[str, ...], rows: RowOptions, reading: Reading, save: str | None
) -> int:
    """Capture, and write rows."""
    if save is not None and len(interfaces) > 1:
        raise click.UsageError("--save keeps one capture: name one interface")
    if save is not None and rows.output is not None and _same(save, rows.output):
        raise click.UsageError("--save and --output name the same file")
    from ..read.kernels import are_ready, prepare_kernels

    if not are_ready():
        for each in _started(interfaces, reading.given_ports):  # whether it may is known at once
            each.close()
    # Before anything is captured: what comes while kernels are compiled would be lost.
    prepare_kernels((), live=True)
    from ..read.live import run_live
    from ..read.run import Request

    request = Request(**vars(rows), named=interfaces, files=list(interfaces), reading=reading)
    sources: list[Listening] = []
    with ExitStack() as stack:

        def open_sources() -> list[Listening]:
            sources.extend(_started(interfaces, reading.given_ports))
            _announce(sources, reading.given_ports)
            if save is not None:  # only now: a capture that could not begin leaves no file
                sources[0].copy = stack.enter_context(open(save, "xb", buffering=0))
            return sources

        code = run_live(request, open_sources)
    _report_dropped(sources)
    return code


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _started(interfaces: Sequence[str], ports: Sequence[int]) -> list[Listening]:
    """Begin to capture on all interfaces, or on none."""
    from wirelake.capture.live.programs import NoCaptureError, listen

    found: list[Listening] = []
    try:
        for name in dict.fromkeys(interfaces):
            found.append(listen(name, ports))
    except NoCaptureError as error:
        for each in found:
            each.close()
        raise CommandError(str(error), BAD_USAGE) from None
    return found


def _announce(sources: Sequence[Listening], ports: Sequence[int]) -> None:
    named = ", ".join(f"{each.name} ({each.program})" for each in sources)
    what = ", ".join(map(str, ports))
    print_notice(f"listening on {named}{f', port {what}' if ports else ''}; press Ctrl-C to stop")


def _report_dropped(sources: Sequence[Listening]) -> None:
    for each in sources:
        if each.dropped:
            print_notice(
                f"{each.name}: {counted(each.dropped, 'packet')} lost before they were captured:"
                " the machine is too busy; faults of code gap are their traces"
            )

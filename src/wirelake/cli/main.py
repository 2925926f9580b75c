"""Entry point of `wirelake`: the list of commands, its help and its version.

`--help` and `--version` need only this file and return before click is imported: 15 ms, where
`python -c pass` takes 12 ms (benchmarks/results/wire.json). Everything else goes to `app.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from wirelake import __version__

__all__ = ["COMMANDS", "COMPLETE", "OUTPUT_CLOSED", "help_text", "main"]

OUTPUT_CLOSED = "standard output is closed"
"""The error of a command that prints where nothing can be printed."""

COMPLETE = "_WIRELAKE_COMPLETE"
"""The variable by which a shell asks for completions; click derives its name from the command's."""

COMMANDS = {
    "protocols": "List protocols, show layouts, write reference pages and Kaitai files.",
    "decode": "Decode bytes: a tree with the bytes of each field, or JSON.",
    "encode": "Encode JSON, as decode --json prints it, to bytes.",
    "conform": "Run test vectors.",
    "dissector": "Write or install a dissector for Wireshark and tshark.",
    "capture": "Summarize, repair and redact capture files.",
    "read": "Read captures as tables: messages, calls, connections and more.",
    "sql": "Query captures with SQL: the tables of a lake, without making one.",
    "report": "Report traffic, latency and errors of captures, as text, JSON or HTML.",
    "listen": "Print the messages and calls on an interface as they happen.",
    "follow": "Print one connection of a capture as a conversation.",
    "lake": "Maintain tables from a folder of captures, and query them.",
    "hub": "Run the server: all protocols, services, topics and inboxes.",
    "serve": "Offer services to hubs, from a process of their own.",
    "top": "Show live statistics of a hub: connections, rates, calls, topics, errors.",
    "tail": "Print decoded messages of a running hub.",
    "client": "Manage the clients of a hub: add, list, remove, rotate tokens.",
    "user": "Manage the users of a hub's HTTP interface: roles and tokens.",
    "call": "Call a service over any protocol that has calls.",
    "publish": "Publish to a topic or a client, over HTTP or a protocol.",
    "subscribe": "Print notifications as they arrive, over any protocol.",
    "ping": "Measure the round-trip time to a server.",
    "context": "Save servers and credentials under a name: add, use, list, remove.",
    "doctor": "Check that this machine has what Wirelake needs.",
    "simulate": "Generate captures of simulated traffic, with the expected tables.",
    "demo": "Run the whole pipeline on simulated traffic.",
    "completion": "Print the script that adds tab completion to bash, zsh or fish.",
}
"""Commands and their summaries, in the order of the help."""

_PLACES = {
    "call": "commands.call.call",
    "client": "commands.accounts.client",
    "completion": "completion.command",
    "conform": "commands.protocols.conform",
    "decode": "decode.command.command",
    "demo": "demo.command.command",
    "lake": "lake.command.command",
    "ping": "commands.call.ping",
    "publish": "commands.pubsub.publish",
    "read": "read.command.command",
    "subscribe": "commands.pubsub.subscribe",
    "top": "top.command.command",
    "user": "commands.accounts.user",
}
"""Module and attribute of commands that share a module or have a package; the others are the
attribute `command` of the module of their name in `commands`."""

_HELP = """\
Usage: wirelake COMMAND [ARGUMENTS]

A server, clients, capture tools and a data lake for binary TCP protocols.

Commands:
{commands}

Options:
  -h, --help  Show this help, or that of a command.
  --version   Show the version.

Examples:
  wirelake demo
  wirelake protocols show comet.auth
  wirelake decode comet --direction c2s --hex 000106
  wirelake read edge.pcapng --table calls --filter 'latency_ns > 50ms'

Exit codes: 0 success, 1 failure (bad data, refused, no answer), 2 bad usage, 130 interrupted.
"""


def place_of(name: str) -> tuple[str, str]:
    """Return the module of a command and its attribute there; nothing is imported."""
    module, _, attribute = _PLACES.get(name, f"commands.{name}.command").rpartition(".")
    return f"{__package__}.{module}", attribute


def help_text() -> str:
    """Return the text of `wirelake --help`."""
    width = max(map(len, COMMANDS))
    lines = (f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    return _HELP.format(commands="\n".join(lines))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. An error is one line on standard error."""
    args = list(sys.argv[1:] if argv is None else argv)
    _reopen_closed()
    try:
        if (not args and COMPLETE not in os.environ) or args[:1] in (["-h"], ["--help"]):
            sys.stdout.write(help_text())
            sys.stdout.flush()
            return 0
        if args[:1] == ["--version"]:
            sys.stdout.write(f"wirelake {__version__}\n")
            sys.stdout.flush()
            return 0
        # Only here: click alone takes longer to import than the whole of `--help` takes.
        try:
            from .app import run
        except ModuleNotFoundError as error:
            return _without_click(error)
        return run(args)
    except BrokenPipeError:
        return abandon_output()
    except OSError as error:  # of `--help`; `run` reports those of commands
        closed = sys.__stdout__ is None
        reason = OUTPUT_CLOSED if closed else f"standard output: {error.strerror}"
        sys.stderr.write(f"wirelake: {reason}\n")
        abandon_output()
        return 2
    # The exit code of a shell for SIGINT: 128 and the number of the signal.
    except KeyboardInterrupt:
        return 130


def _reopen_closed() -> None:
    """Give standard streams that are closed (`>&-`) a descriptor of their own.

    Otherwise the next file that is opened would get their number, and what is printed. Output then
    fails, as it does in other programs; messages are lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None or _is_open(number):
            continue
        opened = os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        if name != "stdin":  # commands refuse to read it
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _without_click(error: ModuleNotFoundError) -> int:
    """Report that the extra `cli` is not installed; the script `wirelake` is there without it."""
    if error.name is None or error.name.startswith("wirelake"):
        raise error
    from wirelake.wire.errors import missing_dependency

    sys.stderr.write(f"wirelake: {missing_dependency(error.name, 'cli')}\n")
    return 2


def abandon_output() -> int:
    """Discard further output after a broken pipe, including the flush at interpreter exit."""
    # Python flushes standard output when it exits, and would print a second BrokenPipeError.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1

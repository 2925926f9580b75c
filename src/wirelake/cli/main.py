"""Where `wirelake` starts: the list of commands, and help that needs nothing else.

Help and version are answered from this file alone, before click is imported, so that they come at
once. Everything else goes to `app.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from wirelake import __version__

__all__ = ["COMMANDS", "help_text", "main"]

COMMANDS = {
    "protocols": "List protocols; show a layout; write the reference or Kaitai files.",
    "decode": "Bytes to messages: a tree with the bytes of every field, or JSON.",
    "encode": "JSON to bytes: what decode --json prints, and back.",
    "conform": "Run files of test vectors.",
    "dissector": "A dissector for Wireshark and tshark.",
    "capture": "What a capture file holds; make a broken one whole; hide what is secret.",
    "read": "Captures as tables: messages, calls, connections and more.",
    "follow": "One connection of a capture as a conversation.",
    "lake": "Tables that are kept up to date from a folder of captures.",
    "hub": "The live server: every protocol, services, topics and inboxes.",
    "top": "A hub at work: connections, rates, calls, topics and what went wrong, live.",
    "tail": "Messages as they cross a hub, decoded.",
    "client": "Who may come to a hub: add, list, remove, give a new token.",
    "call": "Call a service, over ESNP, tny or magline.",
    "publish": "Publish to a topic or a client, over HTTP, ESNP, tny or magline.",
    "subscribe": "Show notifications as they come, over any protocol.",
    "ping": "Whether a server answers, and how fast.",
    "doctor": "Whether this machine has what Wirelake needs.",
    "simulate": "Make captures of simulated traffic, with the truth beside them.",
    "demo": "See it work.",
}
"""Every command with its summary."""

_PACKAGES = ("demo", "lake", "read", "top")
"""Commands that are packages of their own; the others are modules of `commands`."""

_HELP = """\
Usage: wirelake COMMAND [ARGUMENTS]

Private binary TCP protocols: declared once, read and written byte for byte.

Commands:
{commands}

Options:
  -h, --help  Show this message; after a command, how to use it.
  --version   Show the version.

Examples:
  wirelake demo
  wirelake protocols show comet.auth
  wirelake decode comet --direction c2s --hex 000106
  wirelake read edge.pcapng --table calls --filter 'latency_ns > 50ms'

Exit codes: 0 success, 1 bad data, 2 bad usage.
"""


def module_of(name: str) -> str:
    """The module whose attribute `command` is the command of this name."""
    place = f"{name}.command" if name in _PACKAGES else f"commands.{name}"
    return f"{__package__}.{place}"


def help_text() -> str:
    """What `wirelake --help` prints."""
    width = max(map(len, COMMANDS))
    lines = (f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    return _HELP.format(commands="\n".join(lines))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Errors are one line on standard error."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        if not args or args[0] in ("-h", "--help"):
            sys.stdout.write(help_text())
            sys.stdout.flush()
            return 0
        if args[0] == "--version":
            sys.stdout.write(f"wirelake {__version__}\n")
            sys.stdout.flush()
            return 0
        from .app import run

        return run(args)
    except BrokenPipeError:
        return abandon_output()
    except KeyboardInterrupt:
        return 130


def abandon_output() -> int:
    """Nobody reads the output any more: say nothing, also when the interpreter ends."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1

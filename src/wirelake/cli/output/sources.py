"""Notices about captures: what is not one, what is cut off, and why one has no messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from ..errors import BAD_DATA
from .text import print_notice

__all__ = ["CUT_OFF", "report_cut_off", "report_no_messages", "report_other_files"]

CUT_OFF: Final = "truncated_file"
"""The fault of a capture that ends within a packet."""
_MAX_NAMED: Final = 3
"""Captures that are named each."""
_MAX_PACKETS: Final = 1_000
"""Packets of a capture that are examined for why it has no messages."""
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""The first bytes of gzip and zstd."""


def report_cut_off(files: Iterable[str]) -> None:
    """Say which captures end within a packet."""
    for file in list(files)[:_MAX_NAMED]:
        print_notice(f"{file}: ends within a packet; the result is of what comes before")


def report_other_files(files: Sequence[str]) -> int:
    """Return the exit code: 1 if a file is not a capture, which is reported."""
    from wirelake.capture.format.reader import is_capture

    # Damaged bytes in a capture are rows of `faults`; a wrong file is a mistake of the caller.
    others = [file for file in files if not is_capture(file)]
    for file in others:
        print_notice(f"{file}: {_why_other(file)}")
    return BAD_DATA if others else 0


def _why_other(file: str) -> str:
    """Return why a file is not a capture."""
    with open(file, "rb") as stream:
        head = stream.read(4)
    if not head:
        return "empty: no capture was written to it"
    if head.startswith(_COMPRESSED):
        return "not a capture: what can be decompressed is neither pcap nor pcapng"
    return "not a capture: neither pcap nor pcapng"


def report_no_messages(where: str, files: Sequence[str]) -> None:
    """Say that nothing could be decoded in these captures, and what to do about it."""
    print_notice(
        _why_nothing(where, files)
        or f"no message of a known protocol in {where};"
        " --port PORT=PROTOCOL or --as PROTOCOL names it"
    )


def _why_nothing(where: str, files: Sequence[str]) -> str | None:
    """Return why no protocol can help; None if one may, or for what cannot be read again."""
    from wirelake.capture.format.items import Packet
    from wirelake.capture.format.reader import read
    from wirelake.capture.tcp.headers import segment

    if not all(map(os.path.isfile, files)):
        return None
    links: set[int] = set()
    for file in files:
        packets = (each for each in read(file) if isinstance(each, Packet))
        for each in islice(packets, _MAX_PACKETS):
            if segment(each) != "unknown_link":
                return None
            links.add(each.link)
    if not links:
        return f"no packets in {where}"
    numbers = ", ".join(map(str, sorted(links)))
    return (
        f"unknown link type {numbers} in {where}; expected Ethernet, Linux cooked, raw IP or"
        " loopback: capture on another interface"
    )

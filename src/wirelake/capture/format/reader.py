"""Reads capture files: what is in them, in their order, in constant memory.

    for item in read("edge.pcapng"):
        ...                             # Packet, Fact, Secrets or FileFault

Bytes that make no sense are a `FileFault`, and reading goes on behind them. Whatever the bytes,
nothing is raised but OSError, when a file cannot be opened or read. The rules are those of
`docs/concepts/captures.md`, section *Files*.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from .files import Feed, open_feed
from .items import Element, Fact, FileFault, Item, Packet, Secrets
from .limits import FAULT_BYTES, Limits
from .pcap import MAGICS, read_pcap
from .pcapng import BEGINS, read_pcapng, section_order

__all__ = ["elements", "knows", "read", "read_bytes"]

_ITEMS = (Packet, Fact, Secrets, FileFault)
_DEFAULT = Limits()


def read(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> Iterator[Item]:
    """Packets, facts, secrets and faults of a file."""
    for element in elements(path, limits=limits):
        if isinstance(element, _ITEMS):
            yield element


def elements(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> Iterator[Element]:
    """As `read`, and the sections and interfaces as well."""
    with open_feed(path, limits) as feed:
        yield from _elements(feed, limits)


def read_bytes(data: bytes, *, limits: Limits = _DEFAULT) -> Iterator[Element]:
    """As `elements`, of a file's bytes, uncompressed."""
    return _elements(Feed(iter([data] if data else [])), limits)


def knows(path: str | os.PathLike[str], *, limits: Limits = _DEFAULT) -> bool:
    """Whether a file begins like a capture; no more of it is read. Raises OSError."""
    with open_feed(path, limits) as feed:
        return _format(feed) is not None


def _elements(feed: Feed, limits: Limits) -> Iterator[Element]:
    found = _format(feed)
    return _unknown(feed) if found is None else found(feed, limits)


def _format(feed: Feed) -> Callable[[Feed, Limits], Iterator[Element]] | None:
    """What reads a file, as its first bytes tell."""
    head = feed.take(0, 12)
    if head[:4] in MAGICS:
        return read_pcap
    if head[:4] == BEGINS and (len(head) < 12 or section_order(head)):
        return read_pcapng
    return None


def _unknown(feed: Feed) -> Iterator[FileFault]:
    first = feed.take(0, FAULT_BYTES)
    size = feed.exhaust()
    code, detail = feed.ending or ("unknown_file", "neither pcap nor pcapng")
    yield FileFault(0, size, code, detail, first)

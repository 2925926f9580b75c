"""Captures of a folder, distributed over more sources and files, in any order."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Hashable, Iterable, Sequence
from os import utime
from pathlib import Path
from typing import Final, NamedTuple

from wirelake.capture.format.items import Fact, FileFault, Packet, Secrets, Section, Segment
from wirelake.capture.format.reader import elements
from wirelake.capture.format.writer import PcapngWriter, origin_option
from wirelake.capture.tcp.headers import segment
from wirelake.tables.inputs import discover

__all__ = ["Piece", "age", "arrive", "cut", "waves"]

_EVERYBODY: Final = "everybody"
"""Of what all sources are to have."""
_BROKEN: Final = "broken"
"""Of what is no block. Reading goes on where two blocks in a row make sense, so those that follow
it stay with it, in the same file."""
_FOLLOWERS: Final = 2


class Piece(NamedTuple):
    """A planned file."""

    source: str
    sequence: int
    name: str
    data: bytes


class _Opened(NamedTuple):
    """A capture as blocks."""

    recorded: bool
    head: bytes
    """What every file begins with, behind its section header if it was recorded."""
    blocks: list[tuple[Hashable, bytes]]
    """Each with the connection that it is about."""


def cut(
    folder: Path, rng: random.Random, *, most_sources: int = 1, most_files: int = 4
) -> list[Piece]:
    """The captures of a folder, anew.

    The connections of each source are dealt to one source or more. What each has of a file is cut
    between packets, or what lies between them, into one file or more.
    """
    found: list[Piece] = []
    by_source: dict[str, list[_Opened]] = {}
    for capture in discover(folder):
        by_source.setdefault(capture.source, []).append(_opened(Path(capture.path)))
    for source, files in by_source.items():
        broken = any(about == _BROKEN for each in files for about, _ in each.blocks)
        hands = rng.randint(1, 1 if broken else most_sources)
        salt = rng.random()
        for hand in range(hands):
            name = source if hand == 0 else f"{source}-{'xyz'[hand]}"
            dealt = [_dealt(each, hand, hands, salt) for each in files]
            found += _numbered(name, dealt, rng, most_files)
    return found


def waves(pieces: Iterable[Piece], rng: random.Random, count: int) -> list[list[Piece]]:
    """The same files as they come: so many times a few, in any order.

    Number 0 comes no later than number 1, which would otherwise be taken for the first.
    """
    every = sorted(pieces, key=lambda each: each.sequence)
    came: dict[tuple[str, int], int] = {}
    for each in every:
        latest = came[each.source, 0] if each.sequence == 1 and (each.source, 0) in came else 0
        came[each.source, each.sequence] = rng.randrange(latest, count)
    found: list[list[Piece]] = [[] for _ in range(count)]
    for each in every:
        found[came[each.source, each.sequence]].append(each)
    return [each for each in found if each]


def arrive(folder: Path, pieces: Iterable[Piece], *, age_s: float = 60.0) -> None:
    """Write files with an older modification time."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in pieces:
        path = folder / each.name
        path.write_bytes(each.data)
        age(path, age_s)


def age(path: Path, age_s: float = 60.0) -> Path:
    """Set back the modification time of a file."""
    then = time.time() - age_s
    utime(path, (then, then))
    return path


# -- opening -------------------------------------------------------------------------------------


def _opened(path: Path) -> _Opened:
    data = path.read_bytes()
    found = list(elements(path))
    section = found[0]
    assert isinstance(section, Section)
    starts = [each.offset for each in found]
    parts = [data[start:stop] for start, stop in zip(starts, [*starts[1:], len(data)], strict=True)]
    first = next(at for at, each in enumerate(found) if isinstance(each, Packet | Fact | FileFault))
    recorded = section.source is not None
    blocks: list[tuple[Hashable, bytes]] = [
        (_about(each), part) for each, part in zip(found[first:], parts[first:], strict=True)
    ]
    return _Opened(recorded, b"".join(parts[1 if recorded else 0 : first]), blocks)


def _about(element: object) -> Hashable:
    match element:
        case Packet():
            if element.connection is not None:
                return element.connection
            tcp = segment(element)
            if isinstance(tcp, Segment):
                return frozenset({(tcp.src, tcp.src_port), (tcp.dst, tcp.dst_port)})
        case Fact():
            return element.connection
        case Secrets():
            return _EVERYBODY
        case FileFault():
            return _BROKEN
    return None


# -- dealing and cutting ---------------------------------------------------------------------------


def _dealt(capture: _Opened, hand: int, hands: int, salt: float) -> _Opened:
    """Return the share of one source."""

    def whose(about: Hashable) -> int:
        return 0 if about is None else random.Random(f"{_stable(about)} {salt}").randrange(hands)

    mine = [
        (about, block)
        for about, block in capture.blocks
        if about == _EVERYBODY or whose(about) == hand
    ]
    return capture._replace(blocks=mine)


def _stable(about: Hashable) -> object:
    return sorted(about) if isinstance(about, frozenset) else about


def _numbered(
    source: str, files: Sequence[_Opened], rng: random.Random, most: int
) -> Iterable[Piece]:
    sequence = rng.randint(0, 1)
    for each in files:
        count = rng.randint(1, most)
        cuts = sorted(rng.choices(_places(each.blocks), k=count - 1))
        for start, stop in zip([0, *cuts], [*cuts, len(each.blocks)], strict=True):
            body = b"".join(block for _, block in each.blocks[start:stop])
            head = _section(source, sequence) if each.recorded else b""
            kind = "pcapng" if each.recorded else "pcap"
            name = f"{source}-{sequence:08d}.{kind}"
            yield Piece(source, sequence, name, head + each.head + body)
            sequence += 1


def _places(blocks: Sequence[tuple[Hashable, bytes]]) -> list[int]:
    """Return the positions at which a file may be split."""
    broken = {at for at, (about, _) in enumerate(blocks) if about == _BROKEN}
    stuck = {at + k for at in broken for k in range(1, _FOLLOWERS + 1)}
    return [at for at in range(len(blocks) + 1) if at not in stuck]


def _section(source: str, sequence: int) -> bytes:
    stream = io.BytesIO()
    PcapngWriter(stream, options=[origin_option(source, sequence)])
    return stream.getvalue()

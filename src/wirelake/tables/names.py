"""Sources and order of captures (`docs/concepts/lake.md`, *Sources and admission*).

    path = "/captures/eth0.pcap2"
    Names().place(path, contents(path, mtime_ns))    # source eth0, ordered by its first packet

A recording says its source and sequence number itself. For other captures the name says which
source a file belongs to, and sometimes its number. Mostly it does not: tcpdump begins again with
the same numbers (`-W`), dates are in local time and in many forms, and `eth0.pcap` is followed by
`eth0.pcap1`. The packets say it: the time of the first one orders the files of a source. So a name
only decides the order if it ends in a plain counter, such as `tap-0007.pcap`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

from wirelake.capture.format.constants import Limits
from wirelake.capture.format.items import Packet, Section
from wirelake.capture.format.reader import elements, is_capture, read
from wirelake.capture.format.writer import OPEN_SUFFIX
from wirelake.capture.tools.repair import repaired_name

from .paths import LakeError

__all__ = [
    "CAPTURE",
    "Contents",
    "Names",
    "OrderedBy",
    "Place",
    "contents",
    "first_ns",
    "has_rotated",
    "in_order",
    "is_time",
    "repaired_copies",
]

OrderedBy = Literal["recording", "pattern", "number", "time"]
"""What decides the sequence number: the recorder's header, the group `sequence` of a pattern, a
number in the name, or the time of the first packet."""

CAPTURE: Final = re.compile(
    r"(?P<stem>.+)\.(pcap|pcapng|cap|ntar)(?P<rotated>\d{0,9})(\.(gz|zst))?", re.IGNORECASE
)
"""Names of captures; tcpdump appends the number of a file to its extension."""
_RING: Final = re.compile(r"(?P<source>.+)_(?P<number>\d{5,9})_\d{14}")
"""Names of dumpcap's ring buffer: a number, and the time when the file was created."""
_DATE: Final = re.compile(
    r"(?<!\d)(?:"
    r"(?:19|20)\d\d(?P<mark>[-_.]?)(?:0[1-9]|1[0-2])(?P=mark)(?:0[1-9]|[12]\d|3[01])"
    r"(?:[-_.T@ ]*(?:[01]\d|2[0-3])(?:[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d(?:[.,]\d{1,9})?s?)?)?)?"
    r"(?:Z|[+-]\d\d:?\d\d)?"
    r"|1\d{9}(?:\d{3}|\d{6}|\d{9})?"  # seconds, ms, us or ns since 1970
    r")(?!\d)"
)
"""Dates and times in names, as strftime and people write them."""
_COUNTED: Final = re.compile(r"(?P<source>(.*\D)?)(?P<number>\d{1,18})")
_INTERFACE: Final = re.compile(
    r"(.*[^a-z0-9])?((eth|wlan|lo|bond|br|bridge|docker|vlan|tun|utun|ppp|ib)\d{1,3}"
    r"|(en|wl|ww)(\d|[opsx]\d)[a-z0-9]*|veth[a-z0-9]+)",
    re.IGNORECASE,
)
"""Names that end in that of a network interface: the number in eth0 counts no files."""
_MARKS: Final = "-_. @"
_HEAD: Final = Limits(chunk_bytes=4_096)
"""Only the first section header of a file is read."""
_START: Final = Limits(chunk_bytes=1 << 16)
"""Reads small chunks: only the start of a file is needed."""
_MAX_BLOCKS: Final = 4_096
"""Blocks to look at: facts, keys and damage may come before the first packet."""
_MAX_PACKETS: Final = 16
"""Packets to look at for a time that can be right."""
_EARLIEST_NS: Final = 631_152_000 * 10**9
"""1990. Earlier times are those of tools that write none; larger sequence numbers are times."""
_SKEW_NS: Final = 86_400 * 10**9
"""How far a packet may be after the last write of its file: clocks differ, time zones are wrong."""


class Place(NamedTuple):
    """The place of a capture among all captures of a folder."""

    source: str
    sequence: int
    ordered_by: OrderedBy
    number: int | None = None
    """Number in the name of a file that is ordered by time: the one before should exist."""


class Contents(NamedTuple):
    """What the contents of a capture say about its place."""

    recorded: Place | None
    """From the header of a recording."""
    begin_ns: int | None
    """Time of the first packet that can be right; None without packets."""


def is_time(sequence: int) -> bool:
    """Return whether a sequence number is the time of a first packet."""
    return sequence >= _EARLIEST_NS


class Names:
    """The rules for the names of captures."""

    def __init__(self, pattern: str | None = None):
        """`pattern` is a regular expression for whole file names with a group `source`, and perhaps
        a group `sequence` for a number. Names that it does not match follow the other rules. Raises
        LakeError."""
        self._pattern = None if pattern is None else _compiled(pattern)

    def place(
        self, path: str, contents: Contents, is_rotated: Callable[[str, str], bool] | None = None
    ) -> Place:
        """Return the place of a file.

        `is_rotated` tells whether tcpdump has written further files with a name: folder and stem.
        """
        if contents.recorded is not None:
            return contents.recorded
        folder, name = os.path.split(path)
        named = self.named(name, folder, is_rotated or has_rotated)
        if named.ordered_by != "time":
            return named
        if contents.begin_ns is None:
            # Nothing to order it by, and nothing that belongs to a connection of another file.
            return Place(name, 0, "time")
        begins = contents.begin_ns
        return named._replace(sequence=begins) if is_time(begins) else named

    def named(
        self,
        name: str,
        folder: str = "",
        is_rotated: Callable[[str, str], bool] = lambda _, __: False,
    ) -> Place:
        """Return what a name says.

        The sequence of a file that is ordered by time is what to use if its packets have no times.
        """
        found = None if self._pattern is None else self._pattern.fullmatch(name)
        if found is not None:
            return _by_pattern(found.groupdict())
        match = CAPTURE.fullmatch(name.removesuffix(OPEN_SUFFIX))
        stem, rotated = (name, "") if match is None else (match["stem"], match["rotated"])
        if ring := _RING.fullmatch(stem):
            return _numbered(ring["source"], int(ring["number"]))
        if date := _DATE.search(stem):
            digits = re.sub(r"\D", "", date[0]) + rotated
            return Place(_without(stem, date), int(digits[:18]), "time")
        if rotated:
            return _numbered(stem, int(rotated))
        counted = _COUNTED.fullmatch(stem)
        if counted is None or _INTERFACE.fullmatch(stem) or is_rotated(folder, stem):
            return _numbered(stem, 0)
        source = counted["source"]
        cut = source[:-1] if source.endswith(("-", "_", ".")) else source
        return Place(cut, int(counted["number"]), "number")


def _numbered(source: str, number: int) -> Place:
    return Place(source, number, "time", number)


def _without(stem: str, date: re.Match[str]) -> str:
    """Return a name without its date, and without a number that counts the files of a day."""
    before, after = stem[: date.start()].rstrip(_MARKS), stem[date.end() :]
    after = re.sub(r"^[-_. @]*\d+$", "", after).strip(_MARKS)
    return f"{before}-{after}" if before and after else before or after


def _by_pattern(groups: dict[str, str | None]) -> Place:
    source, number = groups["source"] or "", groups.get("sequence")
    if number is None or not number.isdecimal():
        return Place(source, 0, "time")
    return Place(source, int(number), "pattern")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise LakeError(f"invalid source pattern {pattern!r}: {error}") from None
    if "source" not in found.groupindex:
        raise LakeError(
            f"invalid source pattern {pattern!r}; expected a group source, such as"
            r" (?P<source>.+)-\d+\.pcap"
        )
    return found


def has_rotated(folder: str, stem: str) -> bool:
    """Return whether a folder has rotated files with this stem: stem.pcap1."""
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return False
    found = (CAPTURE.fullmatch(name) for name in names if name.startswith(f"{stem}."))
    return any(match is not None and match["stem"] == stem and match["rotated"] for match in found)


def repaired_copies(names: Iterable[str]) -> set[str]:
    """Return the names that repaired copies of the captures with these names have by default.

    The damaged capture has the same packets, and faults for the rest; who reads both counts twice.
    """
    return {repaired_name(Path(each)).name for each in names if not each.endswith(OPEN_SUFFIX)}


def in_order(folder: str | os.PathLike[str], also: Collection[str] = ()) -> list[str]:
    """Return the captures in a folder, without its subfolders, source by source.

    `also` are further names: those of unfinished recordings.
    """
    names = Names()
    found = []
    entries = [each for each in os.scandir(folder) if each.is_file()]
    copies = repaired_copies(each.name for each in entries)
    for entry in entries:
        if (CAPTURE.fullmatch(entry.name) or entry.name in also) and entry.name not in copies:
            place = names.place(entry.path, contents(entry.path, entry.stat().st_mtime_ns))
            found.append((place.source, place.sequence, entry.path))
    return [path for *_, path in sorted(found)]


# -- contents ----------------------------------------------------------------------------------


def contents(path: str, mtime_ns: int) -> Contents:
    """Read the beginning of a capture."""
    return Contents(_recorded(path), _begin_ns(path, mtime_ns))


def _recorded(path: str) -> Place | None:
    """Return the place that the header of a recording names; None if it is not one."""
    try:
        # `elements` would search a file that is not a capture to its end.
        first = next(elements(path, limits=_HEAD), None) if is_capture(path, limits=_HEAD) else None
    except OSError:
        return None
    if isinstance(first, Section) and first.source is not None and first.sequence is not None:
        return Place(first.source, first.sequence, "recording")
    return None


def first_ns(path: str | os.PathLike[str]) -> int | None:
    """Return the time of the first packet of a capture; None if none is found."""
    return next(iter(_first_times(path, 1)), None)


def _begin_ns(path: str, mtime_ns: int) -> int | None:
    """Return the time that orders a capture: of the first packet that can be right."""
    # A damaged packet may have any time. One far in the future would make every later file late.
    times = _first_times(path, _MAX_PACKETS)
    right = (ts_ns for ts_ns in times if is_time(ts_ns) and ts_ns <= mtime_ns + _SKEW_NS)
    return next(right, times[0] if times else None)


def _first_times(path: str | os.PathLike[str], count: int) -> list[int]:
    try:
        if not is_capture(path, limits=_START):  # an unknown format would be read to its end
            return []
        items = islice(read(path, limits=_START), _MAX_BLOCKS)
        return list(islice((each.ts_ns for each in items if isinstance(each, Packet)), count))
    except OSError:
        return []

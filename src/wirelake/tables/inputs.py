"""Which captures of a folder are read next (`docs/concepts/lake.md`, *Sources and admission*).

    captures = discover("captures")
    found = opened(admit(captures, snapshot, time.time_ns()))
    found.admitted, found.refused, found.waiting

`admit` does not look at the disk or the clock: the listing and the time are its arguments. `opened`
looks whether what was admitted can be opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from wirelake.capture.format.items import Section
from wirelake.capture.format.limits import Limits
from wirelake.capture.format.reader import elements, knows

from .entries import Input
from .errors import LakeError
from .snapshot import Snapshot, Source

__all__ = [
    "LATENESS_S",
    "SETTLE_S",
    "Admission",
    "Capture",
    "Watch",
    "admit",
    "discover",
    "identified",
    "opened",
    "unchanged",
]

LATENESS_S: Final = 600.0
"""How long a file is waited for that should come before one that is there."""
SETTLE_S: Final = 10.0
"""How long a file is left alone after it was last written to."""
_COUNTED: Final = 1_000_000
"""Numbers that are further apart than this do not count files: they are dates, or times."""
_NAME: Final = re.compile(
    r"(?P<stem>.+)\.(pcap|pcapng|cap|ntar)(?P<rotated>\d{0,9})(\.(gz|zst))?", re.IGNORECASE
)
_NUMBERED: Final = re.compile(r"(?P<source>(.*\D)?)(?P<number>\d{1,18})")
_RING: Final = re.compile(r"(?P<source>.+)_(?P<number>\d{5,9})_\d{14}")
"""How dumpcap names the files of a ring: a number, and when each was begun."""
_HEAD: Final = Limits(chunk_bytes=4_096)
"""Of a file only its first section header is read."""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """A capture in the folder that is watched."""

    source: str
    sequence: int
    path: str
    """Absolute."""
    bytes: int
    mtime_ns: int
    is_recording: bool = False

    @property
    def name(self) -> str:
        """Its name without the folder, which is part of the source."""
        return os.path.basename(self.path)

    def consumed(self, fault: str | None = None) -> Input:
        """The same as an input of a commit."""
        return Input(
            source=self.source,
            sequence=self.sequence,
            path=self.path,
            bytes=self.bytes,
            mtime_ns=self.mtime_ns,
            fault=fault,
        )


class Admission(msgspec.Struct, kw_only=True):
    """What is read next, and what is not."""

    admitted: list[Input] = []
    """By source, in the order of their sequence."""
    refused: list[Input] = []
    """With the fault that each becomes."""
    waiting: list[tuple[Capture, str]] = []
    """With the reason why."""


# -- looking -------------------------------------------------------------------------------------


class Watch:
    """A folder of captures, looked at again and again; files are opened once."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._folder = Path(folder).absolute()
        self._origins: dict[tuple[str, int], tuple[str, int] | None] = {}

    def look(self) -> list[Capture]:
        """The captures that there are now, by source and sequence. Raises LakeError."""
        if not self._folder.is_dir():
            raise LakeError(f"{self._folder}: there is no such folder of captures")
        found = [self._capture(*each) for each in _files(self._folder)]
        origins = self._origins
        self._origins = {
            key: origins[key] for each in found if (key := (each.path, each.mtime_ns)) in origins
        }
        return sorted(found, key=lambda each: (each.source, each.sequence, each.path))

    def _capture(self, path: str, stem: str, status: os.stat_result) -> Capture:
        key = (path, status.st_mtime_ns)
        if key not in self._origins:
            self._origins[key] = _origin(path)
        origin = self._origins[key]
        source, sequence = origin or _named(stem)
        below = os.path.relpath(os.path.dirname(path), self._folder)
        return Capture(
            source=source if below == "." else f"{below}/{source}",
            sequence=sequence,
            path=path,
            bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            is_recording=origin is not None,
        )


def discover(folder: str | os.PathLike[str]) -> list[Capture]:
    """The captures in a folder and in those below, by source and sequence. Raises LakeError."""
    return Watch(folder).look()


def identified(path: str | os.PathLike[str]) -> Capture:
    """One capture, whatever its name, as its own folder would list it. Raises OSError."""
    found = Path(path).absolute()
    match = _NAME.fullmatch(found.name)
    stem = found.name if match is None else _stem(match)
    return Watch(found.parent)._capture(str(found), stem, found.stat())


def unchanged(before: Iterable[Capture], after: Iterable[Capture]) -> frozenset[str]:
    """The paths of files that did not change from one look to the next."""
    sizes = {each.path: (each.bytes, each.mtime_ns) for each in before}
    return frozenset(
        each.path for each in after if sizes.get(each.path) == (each.bytes, each.mtime_ns)
    )


def _files(folder: Path) -> Iterator[tuple[str, str, os.stat_result]]:
    for below, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None or name.startswith("."):
                continue
            path = os.path.join(below, name)
            try:
                status = os.stat(path)
            except OSError:
                continue  # it went away in between
            if os.path.isfile(path):
                yield path, _stem(match), status


def _stem(match: re.Match[str]) -> str:
    """The name without its extension; tcpdump puts its number behind that: trace.pcap2."""
    return f"{match['stem']}-{match['rotated']}" if match["rotated"] else match["stem"]


def _origin(path: str) -> tuple[str, int] | None:
    """What the section header of a recording says; None when it is none, or cannot be read."""
    try:
        # What is no capture at all would be read to its end.
        first = next(elements(path, limits=_HEAD), None) if knows(path, limits=_HEAD) else None
    except OSError:
        return None
    if isinstance(first, Section) and first.source is not None and first.sequence is not None:
        return first.source, first.sequence
    return None


def _named(stem: str) -> tuple[str, int]:
    """Source and sequence, as the name tells."""
    if ring := _RING.fullmatch(stem):
        return ring["source"], int(ring["number"])
    match = _NUMBERED.fullmatch(stem)
    if match is None:
        return stem, 0
    source = match["source"]
    return source[:-1] if source.endswith(("-", "_", ".")) else source, int(match["number"])


# -- admitting -----------------------------------------------------------------------------------


def admit(
    captures: Iterable[Capture],
    snapshot: Snapshot,
    now_ns: int,
    *,
    lateness_s: float = LATENESS_S,
    settle_s: float = SETTLE_S,
    still: frozenset[str] = frozenset(),
    up_to: Mapping[str, int] | None = None,
    most_files: int | None = None,
    most_bytes: int | None = None,
) -> Admission:
    """What is read next of these captures.

    `still` has the paths of files that are known not to grow. `up_to` says by source how far to
    go; sources that it does not name wait. At most `most_files` are admitted, and at least one
    but otherwise at most `most_bytes`: the oldest first, without changing the order of a source.
    """
    rules = _Rules(now_ns, lateness_s, settle_s, still)
    by_source: dict[str, list[Capture]] = {}
    for each in sorted(captures, key=lambda each: (each.source, each.sequence, each.path)):
        by_source.setdefault(each.source, []).append(each)
    found = Admission(admitted=[], refused=[], waiting=[])
    candidates: list[Capture] = []
    for source, files in by_source.items():
        bound = None if up_to is None else up_to.get(source, -1)
        queue = _Queue(rules, snapshot.sources.get(source) or Source(), bound, found)
        candidates += queue.admitted(files)
    _limit(candidates, found, most_files, most_bytes)
    return found


class _Rules(msgspec.Struct, frozen=True):
    """When a file may be read."""

    now_ns: int
    lateness_s: float
    settle_s: float
    still: frozenset[str]

    def is_sealed(self, capture: Capture, *, has_later: bool) -> bool:
        """Whether nobody writes to it any more."""
        return (
            capture.is_recording
            or has_later
            or capture.path in self.still
            or self._age_s(capture) >= self.settle_s
        )

    def is_late_enough(self, capture: Capture) -> bool:
        """Whether what should come before it was waited for long enough."""
        return self._age_s(capture) >= self.lateness_s

    def _age_s(self, capture: Capture) -> float:
        return (self.now_ns - capture.mtime_ns) / 1e9


class _Queue:
    """The files of one source, in the order of their sequence."""

    def __init__(self, rules: _Rules, source: Source, bound: int | None, found: Admission):
        self._rules = rules
        self._source = source
        self._bound = bound
        self._found = found
        self._last = source.last
        self._first = source.first

    def admitted(self, files: list[Capture]) -> Iterator[Capture]:
        """Those that may be read; the others are refused, or wait."""
        new = [each for each in files if not self._is_over(each)]
        highest = max((each.sequence for each in new), default=0)
        first_waiting = ""
        for each in new:
            if self._last is not None and each.sequence <= self._last:
                self._found.refused.append(each.consumed("late_file"))
                continue
            why = f"behind {first_waiting}" if first_waiting else self._why_not(each, highest)
            if why:
                self._found.waiting.append((each, why))
                first_waiting = first_waiting or each.name
                continue
            self._last = each.sequence
            self._first = each.sequence if self._first is None else self._first
            yield each

    def _is_over(self, capture: Capture) -> bool:
        """Whether it was consumed before: read, or refused for having changed since."""
        known = self._source.known(capture.sequence, capture.name)
        return known is not None and (known.fault is not None or known.bytes == capture.bytes)

    def _why_not(self, capture: Capture, highest: int) -> str:
        if self._bound is not None and capture.sequence > self._bound:
            return "not asked for yet"
        if not self._rules.is_sealed(capture, has_later=capture.sequence < highest):
            return "may still be written to"
        if self._is_next(capture.sequence) or self._rules.is_late_enough(capture):
            return ""
        return f"number {capture.sequence - 1} is missing"

    def _is_next(self, sequence: int) -> bool:
        if self._last is None or self._first is None:
            return sequence <= 1 or sequence > _COUNTED
        return (
            sequence == self._last + 1
            or sequence - self._last > _COUNTED
            or self._first > _COUNTED  # dates: an hour may be less than a million apart
        )


def _limit(
    candidates: list[Capture], found: Admission, most_files: int | None, most_bytes: int | None
) -> None:
    """Admits the oldest of them, as many as are wanted."""
    files = bytes_ = 0
    full = False
    chosen: list[Capture] = []
    for each in _oldest_first(candidates):
        full = full or (most_files is not None and files >= most_files)
        full = full or (most_bytes is not None and files > 0 and bytes_ + each.bytes > most_bytes)
        if full:
            found.waiting.append((each, "comes with the next step"))
            continue
        files += 1
        bytes_ += each.bytes
        chosen.append(each)
    chosen.sort(key=lambda each: (each.source, each.sequence))
    found.admitted += [each.consumed() for each in chosen]


def _oldest_first(captures: Iterable[Capture]) -> list[Capture]:
    """By time, where a file is no older than those before it in its source."""
    newest: dict[str, int] = {}
    keyed = []
    for each in captures:
        newest[each.source] = max(newest.get(each.source, 0), each.mtime_ns)
        keyed.append((newest[each.source], each.source, each.sequence, each))
    return [each for *_, each in sorted(keyed, key=lambda entry: entry[:3])]


def opened(admission: Admission) -> Admission:
    """The same, where files that are gone or cannot be opened are refused: their turn has come, so
    what comes after them is admitted all the same."""
    admitted: list[Input] = []
    refused = list(admission.refused)
    for each in admission.admitted:
        fault = _opening_fault(each.path)
        if fault is None:
            admitted.append(each)
        else:
            refused.append(msgspec.structs.replace(each, fault=fault))
    return Admission(admitted=admitted, refused=refused, waiting=admission.waiting)


def _opening_fault(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except FileNotFoundError:
        return "vanished_file"
    except OSError:
        return "unreadable_file"
    return None

"""Admission: which captures of a folder are read next (`docs/concepts/lake.md`, *Sources and
admission*).

    captures = discover("captures")
    admission = check_readable(admit(captures, snapshot, time.time_ns()))
    admission.admitted, admission.refused, admission.waiting

The tables of a connection are a left fold over its packets in source order, so the files of a
source must be read in the order of their sequence numbers, and each exactly once. That is why a
file waits for a missing predecessor (up to a lateness bound), why a file that comes after its
successor was read is refused, and why a file that may still grow is not read at all.

`admit` is a pure function of the listing, the snapshot and the time. `check_readable` then opens
the admitted files.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from wirelake.capture.format.writer import is_being_written

from .names import (
    CAPTURE,
    Contents,
    Names,
    OrderedBy,
    contents,
    has_rotated,
    is_time,
    repaired_copies,
)
from .paths import LakeError, absolute_path
from .snapshot import OPEN, Input, Snapshot, Source

__all__ = [
    "LATENESS_S",
    "SETTLE_S",
    "Admission",
    "Capture",
    "Watch",
    "admit",
    "check_readable",
    "discover",
    "identified",
    "skipped_text",
    "unchanged",
]

LATENESS_S: Final = 600.0
"""Maximum time that a file waits for a missing predecessor."""
SETTLE_S: Final = 10.0
"""Time since the last write after which a file is considered complete."""
_MAX_GAP: Final = 1_000_000
"""Numbers further apart than this are times, not a count of files."""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """A capture in the folder."""

    source: str
    sequence: int
    path: str
    """Absolute path."""
    bytes: int
    mtime_ns: int
    ordered_by: OrderedBy = "number"
    """What the sequence number comes from."""
    number: int | None = None
    """Number in the name of a file that is ordered by time; see `Place`."""
    begin_ns: int | None = None
    """Time of its first packet; None without packets."""

    @property
    def is_recording(self) -> bool:
        """Whether a recorder wrote it, which gives files their names when they are complete."""
        return self.ordered_by == "recording"

    @property
    def name(self) -> str:
        """File name, the same whether it is sealed; the folder is part of the source."""
        return os.path.basename(self.path).removesuffix(OPEN)

    def consumed(self, fault: str | None = None) -> Input:
        """Return it as an input of a commit."""
        return Input(
            source=self.source,
            sequence=self.sequence,
            path=self.path,
            bytes=self.bytes,
            mtime_ns=self.mtime_ns,
            ordered_by=self.ordered_by,
            fault=fault,
        )


class Admission(msgspec.Struct, kw_only=True):
    """The captures to read next, and the others."""

    admitted: list[Input] = []
    """By source and sequence number."""
    refused: list[Input] = []
    """Each with its fault."""
    waiting: list[tuple[Capture, str]] = []
    """Each with the reason."""


# -- listing -------------------------------------------------------------------------------------


class Watch:
    """A folder of captures that is listed repeatedly; each file is opened once."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        pattern: str | None = None,
        *,
        include_open: bool = False,
    ):
        """`pattern` is that of `Names`."""
        self._folder = absolute_path(folder)
        self._names = Names(pattern)
        self._include_open = include_open
        self.open: list[Capture] = []
        """Recordings that the last listing left out because they are not sealed. With
        `include_open`, only those that a recorder is writing."""
        self._contents: dict[tuple[str, int], Contents] = {}

    def look(self) -> list[Capture]:
        """List the captures by source and sequence number. Raises LakeError."""
        if not self._folder.is_dir():
            raise LakeError(f"{self._folder}: no such folder of captures")
        found = list(_files(self._folder))
        rotated = {(os.path.dirname(path), stem) for path, stem, number, _ in found if number}

        def is_rotated(folder: str, stem: str) -> bool:
            return (folder, stem) in rotated

        captures = [self._capture(path, status, is_rotated) for path, _, _, status in found]
        sealed = {each.path for each in captures}
        self.open = []
        for path, _, _, status in _files(self._folder, OPEN):
            if path.removesuffix(OPEN) in sealed:
                continue  # repaired: the copy has everything
            left_out = not self._include_open or is_being_written(path)
            (self.open if left_out else captures).append(self._capture(path, status, is_rotated))
        # A stream lists the folder at each trigger. Only files that are new or were written to are
        # opened; those that are gone are forgotten.
        kept = {(each.path, each.mtime_ns) for each in [*captures, *self.open]}
        self._contents = {key: each for key, each in self._contents.items() if key in kept}
        return sorted(captures, key=lambda each: (each.source, each.sequence, each.path))

    def one(self, path: Path) -> Capture:
        """Return one capture, whatever its name, as a listing has it."""
        return self._capture(str(path), path.stat(), has_rotated)

    def _capture(
        self, path: str, status: os.stat_result, is_rotated: Callable[[str, str], bool]
    ) -> Capture:
        key = (path, status.st_mtime_ns)
        if key not in self._contents:
            self._contents[key] = contents(path, status.st_mtime_ns)
        place = self._names.place(path, self._contents[key], is_rotated)
        below = os.path.relpath(os.path.dirname(path), self._folder)
        return Capture(
            source=place.source if below == "." else f"{below}/{place.source}",
            sequence=place.sequence,
            path=path,
            bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ordered_by=place.ordered_by,
            number=place.number,
            begin_ns=self._contents[key].begin_ns,
        )


def discover(folder: str | os.PathLike[str], pattern: str | None = None) -> list[Capture]:
    """List the captures in a folder and its subfolders. Raises LakeError."""
    return Watch(folder, pattern).look()


def identified(path: str | os.PathLike[str], pattern: str | None = None) -> Capture:
    """Return one capture, whatever its name, as a listing of its folder has it."""
    file = Path(path).absolute()
    return Watch(file.parent, pattern).one(file)


def skipped_text(folder: object, sizes: Collection[int], remedy: str) -> str:
    """Return the notice of unfinished recordings in a folder that are not read.

    `remedy` is what to do, as in "add --include-open to read".
    """
    noun, them = ("recording", "it") if len(sizes) == 1 else ("recordings", "them")
    return (
        f"skipping {len(sizes):,} unfinished {noun} in {folder}, {sum(sizes):,} bytes; {remedy}"
        f" {them}"
    )


def unchanged(before: Iterable[Capture], after: Iterable[Capture]) -> frozenset[str]:
    """Return the paths of files that did not change between two listings."""
    sizes = {each.path: (each.bytes, each.mtime_ns) for each in before}
    return frozenset(
        each.path for each in after if sizes.get(each.path) == (each.bytes, each.mtime_ns)
    )


def _files(folder: Path, suffix: str = "") -> Iterator[tuple[str, str, str, os.stat_result]]:
    """Yield path, stem and rotation number of captures, with this suffix after the extension."""
    for below, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        copies = repaired_copies(names)
        for name in names:
            if name in copies:
                continue
            match = CAPTURE.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
            if match is None or name.startswith("."):
                continue
            path = os.path.join(below, name)
            try:
                status = os.stat(path)
            except OSError:
                continue  # deleted since it was listed
            if os.path.isfile(path):
                yield path, match["stem"], match["rotated"], status


# -- admission -----------------------------------------------------------------------------------


def admit(
    captures: Iterable[Capture],
    snapshot: Snapshot,
    now_ns: int,
    *,
    lateness_s: float = LATENESS_S,
    settle_s: float = SETTLE_S,
    still: frozenset[str] = frozenset(),
    up_to: Mapping[str, int] | None = None,
    max_files: int | None = None,
    max_bytes: int | None = None,
) -> Admission:
    """Decide which captures to read next.

    `still` has the paths of files that are known not to grow. `up_to` has the last sequence number
    to read by source; sources that are not in it wait. At most `max_files` are admitted, and at
    most `max_bytes` but at least one file: the oldest first, in the order of each source.
    """
    # Sources are independent: connections never continue in a file of another source. So a source
    # that waits for a missing file does not hold up the others.
    rules = _Rules(now_ns, lateness_s, settle_s, still)
    by_source: dict[str, list[Capture]] = {}
    for each in sorted(captures, key=lambda each: (each.source, each.sequence, each.path)):
        by_source.setdefault(each.source, []).append(each)
    admission = Admission(admitted=[], refused=[], waiting=[])
    candidates: list[Capture] = []
    for source, files in by_source.items():
        bound = None if up_to is None else up_to.get(source, -1)
        queue = _Queue(rules, snapshot, source, bound, admission)
        candidates += queue.admitted(files)
    _limit(candidates, admission, max_files, max_bytes)
    return admission


class _Rules(msgspec.Struct, frozen=True):
    """The time and the bounds of one admission."""

    now_ns: int
    lateness_s: float
    settle_s: float
    still: frozenset[str]

    def is_complete(self, capture: Capture, *, has_later: bool) -> bool:
        """Return whether a file no longer grows.

        Recordings get their final name when they are complete; other writers start a file after
        they have finished the one before.
        """
        return (
            capture.is_recording
            or has_later
            or capture.path in self.still
            or self._age_s(capture) >= self.settle_s
        )

    def has_waited(self, capture: Capture) -> bool:
        """Return whether the wait for its predecessor is over."""
        return self._age_s(capture) >= self.lateness_s

    def _age_s(self, capture: Capture) -> float:
        return (self.now_ns - capture.mtime_ns) / 1e9


class _Queue:
    """The files of one source, in the order of their sequence numbers."""

    def __init__(
        self,
        rules: _Rules,
        snapshot: Snapshot,
        source: str,
        bound: int | None,
        admission: Admission,
    ):
        self._rules = rules
        self._snapshot = snapshot
        self._source = snapshot.sources.get(source) or Source()
        self._folder = source.rpartition("/")[0]
        self._bound = bound
        self._admission = admission
        self._last = self._source.last
        self._first = self._source.first
        self._numbers: set[int | None] = set()
        """Numbers in the names of files that are listed."""

    def admitted(self, files: list[Capture]) -> Iterator[Capture]:
        """Yield the files that may be read; add the others to refused or waiting."""
        self._numbers = {each.number for each in files}
        new = [each for each in files if not self._is_consumed(each)]
        highest = max((each.sequence for each in new), default=0)
        first_waiting = ""
        for each in new:
            if self._last is not None and each.sequence <= self._last:
                self._admission.refused.append(each.consumed("late_file"))
                continue
            reason = f"after {first_waiting}" if first_waiting else self._wait_reason(each, highest)
            if reason:
                self._admission.waiting.append((each, reason))
                first_waiting = first_waiting or each.name
                continue
            self._last = each.sequence
            self._first = each.sequence if self._first is None else self._first
            yield each

    def _is_consumed(self, capture: Capture) -> bool:
        """Return whether it was read or refused before; a file that grew since is refused."""
        # By source, sequence and file name, not by folder: it may have been moved. A file of
        # another size is not consumed, but its sequence is, so `admitted` refuses it as late: what
        # was read of it is in the tables, and the rest cannot be folded after its successors.
        known = self._source.known(capture.sequence, capture.name)
        if known is not None:
            return known.fault is not None or known.bytes == capture.bytes
        # Its place may have changed: an older version had other rules for names, and a file that
        # tcpdump continues in others gets its place from them. A ring buffer writes a name again,
        # and then the contents begin later.
        other = self._snapshot.named(self._folder, capture.name)
        if other is None or other.bytes != capture.bytes:
            return False
        moved = is_time(other.sequence) and is_time(capture.sequence)
        return not moved or other.mtime_ns == capture.mtime_ns

    def _wait_reason(self, capture: Capture, highest: int) -> str:
        if self._bound is not None and capture.sequence > self._bound:
            return "not requested yet"
        if not self._rules.is_complete(capture, has_later=capture.sequence < highest):
            return "may still be growing"
        if self._rules.has_waited(capture):
            return ""
        if is_time(capture.sequence):
            missing = capture.number is not None and not self._has_number(capture.number - 1)
            return f"number {(capture.number or 0) - 1} is missing" if missing else ""
        if self._is_next(capture.sequence):
            return ""
        return f"sequence {capture.sequence - 1} is missing"

    def _has_number(self, number: int) -> bool:
        """Return whether a file with a number in its name is there, or was read before.

        A capture begins with the number 0 or 1, or has none in the name of its first file.
        """
        if number <= 0 or number in self._numbers:
            return True
        return any(_number(each.name) == number for each in self._source.inputs)

    def _is_next(self, sequence: int) -> bool:
        # Numbers in names may be times of some kind. They have gaps by nature, so a file must not
        # wait for the number before it.
        if self._last is None or self._first is None:
            return sequence <= 1 or sequence > _MAX_GAP
        return (
            sequence == self._last + 1
            or sequence - self._last > _MAX_GAP
            # The first one tells: times of files an hour apart may differ by less than a million.
            or self._first > _MAX_GAP
        )


@functools.cache
def _number(name: str) -> int | None:
    """Return the number in the name of a file that is ordered by time."""
    return Names().named(name).number


def _limit(
    candidates: list[Capture], admission: Admission, max_files: int | None, max_bytes: int | None
) -> None:
    """Admit the oldest candidates up to the limits; the others wait."""
    files = bytes_ = 0
    full = False
    chosen: list[Capture] = []
    for each in _oldest_first(candidates):
        # Once full, always full: a smaller file further on may come after one that waits.
        full = full or (max_files is not None and files >= max_files)
        full = full or (max_bytes is not None and files > 0 and bytes_ + each.bytes > max_bytes)
        if full:
            admission.waiting.append((each, "next step"))
            continue
        files += 1
        bytes_ += each.bytes
        chosen.append(each)
    chosen.sort(key=lambda each: (each.source, each.sequence))
    admission.admitted += [each.consumed() for each in chosen]


def _oldest_first(captures: Iterable[Capture]) -> list[Capture]:
    """Sort by capture time, but never before a predecessor of the same source.

    Modification times say nothing about captures that were copied. Sources get on together, so that
    little waits for one of them.
    """
    newest: dict[str, int] = {}
    keyed = []
    for each in captures:
        begin_ns = each.mtime_ns if each.begin_ns is None else each.begin_ns
        newest[each.source] = max(newest.get(each.source, 0), begin_ns)
        keyed.append((newest[each.source], each.source, each.sequence, each))
    return [each for *_, each in sorted(keyed, key=lambda entry: entry[:3])]


def check_readable(admission: Admission) -> Admission:
    """Refuse admitted files that cannot be opened.

    It is their turn, so their successors are admitted all the same.
    """
    # A file that vanishes later is reported by its task, and the whole step is repeated without it.
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

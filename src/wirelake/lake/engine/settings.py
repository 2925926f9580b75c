"""Settings of a lake: how captures are read and which tables are kept. They never change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.tables.paths import LakeError

__all__ = [
    "DECODED",
    "LATEST",
    "TABLES",
    "Latest",
    "Reached",
    "Settings",
    "complete_ns",
    "expected_ns",
    "tables_of",
    "watermark_ns",
    "written_tables",
]


DECODED: Final = ("messages", "faults", "coverage")
"""Tables made by decoding alone; every lake has them."""
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "calls": (),
    "connections": (),
    "deliveries": (),
    "tunnels": (),
    "traffic_minutes": (),
    "latency_minutes": ("calls",),
    "delivery_minutes": ("deliveries",),
    "error_minutes": ("calls",),
    "talker_minutes": (),
}
"""The other tables, and the tables that each of them needs."""
_INTERMEDIATE: Final[dict[str, tuple[str, ...]]] = {
    "_connections": ("connections",),
    "_sign_ons": ("connections",),
    "_delivery_parts": ("deliveries",),
    "_delivery_faults": ("deliveries",),
    "_publications": ("deliveries",),
    "_tunnel_events": ("tunnels", "calls"),
}
"""Intermediate tables, and the tables made from them."""
TABLES: Final = (*DECODED, *_NEEDS)
"""All tables of a lake."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How captures become tables. The first run decides; only keys may change later."""

    ports: dict[int, str] | None = None
    """Protocols by server port; None for the default ports."""
    force_protocol: str | None = msgspec.field(default=None, name="speaks")
    """The protocol of every connection, whatever its port. Logs call it `speaks`: that name is part
    of the format."""
    dialects: dict[str, str] | None = None
    """Dialects by protocol."""
    reveal: bool = False
    """Show secret fields."""
    tables: tuple[str, ...] = TABLES
    """The tables that are kept."""

    def to_record(self) -> dict[str, Any]:
        """Return the settings as the log stores them."""
        found: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        return found

    @classmethod
    def of_record(cls, settings: dict[str, Any]) -> Settings:
        """Return the settings that a log stores."""
        return msgspec.convert(settings, cls, strict=False)

    def agreed(self, before: dict[str, Any]) -> Settings:
        """Check that these are the settings a lake was made with. Raises LakeError."""
        made = Settings.of_record(before)
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(made, name)
            if mine != theirs:
                raise LakeError(
                    f"the lake was created with {name} = {_text(theirs)}, not {_text(mine)}; "
                    f"use the same value or create another lake"
                )
        return made


def tables_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the requested tables and those they need, in a fixed order. Raises LakeError."""
    wanted = set(DECODED)
    for name in names:
        if name not in TABLES:
            raise LakeError(f"unknown table {name!r}; expected one of {', '.join(TABLES)}")
        wanted.update((name, *_NEEDS.get(name, ())))
    return tuple(name for name in TABLES if name in wanted)


def written_tables(tables: Iterable[str]) -> frozenset[str]:
    """Return the tables that tasks write for these: themselves and intermediate tables."""
    wanted = set(tables)
    return frozenset(
        wanted | {name for name, users in _INTERMEDIATE.items() if not wanted.isdisjoint(users)}
    )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "default" if value is None else str(value)


# Watermarks: up to which capture time each source is complete, and which sources to wait for.


LATEST: Final = 16
"""Number of latest message times whose median is the watermark."""
_SILENT_NS: Final = 24 * 3600 * 1_000_000_000
"""A source this far behind the others has ended; nothing waits for it."""


class Latest:
    """The latest message times that a task has seen."""

    def __init__(self) -> None:
        self._times: NDArray[np.int64] = np.empty(0, np.int64)

    def add(self, messages: pa.RecordBatch) -> None:
        """Add messages."""
        times = np.concatenate([self._times, messages.column("ts_ns").to_numpy()])
        if len(times) > LATEST:
            times = np.partition(times, len(times) - LATEST)[-LATEST:]
        self._times = times

    @property
    def times(self) -> list[int]:
        """At most `LATEST` times, unordered."""
        found: list[int] = self._times.tolist()
        return found


class Reached(msgspec.Struct, frozen=True):
    """The progress of a source."""

    ts_ns: int
    """Its watermark."""
    mtimes_ns: Sequence[int]
    """Modification times of its files, in reading order."""


def watermark_ns(times: Iterable[int], mtime_ns: int) -> int | None:
    """Return the watermark of a source from its latest times.

    Times after the modification time of its last file are wrong. None if there are no others.
    """
    good = sorted(ts_ns for ts_ns in times if ts_ns <= mtime_ns)[-LATEST:]
    return good[(len(good) - 1) // 2] if good else None


def complete_ns(sources: Mapping[str, Reached]) -> int:
    """Return the lowest watermark of all sources that have not ended; 0 without any."""
    return min((each.ts_ns for each in _active(sources.values())), default=0)


def expected_ns(sources: Mapping[str, Reached], lateness_ns: int) -> int:
    """Return the same without sources whose next file is overdue.

    It is overdue when it takes `lateness_ns` longer than the longest interval between two files of
    the source so far. A source with a single file is never overdue.
    """
    newest = max((each.mtimes_ns[-1] for each in sources.values() if each.mtimes_ns), default=0)
    due = [
        each
        for each in _active(sources.values())
        if newest <= _next_ns(each.mtimes_ns, newest) + lateness_ns
    ]
    return min((each.ts_ns for each in due), default=0)


def _active(sources: Iterable[Reached]) -> list[Reached]:
    every = list(sources)
    newest = max((each.ts_ns for each in every), default=0)
    return [each for each in every if each.ts_ns > newest - _SILENT_NS]


def _next_ns(mtimes_ns: Sequence[int], unknown_ns: int) -> int:
    """Return when the next file is due, after the longest interval so far."""
    if len(mtimes_ns) < 2:
        return unknown_ns
    return mtimes_ns[-1] + max(later - earlier for earlier, later in pairwise(mtimes_ns))

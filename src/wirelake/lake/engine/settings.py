"""Settings of a lake: how captures are read and which tables are kept. They never change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from wirelake.records.rollups import INPUTS, MINUTE_NS
from wirelake.tables.paths import LakeError
from wirelake.wire.errors import unknown

__all__ = [
    "DAY_NS",
    "DECODED",
    "QUIET_NS",
    "TABLES",
    "Settings",
    "tables_for",
    "tables_of",
    "written_tables",
]


DAY_NS: Final = 24 * 60 * MINUTE_NS
"""How long a lake waits, in time of the captures: a source this far behind the others has ended,
and a notification without an event for this long is settled."""
QUIET_NS: Final = 10 * MINUTE_NS
"""An acknowledged notification is settled after this long without an event."""

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
    "_tunnel_events": ("tunnels", "calls", "deliveries"),
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
    """Show secret fields and the content of sign-ons."""
    tables: tuple[str, ...] = TABLES
    """The tables that are kept."""
    source_pattern: str | None = None
    """Regular expression for names of captures; see `wirelake.tables.names.Names`."""

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
            raise LakeError(unknown("table", name, TABLES))
        wanted.update((name, *_NEEDS.get(name, ())))
    return tuple(name for name in TABLES if name in wanted)


def tables_for(names: Iterable[str]) -> tuple[str, ...]:
    """Return the tables without which some cannot be made, and those that say what is missing."""
    wanted = {"faults", "coverage"}
    for name in names:
        wanted.update((name, *_NEEDS.get(name, ()), *INPUTS.get(name, ())))
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

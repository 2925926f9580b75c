"""What a lake is made with, and never changes: how captures are read, and which tables are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from wirelake.tables.errors import LakeError

__all__ = ["DECODED", "TABLES", "Settings", "tables_of", "written_tables"]

DECODED: Final = ("messages", "faults", "coverage")
"""Tables that come from decoding alone; every lake has them."""
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
"""The other tables, and what each is made of besides."""
_MADE_INTO: Final[dict[str, tuple[str, ...]]] = {
    "_connections": ("connections",),
    "_sign_ons": ("connections",),
    "_delivery_parts": ("deliveries",),
    "_delivery_faults": ("deliveries",),
    "_publications": ("deliveries",),
    "_tunnel_events": ("tunnels", "calls"),
}
"""What crosses connections, and the tables that are made of it."""
TABLES: Final = (*DECODED, *_NEEDS)
"""All tables of a lake."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How captures become tables. The first run decides; keys alone may change later."""

    ports: dict[int, str] | None = None
    """Protocols by the server's port; None for the usual ports."""
    force_protocol: str | None = msgspec.field(default=None, name="speaks")
    """The protocol of every connection, whatever its port. Logs call it `speaks`: that name is part
    of the format."""
    dialects: dict[str, str] | None = None
    """Dialects by protocol."""
    reveal: bool = False
    """Whether secret fields are shown."""
    tables: tuple[str, ...] = TABLES
    """The tables that are kept."""

    def to_record(self) -> dict[str, Any]:
        """As the log keeps it."""
        found: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        return found

    @classmethod
    def of_record(cls, settings: dict[str, Any]) -> Settings:
        """As the log has it."""
        return msgspec.convert(settings, cls, strict=False)

    def agreed(self, before: dict[str, Any]) -> Settings:
        """The settings of a lake that was made with those `before`. Raises LakeError."""
        made = Settings.of_record(before)
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(made, name)
            if mine != theirs:
                raise LakeError(
                    f"this lake was made with {name} = {_words(theirs)}, not {_words(mine)}; "
                    f"use the same, or make another lake"
                )
        return made


def tables_of(names: Iterable[str]) -> tuple[str, ...]:
    """The tables that are kept when these are asked for, in a fixed order. Raises LakeError."""
    wanted = set(DECODED)
    for name in names:
        if name not in TABLES:
            raise LakeError(f"no table {name!r}; there are {', '.join(TABLES)}")
        wanted.update((name, *_NEEDS.get(name, ())))
    return tuple(name for name in TABLES if name in wanted)


def written_tables(tables: Iterable[str]) -> frozenset[str]:
    """What tasks write for these tables: they themselves, and what others are made of."""
    wanted = set(tables)
    return frozenset(
        wanted | {name for name, users in _MADE_INTO.items() if not wanted.isdisjoint(users)}
    )


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "the usual" if value is None else str(value)

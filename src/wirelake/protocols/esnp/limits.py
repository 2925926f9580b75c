"""Limits and options of ESNP connections; each default with its reason.

Section numbers refer to `docs/decisions/esnp.md`. Options that cannot work raise `SessionError`
with code `bad_config` when they are made.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

from ..sansio import SessionError
from .layout import Version
from .message import Revision

__all__ = ["UNAUTHENTICATED_LIMIT", "SessionOptions"]


UNAUTHENTICATED_LIMIT: Final = 4096
"""Bytes of a message before a peer has proved who it is: the original's figure. A server sets
`session.message_limit` to it, and back when it knows the peer."""

_Dialect = Literal["seed", "go"]


def _bad(name: str, why: str) -> SessionError:
    return SessionError("bad_config", f"{name}: {why}")


def _one_of(name: str, value: object, words: Any) -> None:
    if value not in get_args(words):
        raise _bad(name, f"wanted one of {', '.join(get_args(words))}")


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one end of a connection behaves. Both ends may ask and answer."""

    revision: Revision = "lines"
    """Which document is followed: row order, flag 7 and the URL form; the bytes are the same."""
    dialect: _Dialect = "seed"
    """How Map and List count their items; `go` for the original's Go programs."""
    strict: bool = False
    """Refuse what the rules merely warn of: row order, repeated rows, odd sequence numbers."""
    message_limit: int = 10 << 20
    """Bytes of one message, heads and END included, both ways: the original's constant."""
    call_timeout_s: float = 5.0
    """How long a call waits unless it says otherwise: the original's 5000 ms."""
    max_calls: int = 1024
    """Calls of ours under way; more would wait longer than their timeout anyway."""
    max_requests: int = 256
    """Requests of the peer that are not answered yet, or not whole; further ones are refused, not
    dropped."""
    max_request_bytes: int = 32 << 20
    """Bytes of these requests: three of the largest size. One request is always taken."""
    max_parts: int = 1024
    """Messages of one sequence held until they are in order, or until a request is whole."""
    max_part_bytes: int = 32 << 20
    """Bytes of all sequences held: three messages of the largest size."""
    part_timeout_s: float = 30.0
    """How long the next part of a request may take: six calls of the default length."""
    trace_name: str | None = None
    """Who we are in a trace report; None sends none."""
    require_major: int | None = None
    """Answer ERROR to what has a VERSION with another major number, or none (section 8)."""
    version: Version | None = None
    """The VERSION row of what we ask and announce; the originals never send one."""
    legacy_rows: bool = False
    """Read the cancelled rows TRACE, TRACE_RESP and MESSAGE_KIND as the flags that took their
    place; in revision frames alone (section 6)."""
    routes: bool = False
    """Hand every message on as it came (`Passed`) and match nothing: for routers (`routing.py`)."""
    idle_limit_s: float | None = None
    """Close after this time without data; off by default, because ESNP has no heartbeat."""

    def __post_init__(self) -> None:
        _one_of("revision", self.revision, Revision)
        _one_of("dialect", self.dialect, _Dialect)
        for name in (
            "message_limit",
            "call_timeout_s",
            "max_calls",
            "max_requests",
            "max_request_bytes",
            "max_parts",
            "max_part_bytes",
            "part_timeout_s",
        ):
            if not getattr(self, name) > 0:
                raise _bad(name, "wanted more than 0")
        if self.idle_limit_s is not None and not self.idle_limit_s > 0:
            raise _bad("idle_limit_s", "wanted more than 0, or None for never")
        if self.require_major is not None and not 0 <= self.require_major <= 0xFF:
            raise _bad("require_major", "wanted 0 to 255")
        if self.legacy_rows and self.revision != "frames":
            raise _bad("legacy_rows", "wanted revision frames with it")

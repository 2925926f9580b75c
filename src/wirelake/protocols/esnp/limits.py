"""Limits and options of ESNP connections; each default with its reason.

Section numbers refer to `docs/decisions/esnp.md`. Invalid options raise `SessionError` with code
`bad_config` when they are created.
"""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from ..sansio import SessionError
from .layout import Dialect, Version
from .message import Revision

__all__ = ["UNAUTHENTICATED_LIMIT", "SessionOptions"]


UNAUTHENTICATED_LIMIT: Final = 4096
"""Bytes of a message before a peer is authenticated: the original's value (section 5). A server
sets `session.message_limit` to it, and resets it after authentication."""


def _bad(name: str, why: str) -> SessionError:
    return SessionError("bad_config", f"{name}: {why}")


def _one_of(name: str, value: object, words: Any) -> None:
    if value not in get_args(words):
        raise _bad(name, f"expected one of {', '.join(get_args(words))}")


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one end of a connection. Both ends may send requests."""

    revision: Revision = "lines"
    """The revision of the document: row order, flag 7 and the URL form; the bytes are the same."""
    dialect: Dialect = "seed"
    """How Map and List count their items; `go` for the original's Go programs."""
    strict: bool = False
    """Refuse messages that otherwise only cause warnings: row order, repeated rows, sequence
    numbers out of range."""
    message_limit: int = 10 << 20
    """Bytes of one message, heads and END included, both ways: the original's constant."""
    call_timeout_s: float = 5.0
    """Default timeout of a call: the original's 5000 ms."""
    max_calls: int = 1024
    """Own calls in flight; more would exceed their timeout anyway."""
    max_requests: int = 256
    """Requests of the peer that are unanswered or incomplete; further ones are refused, not
    dropped."""
    max_request_bytes: int = 32 << 20
    """Bytes of these requests: three of the largest size. One request is always accepted."""
    max_parts: int = 1024
    """Messages of one sequence kept until they are in order, or until a request is complete."""
    max_part_bytes: int = 32 << 20
    """Bytes of all sequences kept: three messages of the largest size."""
    part_timeout_s: float = 30.0
    """How long the next part of a request may take: six calls of the default length."""
    trace_name: str | None = None
    """Our name in trace reports; None sends none."""
    require_major: int | None = None
    """Answer ERROR to messages without a VERSION row of this major number."""
    version: Version | None = None
    """The VERSION row of our calls and events; the originals never send one."""
    legacy_rows: bool = False
    """Read the cancelled rows TRACE, TRACE_RESP and MESSAGE_KIND as the flags that replaced them;
    in revision frames only (section 6)."""
    routes: bool = False
    """Emit every message unchanged (`Forwarded`) and match nothing: for routers (`routing.py`)."""
    idle_limit_s: float | None = None
    """Close after this time without data; off by default, because ESNP has no heartbeat."""

    def __post_init__(self) -> None:
        _one_of("revision", self.revision, Revision)
        _one_of("dialect", self.dialect, Dialect)
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
                raise _bad(name, "expected more than 0")
        if self.idle_limit_s is not None and not self.idle_limit_s > 0:
            raise _bad("idle_limit_s", "expected more than 0, or None to disable it")
        if self.require_major is not None and not 0 <= self.require_major <= 0xFF:
            raise _bad("require_major", "expected 0 to 255")
        if self.legacy_rows and self.revision != "frames":
            raise _bad("legacy_rows", "requires revision frames")

"""Limits and options of ESNP connections; each default with its reason."""

from __future__ import annotations

from typing import Literal

import msgspec

from .message import Revision

__all__ = ["UNAUTHENTICATED_LIMIT", "SessionOptions"]

UNAUTHENTICATED_LIMIT = 4096
"""Bytes of a message before a peer has proved who it is: the original's figure."""


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one end of a connection behaves. Both ends may ask and answer."""

    revision: Revision = "lines"
    """Which document is followed: row order, flag 7 and the URL form; the bytes are the same."""
    dialect: Literal["seed", "go"] = "seed"
    """How Map and List count their items; `go` for the original's Go programs."""
    strict: bool = False
    """Refuse what the rules merely warn of: row order, repeated rows, odd sequence numbers."""
    message_limit: int = 10 << 20
    """Bytes of one message, heads and END included: the original's constant."""
    call_timeout_s: float = 5.0
    """How long a call waits unless it says otherwise: the original's 5000 ms."""
    max_calls: int = 1024
    """Calls of ours under way; more would wait longer than their timeout anyway."""
    max_requests: int = 256
    """Requests of the peer that are not answered yet; further ones are refused, not dropped."""
    max_parts: int = 1024
    """Messages of one sequence held until they are in order, or until a request is whole."""
    max_part_bytes: int = 32 << 20
    """Bytes of all sequences held: three messages of the largest size."""
    trace_name: str | None = None
    """Who we are in a trace report; None sends none."""
    require_major: int | None = None
    """Answer ERROR to requests whose VERSION has another major number, or none."""
    idle_limit_s: float | None = None
    """Close when nothing is heard for so long; the protocol has no heartbeat, so not by default."""

"""Limits and options of magline connections; each default with its reason.

Rule and section numbers refer to `docs/decisions/magline.md`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from wirelake.wire.errors import EncodeError

from .layout import FRAME_LIMIT, HANDSHAKE_LIMIT
from .records import DIRECTION_BYTES_LIMIT, LIFETIME_LIMIT_S, SEQ_LIMIT

__all__ = [
    "HALF_OPEN_PER_ADDRESS",
    "MAX_PINGS",
    "RETRIED",
    "ClientOptions",
    "ConnectionOptions",
    "ResumptionOptions",
    "ServerOptions",
]

HALF_OPEN_PER_ADDRESS = 32
"""Connections from one address that have not finished their handshake (section 4.9). All devices of
an office behind one address reconnect together after an outage; more than that is a flood. Sessions
do not know addresses: the listener counts `ServerSession.half_open`."""
MAX_PINGS = 16
"""PINs of a client without their PON; a client with default options has one."""
RETRIED = 8
"""Binders of reSYNs that a resumption state remembers, to recognise copies (section 6)."""

_LARGEST_FRAME = (1 << 32) - 1
_SMALLEST_BYTES = 1 << 20


def _positive(options: msgspec.Struct, *names: str) -> None:
    for name in names:
        if not getattr(options, name) > 0:
            raise EncodeError("bad_config", name, detail="expected more than 0")


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of both ends."""

    control_auth: Literal["prefer", "require"] = "prefer"
    """`prefer` accepts the document's bare PIN, PON and FIN; `require` is for peers that are known
    to send tags (rule 18)."""
    max_frame: int = FRAME_LIMIT
    """Message Length, read and written: 1 MiB is ample for a request and bounds the buffer of a
    connection. Before the end of a handshake it is 512."""
    max_requests: int = 256
    """Requests in flight: enough to fill a link with high latency, few enough to be answered."""
    handshake_deadline_s: float = 10.0
    """SYN and ACK are one round trip; a slower peer occupies a connection slot (section 4.9)."""
    fin_wait_s: float = 10.0
    """How long to wait for the FIN that follows an ERR of the peer (S2-2)."""
    rekey_seq: int = SEQ_LIMIT
    """No frame has this Seq; lower it to change keys more often (section 4.9)."""
    rekey_bytes: int = DIRECTION_BYTES_LIMIT
    """Bytes of one direction under the same keys (section 4.9)."""
    rekey_after_s: float = LIFETIME_LIMIT_S
    """Age of keys (section 4.9). An authentication expires after 24 hours in any case (section
    6)."""

    def __post_init__(self) -> None:
        _positive(self, "max_requests", "handshake_deadline_s", "fin_wait_s", "rekey_after_s")
        if self.control_auth not in {"prefer", "require"}:
            raise EncodeError("bad_config", "control_auth", detail="expected prefer or require")
        if not HANDSHAKE_LIMIT <= self.max_frame <= _LARGEST_FRAME:
            raise EncodeError("bad_config", "max_frame", detail="expected 512 to 2^32 - 1")
        if not 16 <= self.rekey_seq <= SEQ_LIMIT:
            raise EncodeError("bad_config", "rekey_seq", detail="expected 16 to 0xFFFF0000")
        if not self.max_frame + _SMALLEST_BYTES <= self.rekey_bytes <= DIRECTION_BYTES_LIMIT:
            detail = "expected at least max_frame + 1 MiB and at most 2^38"
            raise EncodeError("bad_config", "rekey_bytes", detail=detail)
        if self.rekey_after_s > LIFETIME_LIMIT_S:
            raise EncodeError("bad_config", "rekey_after_s", detail="expected at most 24 hours")


class ServerOptions(ConnectionOptions, frozen=True, kw_only=True):
    """Options of a server."""

    idle_limit_s: float = 90.0
    """Three heartbeats of a default client: two may be lost (rule 16)."""
    order_cmds: tuple[int, ...] = ()
    """Business CMDs that a new connection must complete first, in this order: how clients
    authenticate (rule 20)."""
    order_deadline_s: float = 30.0
    """Deadline for `order_cmds`, because a connection that only pings would keep its slot. A second
    factor that a person enters belongs before the connection."""
    order_max_frame: int = FRAME_LIMIT
    """Message Length that is read before `order_cmds` are done; lower it where these commands are
    small, so that unauthenticated peers cannot make buffers grow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(self, "idle_limit_s", "order_deadline_s")
        if not HANDSHAKE_LIMIT <= self.order_max_frame <= _LARGEST_FRAME:
            raise EncodeError("bad_config", "order_max_frame", detail="expected 512 to 2^32 - 1")
        if any(not 0 < cmd <= 0xFFFF_FFFF for cmd in self.order_cmds):
            detail = "expected Business CMDs from 1 to 2^32 - 1"
            raise EncodeError("bad_config", "order_cmds", detail=detail)


class ClientOptions(ConnectionOptions, frozen=True, kw_only=True):
    """Options of a client."""

    heartbeat_s: float = 30.0
    """A third of the server's idle limit (rule 16)."""
    pon_timeout_s: float = 10.0
    """A PON that takes longer will not come: close and resume (rule 16)."""
    request_timeout_s: float = 30.0
    """A later reply is of no use to most callers; each request may set its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _positive(self, "heartbeat_s", "pon_timeout_s", "request_timeout_s")


class ResumptionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a server's resumption states (section 4.10)."""

    ttl_s: float = 600.0
    """Time to live after a disconnect: a tunnel, a change of networks, a restart of a phone."""
    lifetime_s: float = LIFETIME_LIMIT_S
    """From the first authentication; resuming does not extend it (section 6)."""
    max_sessions: int = 100_000
    """A state is about a kilobyte while its queue is empty; the least recently used go first."""
    max_queued: int = 64
    """Pushes queued for a disconnected client; the oldest are dropped and counted (rule 21)."""
    max_queued_bytes: int = FRAME_LIMIT
    """Of those pushes together: as much as one largest frame."""

    def __post_init__(self) -> None:
        _positive(self, "ttl_s", "lifetime_s", "max_sessions", "max_queued", "max_queued_bytes")
        if self.lifetime_s > LIFETIME_LIMIT_S:
            raise EncodeError("bad_config", "lifetime_s", detail="expected at most 24 hours")

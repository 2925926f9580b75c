"""Limits and options of tny connections and of relay links; each default with its reason.

Section numbers refer to the tny rules (`docs/decisions/tny.md`).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from ..sansio import SessionError
from .layout import Dialect
from .transform import TransformConfig

__all__ = [
    "GATEWAY_TUNNELS",
    "LAST_NUMBER",
    "PAYLOAD_LIMITS",
    "RECONNECT_DELAYS_S",
    "SMALLEST_PACKET_LIMIT",
    "ClientOptions",
    "GatewayOptions",
    "LinkOptions",
    "RegistryLimits",
    "RelayServerOptions",
    "ServerOptions",
    "SessionDialect",
    "SessionOptions",
]

SessionDialect = Literal[Dialect, "auto"]
"""`auto` reads ticks of either form, and writes the form of the peer's last tick (§8.1)."""

PAYLOAD_LIMITS: Final[dict[str, int]] = {"seed": 1 << 20, "upstream": 0xFFFF}
"""Bytes of payload by default: the original's receiver refuses more than 65535. The document has no
limit; 1 MiB is ample for a game message, and bounds the buffer of a connection (§8.6)."""

LAST_NUMBER: Final = (1 << 31) - 2
"""The last packet number that is written: the original wraps after the next one, and then refuses
every packet (§3)."""

RECONNECT_DELAYS_S: Final = (1, 2, 2, 3, 3, 3, 5, 5, 5, 5, 10, 10, 10, 10, 10, 15)
"""How long a gateway waits before each attempt to reconnect; after the last, the schedule repeats
(§6)."""

SMALLEST_PACKET_LIMIT: Final = 256
"""Every packet that a link sends by itself fits."""

GATEWAY_TUNNELS: Final = 65_536
"""Tunnels of one gateway over all its links, including those without a link: as many users as one
address has ports, at one service each."""

_NO_TRANSFORM: Final = TransformConfig()


def _refuse(name: str, detail: str) -> SessionError:
    return SessionError("bad_config", f"{name}: {detail}")


def _check(options: msgspec.Struct, positive: tuple[str, ...], counts: tuple[str, ...]) -> None:
    dialect = getattr(options, "dialect", "")
    if dialect not in get_args(SessionDialect):
        raise _refuse("dialect", f"expected one of {', '.join(get_args(SessionDialect))}")
    for name in positive:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise _refuse(name, "expected more than 0 seconds, or None to disable it")
    for name in counts:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise _refuse(name, "expected 1 or more")


# -- message connections ---------------------------------------------------------------------


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of both ends of a message connection."""

    dialect: SessionDialect = "seed"
    strict: bool = True
    """False accepts what the original accepts: bytes after the Message are ignored, a packet of
    type 3 is a message, a response may have another protocol number than its request. A message of
    mode 3, which the original delivers without a mode, is dropped and reported (§7)."""
    max_payload: int | None = None
    """Bytes of payload, read or written; None for the dialect's own limit, `PAYLOAD_LIMITS`."""
    reading: TransformConfig = _NO_TRANSFORM
    """Keys, and options that received packets must have. An option that is not required is still
    applied where a packet sets its bit (§4)."""
    writing: TransformConfig = _NO_TRANSFORM
    """Keys, and options of every packet sent. Off by default, as in the original."""
    request_timeout_s: float = 10.0
    """How long a request waits for its response: the original's value (§6)."""
    max_in_flight: int = 1024
    """Own requests that wait for a response: a hundred a second for the whole timeout."""
    max_pending: int = 1024
    """The peer's requests that wait for our response: the default `max_in_flight` of a peer."""
    ping_interval_s: float | None = None
    """Interval of pings; None sends none, like the original. Set it where a firewall drops idle
    connections."""
    idle_limit_s: float | None = None
    """How long the peer may be silent; None: any time."""
    max_number: int = LAST_NUMBER
    """The number of the last packet; the connection closes after it."""
    numbers_low: int = 1_000
    """How many numbers are left when `NumbersLow` is emitted: time to reconnect without losing
    calls."""

    def __post_init__(self) -> None:
        _check(
            self,
            ("request_timeout_s", "ping_interval_s", "idle_limit_s"),
            ("max_payload", "max_in_flight", "max_pending", "max_number"),
        )
        if self.max_number > LAST_NUMBER:
            raise _refuse("max_number", f"expected {LAST_NUMBER} at most")


class ClientOptions(SessionOptions, frozen=True, kw_only=True):
    """Options of a client. No idle limit: a server without requests and pushes is silent."""


class ServerOptions(SessionOptions, frozen=True, kw_only=True):
    """Options of a server."""

    idle_limit_s: float | None = 180.0
    """The original's read timeout, where it is configured (§6)."""
    tell_errors: bool = True
    """Send a push of protocol 0 with code 153 before closing on invalid bytes. False closes without
    a reply, as the original's decoder does. A replayed or skipped number is never answered, because
    its sender may not be the client (§7)."""


# -- relay links -----------------------------------------------------------------------------


class LinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of both ends of a relay link."""

    dialect: SessionDialect = "seed"
    """`auto` reads like seed, and also accepts the original's swapped ids and its switching by
    TUNNEL_CONNECT (§8.7, §8.8)."""
    max_packet: int = 1 << 21
    """PacketLength, read or written: twice the largest payload of either dialect. The original has
    no limit."""
    max_tunnels: int = 16_384
    """Tunnels on one link: more user connections than one gateway process usually has."""
    open_timeout_s: float = 10.0
    """Deadline for LINK_OPEN, or for its answer: the idle limit of an open link."""
    close_timeout_s: float = 5.0
    """How long to wait for the answer to our LINK_CLOSE: one heartbeat."""
    idle_limit_s: float | None = None
    """Longest time without PING and PONG; other packets do not count (§6)."""

    def __post_init__(self) -> None:
        heartbeat = ("heartbeat_s",) if hasattr(self, "heartbeat_s") else ()
        positive = ("open_timeout_s", "close_timeout_s", "idle_limit_s", *heartbeat)
        _check(self, positive, ("max_tunnels",))
        if self.max_packet < SMALLEST_PACKET_LIMIT:
            raise _refuse("max_packet", f"expected {SMALLEST_PACKET_LIMIT} or more")


class GatewayOptions(LinkOptions, frozen=True, kw_only=True):
    """Options of a gateway, the relay client."""

    heartbeat_s: float = 5.0
    """The original's interval between pings (§6)."""
    idle_limit_s: float | None = 10.0
    """The original's limit: two pings without an answer (§6)."""


class RelayServerOptions(LinkOptions, frozen=True, kw_only=True):
    """Options of a game server, the relay server. No idle limit, as in the original: the gateway
    detects a dead link."""


class RegistryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits over all links of a server; each default with its reason."""

    max_links: int = 1_024
    """A few links from each of some hundred gateways."""
    max_tunnels: int = 262_144
    """Tunnels, with a link or without: sixteen full links, about 100 MB."""
    keep_s: float = 60.0
    """How long a tunnel without a link is kept. Ten attempts of the reconnect schedule take less
    than a minute, so a gateway that is running has reconnected by then."""

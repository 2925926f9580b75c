"""Limits and options of tny connections and of relay links; each default with its reason.

Section numbers refer to the tny rules (`docs/decisions/tny.md`).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from ..sansio import SessionError
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

SessionDialect = Literal["seed", "upstream", "auto"]
"""`auto` reads ticks of either form, and writes as the peer was seen to (§8.1)."""

PAYLOAD_LIMITS: Final[dict[str, int]] = {"seed": 1 << 20, "upstream": 0xFFFF}
"""Bytes of payload by default: the original's receiver refuses more than 65535; the document has
no limit, and 1 MiB is what a client waits for without a second thought (§8.6)."""

LAST_NUMBER: Final = (1 << 31) - 2
"""The last packet number that is written: the original wraps after the next one, and then refuses
every packet (§3)."""

RECONNECT_DELAYS_S: Final = (1, 2, 2, 3, 3, 3, 5, 5, 5, 5, 10, 10, 10, 10, 10, 15)
"""How long a gateway waits before it dials again, attempt by attempt; after the last, from the
start (§5)."""

SMALLEST_PACKET_LIMIT: Final = 256
"""Every packet that a link sends by itself fits."""

GATEWAY_TUNNELS: Final = 65_536
"""Tunnels of one gateway over all its links, waiting ones too: as many users as one address has
ports, at one service each."""

_NO_TRANSFORM: Final = TransformConfig()


def _refuse(name: str, detail: str) -> SessionError:
    return SessionError("bad_config", f"{name}: {detail}")


def _check(options: msgspec.Struct, positive: tuple[str, ...], counts: tuple[str, ...]) -> None:
    dialect = getattr(options, "dialect", "")
    if dialect not in get_args(SessionDialect):
        raise _refuse("dialect", f"wanted one of {', '.join(get_args(SessionDialect))}")
    for name in positive:
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise _refuse(name, "wanted seconds above 0, or None for never")
    for name in counts:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise _refuse(name, "wanted 1 or more")


# -- message connections ---------------------------------------------------------------------


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What both ends of a message connection can set."""

    dialect: SessionDialect = "seed"
    strict: bool = True
    """False reads what the original reads: bytes after the Message are ignored, a packet of type 3
    is a message, a response may have another protocol number than its request. A message of mode 3,
    which the original delivers without a mode, is dropped with a fault (§7)."""
    max_payload: int | None = None
    """Bytes of payload, read or written; None for the dialect's own limit, `PAYLOAD_LIMITS`."""
    reading: TransformConfig = _NO_TRANSFORM
    """Keys, and what packets must have; without an option its bit is honoured all the same (§4)."""
    writing: TransformConfig = _NO_TRANSFORM
    """Keys, and what is done to every packet. Off by default, as in the original."""
    request_timeout_s: float = 10.0
    """The original waits that long for a response (§6)."""
    max_in_flight: int = 1024
    """Own requests that wait for a response: a hundred a second for the whole timeout."""
    max_pending: int = 1024
    """The peer's requests that wait for our response; as many as a peer of ours sends."""
    ping_interval_s: float | None = None
    """Nobody pings by itself in the original; set it where a firewall forgets quiet connections."""
    idle_limit_s: float | None = None
    """How long the peer may say nothing at all."""
    max_number: int = LAST_NUMBER
    """The number of the last packet; the connection closes after it."""
    numbers_low: int = 1_000
    """How many numbers are left when `NumbersLow` is said: time to reconnect without losing calls.
    """

    def __post_init__(self) -> None:
        _check(
            self,
            ("request_timeout_s", "ping_interval_s", "idle_limit_s"),
            ("max_payload", "max_in_flight", "max_pending", "max_number"),
        )
        if self.max_number > LAST_NUMBER:
            raise _refuse("max_number", f"wanted {LAST_NUMBER} at most")


class ClientOptions(SessionOptions, frozen=True, kw_only=True):
    """How a client treats its connection. No idle limit: a server that is not asked is silent."""


class ServerOptions(SessionOptions, frozen=True, kw_only=True):
    """How a server treats its connections."""

    idle_limit_s: float | None = 180.0
    """The original's read timeout, where it is configured (§6)."""
    tell_errors: bool = True
    """Sends a push of protocol 0 with code 153 before it closes on bytes that break a rule. False
    closes without a word, as the original's decoder does. A number that was replayed or skipped is
    never answered: who sent it may not be the client (§3)."""


# -- relay links -----------------------------------------------------------------------------


class LinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What both ends of a relay link can set."""

    dialect: SessionDialect = "seed"
    """`auto` reads as seed does, and also takes the original's swapped ids and its switching by
    TUNNEL_CONNECT (§8.7, §8.8)."""
    max_packet: int = 1 << 21
    """PacketLength, read or written: room for the largest payload of either dialect, twice. The
    original has no limit."""
    max_tunnels: int = 16_384
    """Tunnels on one link: what one gateway process holds in user connections, and some."""
    open_timeout_s: float = 10.0
    """LINK_OPEN, or its answer, must come by then; as long as an open link may be silent."""
    close_timeout_s: float = 5.0
    """How long the answer to our LINK_CLOSE is waited for; one heartbeat."""
    idle_limit_s: float | None = None
    """How long neither PING nor PONG may come; other packets do not count (§5)."""

    def __post_init__(self) -> None:
        heartbeat = ("heartbeat_s",) if hasattr(self, "heartbeat_s") else ()
        positive = ("open_timeout_s", "close_timeout_s", "idle_limit_s", *heartbeat)
        _check(self, positive, ("max_tunnels",))
        if self.max_packet < SMALLEST_PACKET_LIMIT:
            raise _refuse("max_packet", f"wanted {SMALLEST_PACKET_LIMIT} or more")


class GatewayOptions(LinkOptions, frozen=True, kw_only=True):
    """How a gateway, the relay client, treats its links."""

    heartbeat_s: float = 5.0
    """The original's interval between pings (§5)."""
    idle_limit_s: float | None = 10.0
    """The original's limit: two pings without an answer (§5)."""


class RelayServerOptions(LinkOptions, frozen=True, kw_only=True):
    """How a game server, the relay server, treats its links. No idle limit, as in the original:
    the gateway is the one that watches."""


class RegistryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits over all links of a server; each default with its reason."""

    max_links: int = 1_024
    """A few links from each of some hundred gateways."""
    max_tunnels: int = 262_144
    """Tunnels on all links and on none: sixteen full links, 100 MB or so."""
    keep_s: float = 60.0
    """How long a tunnel without a link is kept: a gateway that lives has dialled again by then, ten
    attempts of its reconnect schedule being under a minute."""

"""Relay links: their events, and what both ends share (§5, §6).

    gateway                       game server
    LINK_OPEN(service, instance, key)  →          the first packet on a new connection
                              ←  LINK_OPENED(result)
    LINK_PING every 5 s           →
                              ←  LINK_PONG        dropped when neither comes for 10 s
    TUNNEL_…                      ⇄
    LINK_CLOSE                    ⇄  LINK_CLOSE

LINK_OPEN authenticates nobody: any peer of the listener may claim any service and instance. Access
control (loopback, an allow-list, mutual TLS) is up to the shell.

There is no error packet: a violation closes the link. The two ends, with the tunnels of each, are
in `relay_gateway.py` and `relay_server.py`. A packet on one link can affect another: a tunnel that
is switched is announced on its new link. After each call a shell fetches the events and bytes of
every link that is `dirty`.

Sections refer to `docs/decisions/tny.md`.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

from wirelake.wire.errors import DecodeError, EncodeError

from ..sansio import CLOSED, Event, Role, Session, SessionError, Side
from .layout import (
    Arguments,
    LinkClose,
    LinkOpen,
    LinkOpened,
    LinkPing,
    LinkPong,
    Message,
    RelayPacket,
    RelayType,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelRelay,
    TunnelSwitchLink,
)
from .limits import LinkOptions
from .protocol import RELAY

__all__ = [
    "LinkPinged",
    "LinkPonged",
    "LinkUp",
    "RelayLink",
    "Relayed",
    "TunnelAnswered",
    "TunnelClosed",
    "TunnelKey",
    "TunnelLost",
    "TunnelOpened",
    "TunnelSwitched",
    "link_id",
    "receives",
]


# -- events ----------------------------------------------------------------------------------------


class TunnelKey(NamedTuple):
    """The identity of a tunnel: the gateway's instance, and its id of the user's connection."""

    instance_id: int
    tunnel_id: int


class LinkUp(Event, frozen=True, gc=False):
    """The link of this gateway is open for tunnels. The event does not contain the link's key."""

    service: str
    instance: int


class LinkPinged(Event, frozen=True, gc=False):
    """A LINK_PING was received and answered."""


class LinkPonged(Event, frozen=True, gc=False):
    """A LINK_PONG was received."""


class TunnelOpened(Event, frozen=True, gc=False):
    """Server: a user's tunnel is open. The address is 4 or 16 bytes, or none."""

    key: TunnelKey
    ip: bytes
    port: int


class TunnelAnswered(Event, frozen=True, gc=False):
    """Gateway: the server has opened the tunnel; messages need not wait for this."""

    key: TunnelKey


class TunnelClosed(Event, frozen=True, gc=False):
    """A tunnel is closed: `disconnected` by the other end, `refused` by the server, `replaced` by a
    new one with its key, or `expired` without a link."""

    key: TunnelKey
    reason: str


class TunnelLost(Event, frozen=True, gc=False):
    """The tunnel's link is lost and no other carries it; it is kept, and may be switched."""

    key: TunnelKey


class TunnelSwitched(Event, frozen=True, gc=False):
    """The tunnel continues over this link."""

    key: TunnelKey


class Relayed(Event, frozen=True, gc=False):
    """A message of a tunnel. `raw` is its bytes as received: relay them to forward it unchanged."""

    key: TunnelKey
    message: Message
    raw: bytes


# -- the link --------------------------------------------------------------------------------------

# The head of a packet (rpk, PacketLength, PackId, Option, Time) and the ids of TUNNEL_RELAY. A
# relayed message is forwarded as the bytes that came: decoding and encoding it again would cost a
# gateway 6 µs per message (benchmarks/results/wire.json) and could change a non-canonical encoding.
_HEAD: Final = struct.Struct("<3sIiBq")
_IDS: Final = struct.Struct("<qq")
_LENGTH_END: Final = 7
"""Offset after PacketLength, which counts the bytes that follow it."""
_LAST_PACK_ID: Final = (1 << 31) - 1

_RECEIVE: Final[dict[type, str]] = {
    LinkOpen: "receive link_open",
    LinkOpened: "receive link_opened",
    LinkClose: "receive link_close",
    LinkPing: "receive link_ping",
    LinkPong: "receive link_pong",
    TunnelConnect: "receive tunnel_connect",
    TunnelConnected: "receive tunnel_connected",
    TunnelDisconnect: "receive tunnel_disconnect",
    TunnelSwitchLink: "receive tunnel_switch_link",
    TunnelRelay: "receive tunnel_relay",
}


def link_id(service: str, instance: int, key: str) -> str:
    """Return the server's name of a link."""
    return f"{service}-{instance}-{key}"


def _ids(key: TunnelKey) -> bytes:
    try:
        return _IDS.pack(*key)
    except struct.error:
        raise SessionError(
            "int_range", f"invalid tunnel id {tuple(key)}; expected two 64-bit integers"
        ) from None


def receives(state: str, *names: str, **other: str) -> dict[str, str]:
    """Return the row of an open state: packets that keep it, and triggers that change it."""
    row = {f"receive {name}": state for name in ("link_ping", "link_pong", *names)}
    row |= {name.replace("_", " ", 1): after for name, after in other.items()}
    return {**row, "receive link_close": CLOSED, "time out": CLOSED, "break a rule": CLOSED}


class RelayLink(Session):
    """The base of both ends of a link."""

    FIRST: ClassVar[str] = "new"
    options: LinkOptions

    def __init__(self, role: Role, options: LinkOptions, *, epoch_ms: int, now: float):
        super().__init__(role, now=now)
        self.options = options
        self.link_id = ""
        """Service, instance and key of LINK_OPEN, joined."""
        self.tunnels: set[TunnelKey] = set()
        """The tunnels that this link carries."""
        self._codec = RELAY.codec(None if options.dialect == "auto" else options.dialect)
        self._epoch_ms = epoch_ms
        self._pack_id = 0
        self._packet_at = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            LinkClose: self._on_close,
            LinkPing: self._on_ping,
            LinkPong: self._on_pong,
        }

    @property
    def active(self) -> bool:
        """Whether tunnels may use the link."""
        return self.state == "open"

    @property
    def full(self) -> bool:
        """Whether the link carries the maximum of tunnels."""
        return len(self.tunnels) >= self.options.max_tunnels

    @property
    def dirty(self) -> bool:
        """Whether there are events or bytes to fetch; a packet on one link may affect another."""
        return bool(self._out or self._events)

    # -- the application's side --------------------------------------------------------------

    def send(self, arguments: Arguments, now: float | None = None) -> None:
        """Send one packet. Tunnels are tracked by `LinkRegistry` and `GatewayTunnels`, not here."""
        self._at(now)
        self._need_open()
        self.put(arguments)

    def ping(self, now: float | None = None) -> None:
        """Send a LINK_PING; a gateway also sends them periodically."""
        self.send(LinkPing(), now)

    def close(self, reason: str = "done", now: float | None = None) -> None:
        """Send LINK_CLOSE and wait for the peer's; tunnels move to other links immediately."""
        self._at(now)
        if self.state == "closing":
            return
        if not self.active:
            self._close(reason, Side.LOCAL)
            return
        self.put(LinkClose())
        self._must("send link_close")
        self._reason = reason
        self.timers.clear()
        self.timers.set("close", self.now + self.options.close_timeout_s)
        self._lose_tunnels()

    def relay(self, key: TunnelKey, message: Message | bytes, now: float | None = None) -> None:
        """Send a message of a tunnel; an encoded Message (bytes) is sent unchanged."""
        self._at(now)
        self._need_open()
        if isinstance(message, bytes):
            self.put_raw(RelayType.TUNNEL_RELAY, _ids(key) + message)
            return
        self.put(TunnelRelay(*key, message))

    # -- for LinkRegistry and GatewayTunnels -------------------------------------------------

    def report(self, event: Event) -> None:
        """Emit an event of a tunnel of this link."""
        self._emit(event)

    def fault(self, code: str, packet: str, detail: str) -> None:
        """Report a packet that was dropped or refused; the link stays open."""
        self._fail(code, field=packet, offset=self._packet_at, detail=detail, fatal=False)

    # -- writing -----------------------------------------------------------------------------

    def _at(self, now: float | None) -> None:
        if now is not None:
            self._advance(now)

    def _need_open(self) -> None:
        if not self.active:
            raise SessionError("bad_state", f"cannot send a packet on a link in state {self.state}")

    def _time_ms(self) -> int:
        return self._epoch_ms + int(self.now * 1000)

    def _next_pack_id(self) -> int:
        return self._pack_id % _LAST_PACK_ID + 1

    def put(self, arguments: Arguments) -> None:
        """Write a packet with the next PackId."""
        packet = RelayPacket(id=self._next_pack_id(), time=self._time_ms(), arguments=arguments)
        try:
            data: bytes = self._codec.encode_relay_packet(packet)
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error
        self._put_bytes(data)

    def put_raw(self, kind: RelayType, arguments: bytes) -> None:
        """Write a packet with encoded arguments."""
        length = _HEAD.size - _LENGTH_END + len(arguments)
        head = _HEAD.pack(b"rpk", length, self._next_pack_id(), kind, self._time_ms())
        self._put_bytes(head + arguments)

    def _put_bytes(self, data: bytes) -> None:
        length = len(data) - _LENGTH_END
        if length > self.options.max_packet:
            raise SessionError(
                "too_large", f"packet of {length} bytes exceeds {self.options.max_packet}"
            )
        self._pack_id = self._next_pack_id()
        self._write(data)

    # -- the peer's side ---------------------------------------------------------------------

    def _decode(self, buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        found: tuple[Any, int] = self._codec.decode_relay_packet(
            buf, pos, end, self.options.max_packet
        )
        return found

    def _handle(self, message: Any, buf: bytes, pos: int, stop: int) -> None:
        arguments = message.arguments
        trigger = _RECEIVE[type(arguments)]
        if trigger not in self._table[self.state]:
            name = trigger.removeprefix("receive ")
            raise DecodeError("bad_state", name, pos, self._unexpected())
        self._packet_at = self._consumed + pos
        if isinstance(arguments, TunnelRelay):
            self._on_relay(arguments, buf[pos + _HEAD.size + _IDS.size : stop])
        else:
            self._handlers[type(arguments)](arguments)

    def _unexpected(self) -> str:
        return "no link is open" if self.state == "new" else f"not allowed in state {self.state}"

    @abstractmethod
    def _on_relay(self, arguments: TunnelRelay, raw: bytes) -> None:
        """Handle a message of a tunnel; `raw` is its bytes."""

    def _on_ping(self, _: LinkPing) -> None:
        self._seen()
        self._emit(LinkPinged())
        self.put(LinkPong())

    def _on_pong(self, _: LinkPong) -> None:
        self._seen()
        self._emit(LinkPonged())

    def _seen(self) -> None:
        # Only PING and PONG count as a sign of life (§6): a link that relays in one direction alone
        # would otherwise hide that the other end no longer answers.
        if self.options.idle_limit_s is not None and self.state != "closing":
            self.timers.set("idle", self.now + self.options.idle_limit_s)

    def _on_close(self, _: LinkClose) -> None:
        if self.state == "closing":
            self._close(self._reason, Side.LOCAL)
            return
        self.put(LinkClose())
        self._close("link_close", Side.REMOTE)

    # -- endings -----------------------------------------------------------------------------

    @abstractmethod
    def _lose_tunnels(self) -> None:
        """Move or keep the tunnels of a link that has closed."""

    def _refuse(self, error: DecodeError) -> None:
        self._fail_with(error)
        self._close(error.code, Side.LOCAL, clean=False)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        if self.state == CLOSED:
            return
        self.timers.clear()
        self._lose_tunnels()
        super()._close(reason, side, clean=clean)

    def _timer(self, name: str) -> None:
        if name == "open":
            self._fail("timeout", detail="the link was not opened in time")
            self._close("timeout", Side.LOCAL, clean=False)
        elif name == "close":
            self._fail("timeout", detail="LINK_CLOSE was not answered")
            self._close("timeout", Side.LOCAL, clean=False)
        elif name == "idle":
            self._fail("idle", detail="neither PING nor PONG received within the idle limit")
            self._close("idle", Side.LOCAL, clean=False)

"""The other end of a relay playbook: packets by hand, written in their arguments.

`relay_book` is a dialogue with one link: `LinkOpen(...)`, `TunnelRelay(...)`. `Gateway` and
`Server` are one end with several links, each played by hand.

Keys of links are throw-away test values.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Playbook
from tests.playbooks.tny.peer import DIALECTS, EPOCH_MS, RELAY_CODECS

from wirelake.protocols.tny.layout import (
    LinkOpen,
    LinkOpened,
    Message,
    RelayPacket,
    TunnelConnect,
    TunnelConnected,
    TunnelRelay,
)
from wirelake.protocols.tny.limits import GatewayOptions, RegistryLimits, RelayServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkUp, RelayLink, TunnelKey, TunnelOpened
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink
from wirelake.protocols.tny.transform import Dialect

GATEWAY = 1001
"""The instance id of the gateway in playbooks."""
OPENING = LinkOpen(service="gate", instance=GATEWAY, key="key-1", service_type=7)
"""A gateway's LINK_OPEN; the key is a throw-away test value."""


def relay_book(
    link: RelayLink, dialect: Dialect = "seed", packets: list[Any] | None = None
) -> Playbook:
    """A dialogue with a link; what its peer sends and reads are arguments of packets."""
    codec = RELAY_CODECS[dialect]
    seen = packets if packets is not None else []
    sent = 0

    def encode(arguments: Any) -> bytes:
        nonlocal sent
        sent += 1
        packet = RelayPacket(id=sent, time=EPOCH_MS, arguments=arguments)
        data: bytes = codec.encode_relay_packet(packet)
        return data

    def decode(buf: bytes, pos: int, end: int) -> tuple[Any, int]:
        packet, stop = codec.decode_relay_packet(buf, pos, end)
        seen.append(packet)
        return packet.arguments, stop

    return Playbook(link, decode=decode, encode=encode)


def relayed(tunnel_id: int, message: Message, instance_id: int = GATEWAY) -> TunnelRelay:
    """A message of a tunnel."""
    return TunnelRelay(instance_id=instance_id, tunnel_id=tunnel_id, message=message)


# -- one link -------------------------------------------------------------------------------

ID = "gate-1001-key-1"

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)


def gateway_link(opening: LinkOpen = OPENING, **options: Any) -> GatewayLink:
    return GatewayLink(
        GatewayTunnels(GATEWAY),
        service="game",
        opening=opening,
        options=GatewayOptions(**options),
        epoch_ms=EPOCH_MS,
    )


def server_link(registry: LinkRegistry | None = None, **options: Any) -> ServerLink:
    return ServerLink(
        registry if registry is not None else LinkRegistry(),
        RelayServerOptions(**options),
        epoch_ms=EPOCH_MS,
    )


def open_gateway(dialect: Dialect = "seed", **options: Any) -> Any:
    book = relay_book(gateway_link(dialect=dialect, **options), dialect)
    book >> LinkOpened(result=True) << OPENING << Emits(LinkUp("gate", GATEWAY))
    return book


def open_server(dialect: Dialect = "seed", **options: Any) -> Any:
    book = relay_book(server_link(dialect=dialect, **options), dialect)
    book >> OPENING << LinkOpened(result=True) << Emits(LinkUp("gate", GATEWAY))
    return book


# -- one end with several links -------------------------------------------------------------

MOVE = 2002
USER = 22
KEY = TunnelKey(GATEWAY, USER)
IDS: dict[str, Any] = {"instance_id": GATEWAY, "tunnel_id": USER}
IPV4 = bytes([127, 0, 0, 1])
IPV6 = bytes.fromhex("20010db8000000000000000000000001")
CONNECT = TunnelConnect(ip=IPV4, port=8080, **IDS)
CONNECTED = TunnelConnected(result=True, **IDS)
REFUSED = TunnelConnected(result=False, **IDS)


class Gateway:
    """A gateway whose links are played by hand."""

    def __init__(self, dialect: Any = "seed", **tunnels: int):
        self.tunnels = GatewayTunnels(GATEWAY, **tunnels)
        self.dialect = dialect
        self.count = 0

    def link(self, service: str = "game", **options: Any) -> Playbook:
        """One more link, open."""
        self.count += 1
        opening = LinkOpen(service="gate", instance=GATEWAY, key=f"key-{self.count}")
        link = GatewayLink(
            self.tunnels,
            service=service,
            opening=opening,
            options=GatewayOptions(dialect=self.dialect, **options),
            epoch_ms=EPOCH_MS,
        )
        book = relay_book(link, "upstream" if self.dialect == "upstream" else "seed")
        book >> LinkOpened(result=True) << opening << EmitsKind.of(LinkUp)
        return book


class Server:
    """A game server whose links are played by hand."""

    def __init__(self, dialect: Any = "seed", **limits: Any):
        self.registry = LinkRegistry(RegistryLimits(**limits))
        self.dialect = dialect
        self.count = 0

    def link(self, instance: int = GATEWAY, **options: Any) -> Playbook:
        """One more link, open."""
        self.count += 1
        link = ServerLink(
            self.registry,
            RelayServerOptions(dialect=self.dialect, **options),
            epoch_ms=EPOCH_MS,
        )
        book = relay_book(link, "upstream" if self.dialect == "upstream" else "seed")
        opening = LinkOpen(service="gate", instance=instance, key=f"key-{self.count}")
        book >> opening << LinkOpened(result=True) << EmitsKind.of(LinkUp)
        return book

    def tunnel(self, book: Playbook) -> Playbook:
        """The user's tunnel, open on a link."""
        return book >> CONNECT << CONNECTED << Emits(TunnelOpened(KEY, IPV4, 8080))


def connect(gateway: Gateway, book: Playbook) -> Playbook:
    """The user's tunnel, asked for on the gateway's only link."""
    code = gateway.tunnels.connect("game", USER, ip=IPV4, port=8080)
    assert code == ResultCode.SUCCESS
    return book >> b"" << CONNECT

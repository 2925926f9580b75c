"""tny packets, messages and relay packets as test vectors write them, for `vectors.py`."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from wirelake.wire.errors import WireError

from . import layout
from .headers import (
    KEYS,
    Header,
    decode_header,
    type_of,
)
from .layout import (
    Envelope,
    Message,
    Mode,
    Packet,
    Ping,
    RelayPacket,
    RelayType,
)

__all__ = ["OPTIONAL", "arguments_view", "message_view", "option_of", "relay_view"]

OPTIONAL: Final = frozenset(
    {
        "check_code",
        "headers_decoded",
        "message_hex",
        "packet_length",
        "payload_length",
        "unknown",
        "waste_bits",
        "waste_bytes",
    }
)
"""What a vector may leave out: it follows from the rest."""

_RELAY_TYPES: Final[dict[type, RelayType]] = {
    layout.LinkOpen: RelayType.LINK_OPEN,
    layout.LinkOpened: RelayType.LINK_OPENED,
    layout.LinkClose: RelayType.LINK_CLOSE,
    layout.LinkPing: RelayType.LINK_PING,
    layout.LinkPong: RelayType.LINK_PONG,
    layout.TunnelConnect: RelayType.TUNNEL_CONNECT,
    layout.TunnelConnected: RelayType.TUNNEL_CONNECTED,
    layout.TunnelDisconnect: RelayType.TUNNEL_DISCONNECT,
    layout.TunnelSwitchLink: RelayType.TUNNEL_SWITCH_LINK,
    layout.TunnelRelay: RelayType.TUNNEL_RELAY,
}


def option_of(packet: Packet) -> tuple[int, int]:
    """The type of a packet, and its option byte."""
    kind = 0 if isinstance(packet.body, Envelope) else 1 if isinstance(packet.body, Ping) else 2
    flags = packet.waste << 4 | packet.encrypt << 3 | packet.verify << 2
    return kind, packet.reserved << 5 | flags | kind


def message_view(message: Message) -> dict[str, Any]:
    """A message, with its option byte and, where it has headers, what they mean."""
    forward, headers = message.forward_header, message.headers
    has_header = forward is not None or headers is not None
    view: dict[str, Any] = {
        "id": message.id,
        "option": (
            message.reserved << 7
            | has_header << 6
            | message.line << 3
            | (message.body is not None) << 2
            | message.mode
        ),
        "mode": Mode(message.mode).name.lower(),
        "line": message.line,
        "protocol": message.protocol,
        "code": message.code,
        "to_message": message.to_message,
        "time": message.time,
        "body": None if message.body is None else message.body.hex(),
    }
    if forward is not None:
        view["forward_header"] = forward.hex()
    if headers is not None:
        view["headers"] = [header.hex() for header in headers]
        view["headers_decoded"] = [_decoded(header) for header in headers]
    return view


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        header = decode_header(data)
    except WireError as error:
        return {"error": str(error)}
    number = type_of(header)
    view = {"type_id": number, "key": KEYS.get(number), **_header_fields(header)}
    return {key: value for key, value in view.items() if value is not None}


def _header_fields(header: Header) -> dict[str, Any]:
    match header:
        case layout.ForwardHeader():
            return {
                "from": _point(header.from_),
                "sender": _contact(header.sender),
                "to": _point(header.to),
                "receiver": _contact(header.receiver),
                "from_forwarder": _point(header.from_forwarder),
                "to_forwarder": _point(header.to_forwarder),
            }
        case layout.OriginalMessageIdHeader():
            return {"message_id": header.message_id}
        case layout.TracingHeader():
            return {"attributes": {item.key: item.value for item in header.attributes}}
        case _:
            return {"hex": header.data.hex()}


def _point(point: layout.Point | None) -> dict[str, Any] | None:
    if point is None:
        return None
    view: dict[str, Any] = {"service_type_id": point.service_type_id}
    if point.access_id is not None:
        view["access_id"] = point.access_id.id
    return view


def _contact(contact: layout.Contact | None) -> dict[str, Any] | None:
    if contact is None:
        return None
    return {"contact_id": contact.contact_id, "contact_type_id": contact.contact_type_id}


def relay_view(packet: RelayPacket, size: int) -> dict[str, Any]:
    """A relay packet without its arguments; `size` is the whole packet's."""
    kind = _RELAY_TYPES[type(packet.arguments)]
    return {
        "packet": "relay",
        "type": kind.name,
        "option": packet.reserved << 5 | kind,
        "mark": kind >> 4,
        "sub_id": kind & 0xF,
        "id": packet.id,
        "time": packet.time,
        "packet_length": size - 7,
    }


def arguments_view(arguments: layout.Arguments) -> dict[str, Any]:
    """The arguments of a relay packet by field; an address is written the usual way."""
    view: dict[str, Any] = {}
    for name in arguments.__struct_fields__:
        value = getattr(arguments, name)
        if isinstance(value, Message):
            view[name] = message_view(value)
        elif name == "ip":
            view[name] = str(ipaddress.ip_address(value)) if value else ""
        elif name == "unknown":
            view["unknown"] = value.hex()
        else:
            view[name] = value
    return view

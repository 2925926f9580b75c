"""What is in the streams of a scene: every frame, what it means, and where its ids stand.

A frame is read with the protocol's own codec, and described by what its fields say: kind and name,
id, what it answers, what it calls. Truth is made of these, and not of what the readers of captures
find, so that the two can be compared. `fields` are the bytes of ids and times as they stand in the
frame: where a cast has to write its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from wirelake.protocols.comet import codec_seed as comet_codec
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.esnp import codec_seed as esnp_codec
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp.message_summary import facts_of
from wirelake.protocols.magline import codec_seed as magline_codec
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.tny import codec_seed as tny_codec
from wirelake.protocols.tny import layout as tny

from .scene import C2S

__all__ = ["Frame", "Meant", "frames_of"]


@dataclass(slots=True)
class Meant:
    """What a message says of itself."""

    kind: str
    name: str
    id: int | None = None
    reply_to: int | None = None
    target: str | None = None
    status: str | None = None
    reason: str | None = None
    client: str | None = None
    ids: tuple[str, ...] = ()
    """Notifications that it carries or acknowledges."""
    body_bytes: int | None = None
    tunnel: tuple[int, int] | None = None
    """Instance and tunnel that a relay packet names."""


@dataclass(slots=True)
class Frame:
    """One frame of a stream."""

    start: int
    stop: int
    message: Any
    means: Meant
    inner: Meant | None = None
    """The message in a tunnel that a relay packet carries."""
    fields: list[bytes] = field(default_factory=list)
    """The ids in it, as they stand there."""
    times: list[tuple[str, bytes, str]] = field(default_factory=list)
    """Times in it, in milliseconds: the form, the bytes, and the notification that it dates."""


def frames_of(protocol: str, direction: int, stream: bytes) -> Iterator[Frame]:
    """The frames of a whole stream."""
    read = _READERS[protocol]
    decode = _decoder(protocol, direction)
    pos, end = 0, len(stream)
    while pos < end:
        message, stop = decode(stream, pos, end)
        yield read(Frame(pos, stop, message, Meant("", "")))
        pos = stop


def _decoder(protocol: str, direction: int) -> Callable[[bytes, int, int], tuple[Any, int]]:
    found: dict[str, Any] = {
        "comet": comet_codec.decode_frame_c2s if direction == C2S else comet_codec.decode_frame_s2c,
        "esnp": esnp_codec.decode_message,
        "tny": tny_codec.decode_packet,
        "relay": tny_codec.decode_relay_packet,
        "magline": magline_codec.decode_frame,
    }
    decode: Callable[[bytes, int, int], tuple[Any, int]] = found[protocol]
    return decode


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# -- comet -------------------------------------------------------------------------------------

_COMET: Final[dict[type, tuple[str, str]]] = {
    comet.Auth: ("request", "auth"),
    comet.ExchangeKey: ("request", "exchange_key"),
    comet.GetTopicList: ("request", "get_topic_list"),
    comet.Subscribe: ("request", "subscribe"),
    comet.Unsubscribe: ("request", "unsubscribe"),
    comet.GetMessageList: ("request", "get_message_list"),
    comet.Heartbeat: ("request", "heartbeat"),
    comet.MessageAck: ("request", "message_ack"),
    comet.ReportEnviron: ("request", "report_environ"),
    comet.Ok: ("response", "ok"),
    comet.Error: ("response", "error"),
    comet.AuthSuccess: ("response", "auth_success"),
    comet.TopicList: ("response", "topic_list"),
    comet.MessageList: ("response", "message_list"),
    comet.Notification: ("push", "message"),
}


def _read_comet(frame: Frame) -> Frame:
    message = frame.message
    kind, name = _COMET[type(message)]
    means = frame.means = Meant(kind, name)
    if kind == "request":
        means.target = name
    elif kind == "response":
        means.status = "ok"
    match message:
        case comet.Auth():
            means.client = message.client_id
            frame.fields += [message.client_id.encode(), message.token.encode()]
        case comet.Error():
            means.status, means.reason = str(int(message.error_code)), message.reason
        case comet.MessageAck():
            means.ids = message.msg_ids
            frame.fields += [each.encode() for each in message.msg_ids]
        case comet.Notification():
            means.body_bytes = len(message.content)
            _notifications(frame, (message,))
        case comet.MessageList():
            _notifications(frame, message.messages)
    return frame


def _notifications(frame: Frame, found: tuple[comet.Notification, ...]) -> None:
    frame.means.ids = tuple(each.msg_id for each in found)
    frame.fields += [each.msg_id.encode() for each in found]
    for each in found:
        frame.times.append(("i64be", each.ts.to_bytes(8, "big"), each.msg_id))


# -- ESNP --------------------------------------------------------------------------------------

_ESNP: Final = {
    "REQUEST": ("request", "request"),
    "INFO": ("request", "info"),
    "EVENT": ("event", "event"),
    "NONE": ("event", "event"),
    "TRACE_INFO": ("trace", "trace_info"),
    "RESPONSE": ("response", "response"),
    "INFO_RESPONSE": ("response", "info_response"),
}


def _read_esnp(frame: Frame) -> Frame:
    facts = facts_of(frame.message)
    kind, name = _ESNP[facts.kind]
    means = frame.means = Meant(kind, name, facts.id, facts.source_id)
    if kind == "response":
        means.status = "error" if facts.failed else "ok"
        if facts.seq is not None and facts.seq[0] != facts.seq[1]:
            means.kind = "part"
    address: dict[int, str] = {}
    for row in frame.message.rows:
        match row:
            case esnp.MessageId() | esnp.SourceMessageId():
                frame.fields.append(row.value.to_bytes(8, "big"))
            case esnp.Address():
                address.setdefault(row.kind, row.value)
            case esnp.Error():
                means.reason = row.value
            case esnp.Payload() if means.body_bytes is None:
                means.body_bytes = len(row.data)
    parts = [address[kind] for kind in (30, 20) if kind in address]
    means.target = "/".join(parts) or None
    return frame


# -- tny and its relay -------------------------------------------------------------------------

_MODES: Final = ("request", "response", "push")


def _message(frame: Frame, message: tny.Message) -> Meant:
    mode = _MODES[message.mode]
    means = Meant(mode, mode, message.id, target=str(message.protocol))
    if mode == "response":
        means.reply_to = message.to_message
        means.status = "ok" if message.code == tny.SUCCESS else str(message.code)
    means.body_bytes = None if message.body is None else len(message.body)
    frame.fields.append(_varint(message.id))
    if message.to_message:
        frame.fields.append(_varint(message.to_message))
    frame.times.append(("varint", _varint(message.time), ""))
    return means


def _read_tny(frame: Frame) -> Frame:
    body = frame.message.body
    if isinstance(body, tny.Envelope):
        message, _ = tny_codec.read_message(body.content, 0, len(body.content))
        frame.fields.append(_varint(body.access_id))
        frame.means = _message(frame, message)
    else:
        frame.means = Meant("heartbeat", "ping" if isinstance(body, tny.Ping) else "pong")
    return frame


_RELAY: Final[dict[type, tuple[str, str]]] = {
    tny.LinkOpen: ("control", "link_open"),
    tny.LinkOpened: ("control", "link_opened"),
    tny.LinkClose: ("control", "link_close"),
    tny.LinkPing: ("heartbeat", "link_ping"),
    tny.LinkPong: ("heartbeat", "link_pong"),
    tny.TunnelConnect: ("control", "tunnel_connect"),
    tny.TunnelConnected: ("control", "tunnel_connected"),
    tny.TunnelDisconnect: ("control", "tunnel_disconnect"),
    tny.TunnelSwitchLink: ("control", "tunnel_switch_link"),
    tny.TunnelRelay: ("relay", "tunnel_relay"),
}


def _read_relay(frame: Frame) -> Frame:
    packet = frame.message
    found = packet.arguments
    kind, name = _RELAY[type(found)]
    frame.means = Meant(kind, name, packet.id)
    frame.times.append(("i64le", packet.time.to_bytes(8, "little"), ""))
    match found:
        case tny.LinkOpen():
            frame.fields += [found.instance.to_bytes(8, "little"), found.key.encode()]
        case (
            tny.TunnelConnect()
            | tny.TunnelConnected()
            | tny.TunnelDisconnect()
            | tny.TunnelSwitchLink()
            | tny.TunnelRelay()
        ):
            frame.means.tunnel = found.instance_id, found.tunnel_id
            frame.means.target = f"{found.instance_id}/{found.tunnel_id}"
            frame.fields += [
                each.to_bytes(8, "little") for each in (found.instance_id, found.tunnel_id)
            ]
    if isinstance(found, tny.TunnelRelay):
        frame.inner = _message(frame, found.message)
    return frame


# -- magline -----------------------------------------------------------------------------------

_MAGLINE: Final[dict[type, str]] = {
    magline.Syn: "handshake",
    magline.Ack: "handshake",
    magline.Err: "response",
    magline.Pin: "heartbeat",
    magline.Pon: "heartbeat",
    magline.Req: "request",
    magline.Rep: "response",
    magline.Psh: "push",
    magline.Fin: "control",
}


def _read_magline(frame: Frame) -> Frame:
    body = frame.message.body
    name = type(body).__name__.lower()
    means = frame.means = Meant(_MAGLINE[type(body)], name, frame.message.seq)
    means.reply_to = frame.message.reply_to
    match body:
        case magline.Req() | magline.Rep() | magline.Psh():
            means.target, means.body_bytes = str(body.business_cmd), len(body.data)
            means.status = "ok" if isinstance(body, magline.Rep) else None
        case magline.Err():
            means.kind = "response" if body.business_cmd else "control"
            means.target, means.status = str(body.business_cmd), str(body.error_number)
        case magline.Fin():
            means.reason = magline.Reason(body.reason_number).name.lower()
    return frame


_READERS: Final[dict[str, Callable[[Frame], Frame]]] = {
    "comet": _read_comet,
    "esnp": _read_esnp,
    "tny": _read_tny,
    "relay": _read_relay,
    "magline": _read_magline,
}

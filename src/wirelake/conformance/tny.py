"""Run the tny vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

A vector of dialect `common` must hold in both dialects. `config` contains the configuration of the
receiver and intermediate results (`packet_code`, `access_key_md5`). Every vector starts a new
connection; a number above 1 means that packets before it were lost, which is legal.

A packet is encoded again by a writer that has sent as many packets, with the waste bytes that it
carries, so that the bytes must be equal although waste is random.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from wirelake.protocols.tny import layout
from wirelake.protocols.tny.layout import (
    Envelope,
    Message,
    Mode,
    Packet,
    Ping,
    RelayPacket,
    RelayType,
)
from wirelake.protocols.tny.message import (
    KEYS,
    Header,
    decode_header,
    decode_message,
    encode_message,
    type_of,
)
from wirelake.protocols.tny.protocol import PROTOCOL, RELAY
from wirelake.protocols.tny.transform import Dialect, PacketContext, TransformConfig, check_code
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore, WireError

from .expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_prefixes,
    classify,
    difference,
)

__all__ = [
    "CLASSES",
    "DIALECTS",
    "ERRORS",
    "INCOMPLETE",
    "OPTIONAL",
    "Connection",
    "arguments_view",
    "class_of",
    "message_view",
    "option_of",
    "relay_view",
    "run",
]

_LENGTH = ("length_overrun", "negative_length")
_CUT = ("short", "varint_truncated")
_VARINT = ("varint_overflow", "int_range")

ERRORS: Final = (
    ErrorClass("bad_magic", ("bad_magic",), r"packet\.head"),
    ErrorClass("reserved_type", ("unknown_type",), r"packet\.type"),
    ErrorClass("payload_too_long", ("too_large",), r"envelope\.length"),
    ErrorClass("payload_truncated", _CUT, r"envelope\..*|check_code|waste"),
    ErrorClass("bad_varint", _VARINT, r"(envelope|message)\..*|number"),
    ErrorClass("number_replayed", ("number_replayed",), "number"),
    ErrorClass("number_skipped", ("number_skipped",), "number"),
    ErrorClass("verify_required", ("verify_required",), "option"),
    ErrorClass("encrypt_required", ("encrypt_required",), "option"),
    ErrorClass("waste_required", ("waste_required",), "option"),
    ErrorClass("verify_failed", ("verify_failed",), "check_code"),
    ErrorClass("message_truncated", _CUT, r"message\..*"),
    ErrorClass("bad_mode", ("reserved_value",), r"message\.mode"),
    ErrorClass("header_length", _LENGTH, r"message\.(forward_header|headers)"),
    ErrorClass("body_length", _LENGTH, r"message\.body"),
    ErrorClass("trailing_bytes", ("trailing_bytes",), "message"),
    # The same errors inside a relay packet, whose fields are named after `relay:` here.
    ErrorClass("relay_bad_magic", ("bad_magic",), r"relay:relay_packet\.head"),
    ErrorClass("relay_length", ("bad_length", "too_large"), r"relay:relay_packet\.length"),
    ErrorClass("relay_unknown_type", ("unknown_type",), r"relay:relay_packet\.(mark|sub_id)"),
    ErrorClass(
        "relay_bad_arguments",
        (
            *_LENGTH,
            *_CUT,
            *_VARINT,
            "bad_arguments",
            "bad_length",
            "invalid_utf8",
            "reserved_value",
            "too_deep",
            "trailing_bytes",
        ),
        r"relay:(?!relay_packet\.(head|length|mark|sub_id)).*",
    ),
)
"""Classes of the vectors, and our codes and fields."""
INCOMPLETE: Final = "incomplete"
"""The class of *need more*."""
CLASSES: Final = (INCOMPLETE, *(line.name for line in ERRORS))
"""Every class that a vector may name."""


def class_of(error: WireError, relay: bool) -> str:
    """Return the class of an error, by the decoder that raised it."""
    field = f"relay:{error.field}" if relay else error.field
    return classify(ERRORS, WireError(error.code, field))


# -- messages and packets as vectors describe them -------------------------------------------------


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
    """Return the type of a packet, and its option byte."""
    kind = 0 if isinstance(packet.body, Envelope) else 1 if isinstance(packet.body, Ping) else 2
    flags = packet.waste << 4 | packet.encrypt << 3 | packet.verify << 2
    return kind, packet.reserved << 5 | flags | kind


def message_view(message: Message) -> dict[str, Any]:
    """Return a message, with its option byte and, where it has headers, what they mean."""
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
    """Return a relay packet without its arguments; `size` is the whole packet's."""
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
    """Return the arguments of a relay packet by field; an address is written the usual way."""
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


# -- one vector on one connection ------------------------------------------------------------------


DIALECTS: Final[dict[str, tuple[Dialect, ...]]] = {
    "common": ("seed", "upstream"),
    "seed": ("seed",),
    "upstream": ("upstream",),
}
"""The dialects in which a vector must hold."""
_CHECKS: Final = {"seed": "crc32-le", "upstream": "crc64-le"}
_CHECK_SIZES: Final = {"seed": 4, "upstream": 8}

NOT_CANONICAL: Final = (
    "tolerated, but written otherwise: long varints, protobuf fields in another order or left out"
)


class Opened(NamedTuple):
    """A packet with all transforms undone; `message` is None for a tick."""

    packet: Packet
    stop: int
    plain: bytes = b""
    message: Message | None = None


class Connection:
    """One direction of a connection in one dialect."""

    def __init__(self, vector: Vector, config: Expect, dialect: Dialect, context: Context):
        self.expect = vector.expect
        self.data = vector.data
        self.config = config
        self.dialect = dialect
        self.context = context
        self.relay = (
            config.text("decoder", ("relay", "message"), default="message") == "relay"
            or self.expect.data.get("packet") == "relay"
        )
        self.reader = PacketContext(dialect, read_config(config))
        self.writer: PacketContext | None = None

    def run(self) -> None:
        if "error" in self.expect:
            self.refused()
        elif "stream" in self.expect:
            self.stream()
        elif self.relay:
            self.relay_packet()
        else:
            self.single()

    # -- reading -----------------------------------------------------------------------------

    def decode(self, data: bytes, start: int = 0) -> tuple[Any, int]:
        protocol = RELAY if self.relay else PROTOCOL
        message, stop = protocol.decode(data, start, dialect=self.dialect)
        return message, stop

    def open(self, start: int) -> Opened:
        """Return the packet at an offset, up to its message."""
        packet, stop = self.decode(self.data, start)
        body = packet.body
        if not isinstance(body, Envelope):
            return Opened(packet, stop)
        plain = self.reader.open(
            body.access_id,
            body.number,
            body.content,
            waste=packet.waste,
            encrypt=packet.encrypt,
            verify=packet.verify,
        )
        return Opened(packet, stop, plain, decode_message(plain, self.dialect))

    def accept(self, start: int, path: str) -> tuple[dict[str, Any], int]:
        """Return the packet at an offset, after further checks of its bytes."""
        try:
            opened = self.open(start)
        except (NeedMore, WireError) as error:
            raise VectorFailure(f"{path}: {error}") from None
        data = self.data[start : opened.stop]
        if self.context.thorough:
            check_prefixes(self.decode, data)
        self.rewritten(opened, data, path)
        return self.view(opened, len(data)), opened.stop

    def view(self, opened: Opened, size: int) -> dict[str, Any]:
        packet, body = opened.packet, opened.packet.body
        kind, option = option_of(packet)
        view: dict[str, Any] = {
            "packet": ("message", "ping", "pong")[kind],
            "type": kind,
            "option": option,
        }
        if size > 5:
            view["payload_length"] = size - 9
        if opened.message is None or not isinstance(body, Envelope):
            return view
        view |= {
            "verify": packet.verify,
            "encrypt": packet.encrypt,
            "waste": packet.waste,
            "access_id": body.access_id,
            "number": body.number,
            "message": message_view(opened.message),
            "message_hex": opened.plain.hex(),
        }
        if packet.verify:
            view["check_code"] = self.check_of(body.content).hex()
        if packet.waste:
            bits = self.waste_bits()
            view["waste_bits"] = bits
            view["waste_bytes"] = [bits // 8, 1 if bits % 8 else 0]
        return view

    def check_of(self, content: bytes) -> bytes:
        return content[len(content) - _CHECK_SIZES[self.dialect] :]

    def waste_bits(self) -> int:
        return self.reader.packet_code % self.reader.config.max_waste_bits

    # -- writing again -----------------------------------------------------------------------

    def rewritten(self, opened: Opened, data: bytes, path: str) -> None:
        """Check that encoding gives the same bytes, or a shorter form of the same value."""
        packet, message = opened.packet, opened.message
        if message is None:
            again, same = PROTOCOL.encode(packet, dialect=self.dialect), False
        else:
            plain = encode_message(message, self.dialect)
            again = self.sealed(packet, plain)
            same = decode_message(plain, self.dialect) == message and len(again) <= len(data)
        if again == data:
            return
        other = PROTOCOL.decode(again, dialect=self.dialect).message
        if not same or _numbers(other) != _numbers(packet):
            raise VectorFailure(f"{path}: re-encoded as {again.hex()}")
        self.context.notes.append(NOT_CANONICAL)

    def sealed(self, packet: Packet, plain: bytes) -> bytes:
        """Return the packet that a writer makes who has sent all packets before it."""
        body = packet.body
        assert isinstance(body, Envelope)
        options = self.reader.config
        if self.writer is None:
            self.writer = PacketContext(self.dialect)
        self.writer.config = TransformConfig(
            options.security_keys,
            verify=packet.verify,
            encrypt=packet.encrypt,
            waste=packet.waste,
            max_waste_bits=options.max_waste_bits,
        )
        while self.writer.number < body.number - 1:
            self.writer.seal(body.access_id, b"lost", random=bytes)
        sealed = self.writer.seal(body.access_id, plain, random=self.waste_of(packet))
        made = Envelope(access_id=body.access_id, number=sealed.number, content=sealed.content)
        whole = Packet(
            reserved=packet.reserved,
            waste=sealed.waste,
            encrypt=sealed.encrypt,
            verify=sealed.verify,
            body=made,
        )
        return PROTOCOL.encode(whole, dialect=self.dialect)

    def waste_of(self, packet: Packet) -> Callable[[int], bytes]:
        """Return a source of a packet's waste bytes, in the order in which a writer draws them."""
        if not packet.waste:
            return bytes
        assert isinstance(packet.body, Envelope)
        content = packet.body.content
        if packet.verify:
            content = content[: len(content) - _CHECK_SIZES[self.dialect]]
        whole, shift = divmod(self.waste_bits(), 8)
        drawn = [content[:whole]] if whole else []
        if shift and self.dialect == "seed":
            drawn.append(content[-1:])
        elif shift:
            low = (1 << (8 - shift)) - 1
            drawn.append(bytes([content[whole] & ~low & 0xFF | content[-1] & low]))
        return lambda _: drawn.pop(0)

    # -- the kinds of vector -----------------------------------------------------------------

    def single(self) -> None:
        view, stop = self.accept(0, "hex")
        if stop != len(self.data):
            raise VectorFailure(f"hex: the packet stops at byte {stop} of {len(self.data)}")
        compare(self.expect, view, OPTIONAL)
        self.configured(view)

    def configured(self, view: dict[str, Any]) -> None:
        """Compare the expected intermediate values of the configuration."""
        self.config.equal("packet_code", self.reader.packet_code)
        self.config.equal("access_key_md5", self.reader.access_key_md5.hex())
        self.config.equal("check", _CHECKS[self.dialect])
        if "check_code" in view:
            expected = check_code(
                self.dialect,
                bytes.fromhex(view["message_hex"]),
                number=self.reader.number,
                key_md5=self.reader.access_key_md5,
                packet_code=self.reader.packet_code,
            )
            self.expect.equal("check_code", expected.hex())

    def stream(self) -> None:
        """Check consecutive packets; an error ends the stream."""
        pos = 0
        for entry in self.expect.children("stream"):
            if "error" in entry:
                entry.text("error", CLASSES)
                entry.equal("error", self.error_at(pos))
                pos = len(self.data)
            else:
                view, pos = self.accept(pos, entry.path)
                compare(entry, view, frozenset(view))
            entry.done()
        if pos != len(self.data):
            raise VectorFailure(f"hex: the stream stops at byte {pos} of {len(self.data)}")

    def error_at(self, pos: int) -> str | None:
        try:
            opened = self.open(pos)
        except NeedMore:
            return INCOMPLETE
        except DecodeError as error:
            return class_of(error, relay=False)
        if opened.stop != len(self.data):
            raise VectorFailure(f"hex: the packet stops at byte {opened.stop} of {len(self.data)}")
        return None

    def refused(self) -> None:
        expected = self.expect.text("error", CLASSES)
        got: str | None
        if self.relay:
            try:
                self.decode(self.data)
                got = None
            except NeedMore:
                got = INCOMPLETE
            except DecodeError as error:
                got = class_of(error, relay=True)
        else:
            got = self.error_at(0)
        if got != expected:
            raise self.expect.fail("error", f"expected {expected}, got {got or 'no error'}")
        if self.context.thorough:
            check_prefixes(
                self.decode, self.data, lambda error: class_of(error, self.relay) == expected
            )

    def relay_packet(self) -> None:
        try:
            packet, stop = self.decode(self.data)
        except (NeedMore, WireError) as error:
            raise VectorFailure(f"hex: {error}") from None
        if stop != len(self.data):
            raise VectorFailure(f"hex: the packet stops at byte {stop} of {len(self.data)}")
        if self.context.thorough:
            check_prefixes(self.decode, self.data)
        again = RELAY.encode(packet, dialect=self.dialect)
        if again != self.data:
            if self.decode(again)[0] != packet:
                raise VectorFailure(f"hex: re-encoded as {again.hex()}")
            self.context.notes.append(NOT_CANONICAL)
        arguments = arguments_view(packet.arguments)
        # A protobuf field that is absent has its default, so a vector need not mention it.
        defaults = {key for key, value in arguments.items() if not value}
        expected = self.expect.child("arguments").data
        given = {key: value for key, value in expected.items() if value is not None}
        found = difference(given, arguments, "expect.arguments", OPTIONAL | defaults)
        if found:
            raise VectorFailure(found)
        view = {**relay_view(packet, len(self.data)), "arguments": expected}
        compare(self.expect, view, OPTIONAL)


def _numbers(packet: Packet) -> tuple[Any, ...]:
    body = packet.body
    assert isinstance(body, Envelope)
    return option_of(packet), body.access_id, body.number


def compare(expect: Expect, view: dict[str, Any], optional: frozenset[str]) -> None:
    """Compare the keys of the vector; fail for required keys that are missing."""
    for key, value in view.items():
        if key in expect:
            expect.equal(key, value, OPTIONAL)
        elif key not in optional:
            raise expect.fail(key, f"got {value!r}, which is not in the vector")


def read_config(config: Expect) -> TransformConfig:
    """Return the receiver's configuration; its expected results are compared later."""
    keys = config.get("security_keys", [])
    flags = {name: config.get(name, False) for name in ("verify", "encrypt", "waste")}
    if not all(isinstance(flag, bool) for flag in flags.values()) or not isinstance(keys, list):
        raise VectorFailure("config: expected true or false, and a list of keys")
    for name in ("packet_code", "access_key_md5", "check"):
        config.get(name)
    try:
        bits = config.number("max_waste_bits") if "max_waste_bits" in config else 30
        return TransformConfig(tuple(keys), **flags, max_waste_bits=bits)
    except EncodeError as error:
        raise VectorFailure(f"config: {error}") from None


def run(raw: dict[str, Any], context: Context) -> None:
    """Check one vector in each of its dialects."""
    vector = Vector(raw)
    dialects = DIALECTS[vector.top.text("dialect", DIALECTS)]
    config = Expect(vector.top.get("config", {}), "config")
    for dialect in dialects:
        try:
            Connection(vector, config, dialect, context).run()
        except VectorFailure as failure:
            raise VectorFailure(f"{failure} (dialect {dialect})") from None
    config.done()
    vector.done()

"""One direction of a tny connection, as a vector describes it; for `vectors.py`.

A packet is written again by a writer that has sent as many packets, with the waste bytes that it
carries, so that the bytes must be equal although waste is random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from wirelake.wire.errors import (
    DecodeError,
    EncodeError,
    NeedMore,
    WireError,
)

from ..expectation import (
    Context,
    Expect,
    Vector,
    VectorFailure,
    check_prefixes,
    difference,
)
from .layout import Envelope, Message, Packet
from .message import decode_message, encode_message
from .protocol import PROTOCOL, RELAY
from .transform import (
    Dialect,
    PacketContext,
    TransformConfig,
    check_code,
)
from .vectors_errors import (
    CLASSES,
    INCOMPLETE,
    class_of,
)
from .vectors_views import (
    OPTIONAL,
    arguments_view,
    message_view,
    option_of,
    relay_view,
)

__all__ = ["DIALECTS", "Connection"]

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
        """The packet at an offset, up to its message."""
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
        """What the packet at an offset is, after checking its bytes in other ways too."""
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
        """Written again the bytes are the same, or a shorter or plainer form of the same value."""
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
            raise VectorFailure(f"{path}: written again it is {again.hex()}")
        self.context.notes.append(NOT_CANONICAL)

    def sealed(self, packet: Packet, plain: bytes) -> bytes:
        """The packet that a writer makes who has sent all packets before it."""
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
        """Hands out the waste that a packet carries, in the order in which a writer draws it."""
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
        """What the configuration says must come out on the way."""
        self.config.equal("packet_code", self.reader.packet_code)
        self.config.equal("access_key_md5", self.reader.access_key_md5.hex())
        self.config.equal("check", _CHECKS[self.dialect])
        if "check_code" in view:
            wanted = check_code(
                self.dialect,
                bytes.fromhex(view["message_hex"]),
                number=self.reader.number,
                key_md5=self.reader.access_key_md5,
                packet_code=self.reader.packet_code,
            )
            self.expect.equal("check_code", wanted.hex())

    def stream(self) -> None:
        """Packets one after the other; an error, if any, ends the stream."""
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
        wanted = self.expect.text("error", CLASSES)
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
        if got != wanted:
            raise self.expect.fail("error", f"wanted {wanted}, got {got or 'no error'}")
        if self.context.thorough:
            check_prefixes(
                self.decode, self.data, lambda error: class_of(error, self.relay) == wanted
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
                raise VectorFailure(f"hex: written again it is {again.hex()}")
            self.context.notes.append(NOT_CANONICAL)
        arguments = arguments_view(packet.arguments)
        # A protobuf field that is absent has its default, so a vector need not mention it.
        defaults = {key for key, value in arguments.items() if not value}
        wanted = self.expect.child("arguments").data
        given = {key: value for key, value in wanted.items() if value is not None}
        found = difference(given, arguments, "expect.arguments", OPTIONAL | defaults)
        if found:
            raise VectorFailure(found)
        view = {**relay_view(packet, len(self.data)), "arguments": wanted}
        compare(self.expect, view, OPTIONAL)


def _numbers(packet: Packet) -> tuple[Any, ...]:
    body = packet.body
    assert isinstance(body, Envelope)
    return option_of(packet), body.access_id, body.number


def compare(expect: Expect, view: dict[str, Any], optional: frozenset[str]) -> None:
    """Compares every key that the vector has, and misses those that it should have."""
    for key, value in view.items():
        if key in expect:
            expect.equal(key, value, OPTIONAL)
        elif key not in optional:
            raise expect.fail(key, f"got {value!r}, which the vector does not mention")


def read_config(config: Expect) -> TransformConfig:
    """The receiver's configuration; what it says must come out is compared later."""
    keys = config.get("security_keys", [])
    flags = {name: config.get(name, False) for name in ("verify", "encrypt", "waste")}
    if not all(isinstance(flag, bool) for flag in flags.values()) or not isinstance(keys, list):
        raise VectorFailure("config: wanted true or false, and a list of keys")
    for name in ("packet_code", "access_key_md5", "check"):
        config.get(name)
    try:
        bits = config.number("max_waste_bits") if "max_waste_bits" in config else 30
        return TransformConfig(tuple(keys), **flags, max_waste_bits=bits)
    except EncodeError as error:
        raise VectorFailure(f"config: {error}") from None

"""Packets of one connection: bytes to ticks and messages, messages to bytes, in any dialect.

Implements §2 (frames), §3 and §4 (through `transform`), and §8.1 of the tny rules, the tolerant
reader of ticks. In dialect `auto` a tick is accepted at five bytes. What follows shows its form: if
it is the head of the next packet, the tick was one of the original; anything else is a length, and
that many bytes are skipped. This is unambiguous, because `tny.` read as a length is 779 MB.

A message does not show its dialect: in `auto`, messages are read and written as seed until a tick
shows that the peer uses upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from wirelake.wire.errors import DecodeError, EncodeError, NeedMore

from ..sansio import SessionError
from . import codec_seed
from .layout import Envelope, Message, Packet, PacketType, Ping, Pong
from .limits import PAYLOAD_LIMITS, SessionDialect, SessionOptions
from .protocol import PROTOCOL
from .transform import CHECK_BYTES, Dialect, PacketContext

__all__ = [
    "PING",
    "PLAIN",
    "PONG",
    "SKIPPED",
    "TICK_TAIL",
    "DialectState",
    "PacketReader",
    "PacketWriter",
]

_HEAD: Final = 5
"""Bytes of head and option: a whole tick in the original."""
_LENGTH: Final = 4
_OFFSETS: Final[dict[str, int]] = {"option": 4, "number": _HEAD + _LENGTH}
"""Offsets of envelope fields, for errors, from the start of the packet."""
_MAX_OVERHEAD: Final = 10 + 5 + max(CHECK_BYTES.values())
"""AccessId and Number as varints of 64 and 32 bits, and CheckCode, at their longest."""

TICK_TAIL: Final = bytes(_LENGTH)
"""The rest of a tick of the seed dialect, after the five bytes that both forms share."""
_SEED_PING: Final = codec_seed.encode_packet(Packet(body=Ping()))
_SEED_PONG: Final = codec_seed.encode_packet(Packet(body=Pong()))
PING: Final = {"seed": _SEED_PING, "upstream": _SEED_PING[:_HEAD]}
"""A ping in each dialect."""
PONG: Final = {"seed": _SEED_PONG, "upstream": _SEED_PONG[:_HEAD]}
"""A pong in each dialect."""

PLAIN: Final = codec_seed.encode_packet(Packet(body=Envelope(access_id=0, number=0, content=b"")))[
    :_HEAD
]
"""Head and option of a message packet without options; the same in both dialects."""
_MAGIC: Final = PLAIN[:4]

SKIPPED: Final = object()
"""Returned by `PacketReader.frame` for the skipped rest of a tick."""

_TICKS: Final = {
    PacketType.PING: Packet(body=Ping()),
    PacketType.PONG: Packet(body=Pong()),
}


class DialectState:
    """The current dialect of a connection, shared by both directions."""

    __slots__ = ("auto", "changed", "codec", "current", "seen")

    def __init__(self, dialect: SessionDialect):
        self.auto = dialect == "auto"
        self.current: Dialect = "seed" if self.auto else cast(Dialect, dialect)
        self.codec = PROTOCOL.codec(self.current)
        if self.auto:
            # The codec of another dialect is generated on first use. Do it now: generating takes
            # far longer than a tick of a live connection may.
            PROTOCOL.codec("upstream")
        self.seen: Dialect | None = None if self.auto else self.current
        self.changed = False

    def detected(self, dialect: Dialect) -> None:
        """Set the dialect that a tick of the peer has shown."""
        self.changed = self.changed or self.seen != dialect
        self.seen = self.current = dialect
        self.codec = PROTOCOL.codec(dialect)


class PacketReader:
    """Reads the packets of the peer."""

    __slots__ = (
        "_context",
        "_dialect",
        "_limit",
        "_skip",
        "_strict",
        "_tail_expected",
        "raw",
        "take_plain",
    )

    def __init__(self, dialect_state: DialectState, options: SessionOptions):
        self._dialect = dialect_state
        self._context = PacketContext(dialect_state.current, options.reading)
        self.take_plain = self._context.read_plain
        """Counts the number of a plain packet that the fast path has read; False: not legal."""
        self._limit = options.max_payload
        self._strict = options.strict
        self._tail_expected = False
        self._skip = 0
        self.raw = b""
        """The bytes of the last Message."""

    @property
    def access_id(self) -> int | None:
        """The AccessId of the first packet; None before it."""
        return self._context.access_id

    @property
    def number(self) -> int:
        """The number of the last packet; 0 before the first."""
        return self._context.number

    @property
    def skipping(self) -> int:
        """Bytes of a tick still to be skipped."""
        return self._skip

    @property
    def limit(self) -> int:
        """The largest payload."""
        return self._limit if self._limit is not None else PAYLOAD_LIMITS[self._dialect.current]

    def accept(self, limit: int | None) -> None:
        """Change the largest payload; None for the dialect's own."""
        self._limit = limit

    def frame(self, buf: bytes, pos: int, end: int) -> tuple[Packet | object, int]:
        """Decode one packet, or skip bytes (`SKIPPED`); return it and where it stops."""
        if self._dialect.auto:
            return self._tolerant(buf, pos, end)
        if not self._strict and _type_at(buf, pos, end) == _UNDEFINED:
            return self._undefined_type(buf, pos, end)
        packet, stop = self._dialect.codec.decode_packet(buf, pos, end, self.limit)
        return packet, stop

    @property
    def is_plain(self) -> bool:
        """Whether `plain` can be used: strict, one dialect, and no option required."""
        return self._strict and not self._dialect.auto and self._context.is_plain

    def plain(self, buf: bytes, pos: int, end: int, limit: int) -> tuple[Message, int] | None:
        """Decode a whole packet without options; return its Message and where it stops.

        None or an error leaves everything unchanged: the caller then uses `frame` and `open`, which
        handle every packet and report errors with their offsets.
        """
        if not buf.startswith(PLAIN, pos, end):
            return None
        codec = self._dialect.codec
        envelope, stop = codec.decode_envelope(buf, pos + _HEAD, end, limit)
        content = envelope.content
        message, used = codec.read_message(content, 0, len(content))
        if used != len(content) or not self._context.read_plain(envelope.number):
            return None
        self.raw = content
        return message, stop

    def open(self, packet: Packet, pos: int, stop: int) -> Message:
        """Remove the transforms of the packet at buf[pos:stop] and return its Message."""
        envelope = cast(Envelope, packet.body)
        content = envelope.content
        start = stop - len(content)
        self._context.dialect = self._dialect.current
        try:
            plain = self._context.open(
                envelope.access_id,
                envelope.number,
                content,
                waste=packet.waste,
                encrypt=packet.encrypt,
                verify=packet.verify,
            )
        except DecodeError as error:
            error.offset = pos + _OFFSETS[error.field] if error.field in _OFFSETS else start
            raise
        try:
            message, used = self._dialect.codec.read_message(plain, 0, len(plain))
            if used != len(plain) and self._strict:
                raise DecodeError("trailing_bytes", "message", used, f"{len(plain) - used} left")
        except DecodeError as error:
            # Waste shifts the Message by bits, so its bytes have no offset in the packet: report
            # the start of the content instead.
            error.offset = start + (0 if packet.waste else error.offset or 0)
            raise
        self.raw = plain
        return cast(Message, message)

    # -- dialect auto ------------------------------------------------------------------------

    def _tolerant(self, buf: bytes, pos: int, end: int) -> tuple[Packet | object, int]:
        if self._skip:
            stop = min(end, pos + self._skip)
            self._skip -= stop - pos
            return SKIPPED, stop
        if self._tail_expected and not self._head_follows(buf, pos, end):
            self._tail_expected = False
            self._start_skipping(buf, pos)
            return SKIPPED, pos + _LENGTH
        self._tail_expected = False
        kind = _type_at(buf, pos, end)
        if kind in _TICKS:
            return self._tick(buf, pos, end, PacketType(kind))
        if kind == _UNDEFINED and not self._strict:
            return self._undefined_type(buf, pos, end)
        # With fewer bytes than a head, the codec of the original is used: it needs five bytes for a
        # tick, where that of the seed dialect would wait for nine (§9: a lone ping is answered).
        codec = PROTOCOL.codec("upstream") if end - pos < _HEAD else self._dialect.codec
        return cast("tuple[Packet, int]", codec.decode_packet(buf, pos, end, self.limit))

    def _tick(self, buf: bytes, pos: int, end: int, kind: PacketType) -> tuple[Packet, int]:
        """Accept a tick at five bytes; examine what follows if it is there, but do not wait for it.

        A peer that waits for its pong sends nothing more, so waiting would stall an idle link.
        """
        stop = pos + _HEAD
        tail = buf[stop : min(end, stop + _LENGTH)]
        if tail == _MAGIC:
            self._dialect.detected("upstream")
        elif len(tail) == _LENGTH and int.from_bytes(tail, "little") <= self.limit:
            self._start_skipping(buf, stop)
            stop += _LENGTH
        else:
            self._tail_expected = True
        return _TICKS[kind], stop

    def _head_follows(self, buf: bytes, pos: int, end: int) -> bool:
        """Return whether a packet head follows, so that the tick before was one of the original."""
        if end - pos < _LENGTH:
            raise NeedMore(_LENGTH - (end - pos))
        if not buf.startswith(_MAGIC, pos):
            return False
        self._dialect.detected("upstream")
        return True

    def _start_skipping(self, buf: bytes, pos: int) -> None:
        length = int.from_bytes(buf[pos : pos + _LENGTH], "little")
        if length > self.limit:
            detail = f"{length} bytes exceed {self.limit}"
            raise DecodeError("too_large", "packet.length", pos, detail)
        self._skip = length
        self._dialect.detected("seed")

    def _undefined_type(self, buf: bytes, pos: int, end: int) -> tuple[Packet, int]:
        """Decode a packet of the undefined type 3 as the original does: as a message."""
        bits = buf[pos + 4]
        body, stop = self._dialect.codec.decode_envelope(buf, pos + _HEAD, end, self.limit)
        packet = Packet(
            reserved=bits >> 5,
            waste=bits & 0x10 != 0,
            encrypt=bits & 0x08 != 0,
            verify=bits & 0x04 != 0,
            body=body,
        )
        return packet, stop


_UNDEFINED: Final = 3


def _type_at(buf: bytes, pos: int, end: int) -> int | None:
    """Return the type of the packet at `pos`; None when it is incomplete, or is no packet."""
    return buf[pos + 4] & 3 if end - pos >= _HEAD and buf.startswith(_MAGIC, pos) else None


class PacketWriter:
    """Writes our packets. A call that raises has used up no number."""

    __slots__ = (
        "_context",
        "_dialect",
        "_limit",
        "_random",
        "_spare",
        "_surely_fits",
        "access_id",
        "number",
    )

    def __init__(
        self,
        dialect_state: DialectState,
        options: SessionOptions,
        random: Callable[[int], bytes] | None,
    ):
        config = options.writing
        if config.waste and random is None:
            raise SessionError(
                "bad_config", "waste bytes require random=, a source of random bytes"
            )
        self._dialect = dialect_state
        self._context = PacketContext(dialect_state.current, config)
        self._limit = options.max_payload
        self._random = random or bytes
        self.access_id: int | None = None
        """The access id of the first packet, which stays (§3); None before it."""
        self._spare = config.max_waste_bits // 8 + 1 if config.waste else 0
        least = min(PAYLOAD_LIMITS.values()) if self._limit is None else self._limit
        self._surely_fits = least - _MAX_OVERHEAD - self._spare
        self.number = 0
        """The number of the last packet; 0 before the first."""

    @property
    def limit(self) -> int:
        """The largest payload."""
        return self._limit if self._limit is not None else PAYLOAD_LIMITS[self._dialect.current]

    @property
    def is_plain(self) -> bool:
        """Whether the next packet has no options and is not the first one."""
        return self._context.is_plain and self.access_id is not None

    @property
    def surely_fits(self) -> int:
        """Largest Message that fits any packet, whatever its overhead."""
        return self._surely_fits

    def next_plain(self) -> int:
        """Return the number for a plain packet that the fast path writes; 0 unless `is_plain`."""
        number = self._context.write_plain()
        if number:
            self.number = number
        return number

    def message(self, message: Message, access_id: int) -> bytes:
        """Encode a packet with the next number and the access id of the first packet (§3)."""
        try:
            return self.content(self._dialect.codec.write_message(message), access_id)
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error

    def content(self, plain: bytes, access_id: int) -> bytes:
        """Encode a packet with an encoded Message. Raises SessionError or EncodeError."""
        # Measuring encodes the envelope a second time; nearly all messages are far below the limit.
        if len(plain) > self._surely_fits:
            self._check_size(access_id, plain)
        number = self._context.write_plain()
        if number and self.access_id is not None:
            envelope = Envelope(access_id=self.access_id, number=number, content=plain)
            self.number = number
            return PLAIN + cast(bytes, self._dialect.codec.encode_envelope(envelope))
        return self._sealed(plain, access_id if self.access_id is None else self.access_id)

    def _sealed(self, plain: bytes, access_id: int) -> bytes:
        codec, context = self._dialect.codec, self._context
        context.dialect = self._dialect.current
        sealed = context.seal(access_id, plain, random=self._random)
        self.access_id, self.number = access_id, sealed.number
        envelope = Envelope(access_id=access_id, number=sealed.number, content=sealed.content)
        packet = Packet(
            waste=sealed.waste, encrypt=sealed.encrypt, verify=sealed.verify, body=envelope
        )
        return cast(bytes, codec.encode_packet(packet))

    def _check_size(self, access_id: int, plain: bytes) -> None:
        """Raise SessionError if the payload exceeds the limit, counting the maximum of waste."""
        codec, context = self._dialect.codec, self._context
        if self.access_id is not None:
            access_id = self.access_id
        envelope = Envelope(access_id=access_id, number=context.number + 1, content=plain)
        size = len(codec.encode_envelope(envelope)) - _LENGTH + self._spare
        if context.config.verify:
            size += CHECK_BYTES[self._dialect.current]
        if size > self.limit:
            raise SessionError("too_large", f"payload of {size} bytes exceeds {self.limit}")

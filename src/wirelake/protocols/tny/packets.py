"""Packets of one connection: bytes to ticks and messages, messages to bytes, in any dialect.

Implements §2 (frames), §3 and §4 (through `transform`), and §8.1 of the tny rules, the tolerant
reader of ticks. In dialect `auto` a tick is taken at five bytes. What follows tells its form: the
head of the next packet, and it was a tick of the original; anything else is a length, and that
many bytes are skipped. This is unambiguous, because `tny.` as a length is 779 MB.

Messages themselves do not betray their dialect: in `auto` they are read and written as seed until
a tick shows that the peer uses upstream.
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
from .transform import Dialect, PacketContext

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

_MAGIC: Final = b"tny."
_HEAD: Final = 5
"""Bytes of head and option: all of a tick in the original."""
_LENGTH: Final = 4
_PLACES: Final[dict[str, int]] = {"option": 4, "number": _HEAD + _LENGTH}
"""Where an error of the envelope shows, counted from the packet's beginning."""
_CHECK_BYTES: Final[dict[str, int]] = {"seed": 4, "upstream": 8}
_MOST_OVERHEAD: Final = 10 + 5 + 8
"""AccessId, Number and CheckCode at their longest."""

TICK_TAIL: Final = bytes(_LENGTH)
"""What a tick of the seed dialect has after the five bytes that both forms share."""
_SEED_PING: Final = codec_seed.encode_packet(Packet(body=Ping()))
_SEED_PONG: Final = codec_seed.encode_packet(Packet(body=Pong()))
PING: Final = {"seed": _SEED_PING, "upstream": _SEED_PING[:_HEAD]}
"""A ping in each dialect."""
PONG: Final = {"seed": _SEED_PONG, "upstream": _SEED_PONG[:_HEAD]}
"""A pong in each dialect."""

PLAIN: Final = codec_seed.encode_packet(Packet(body=Envelope(access_id=0, number=0, content=b"")))[
    :_HEAD
]
"""Head and option of a message packet that has no options; both dialects have the same."""

SKIPPED: Final = object()
"""What `PacketReader.frame` returns for bytes that belong to a tick and mean nothing."""

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
            # Generated on first use: now, and not when a tick of a live connection asks for it.
            PROTOCOL.codec("upstream")
        self.seen: Dialect | None = None if self.auto else self.current
        self.changed = False

    def detected(self, dialect: Dialect) -> None:
        """A tick of the peer had this form."""
        self.changed = self.changed or self.seen != dialect
        self.seen = self.current = dialect
        self.codec = PROTOCOL.codec(dialect)


class PacketReader:
    """The direction towards us."""

    __slots__ = (
        "_context",
        "_dialect",
        "_limit",
        "_skip",
        "_strict",
        "_tail_wanted",
        "raw",
        "take_plain",
    )

    def __init__(self, dialect_state: DialectState, options: SessionOptions):
        self._dialect = dialect_state
        self._context = PacketContext(dialect_state.current, options.reading)
        self.take_plain = self._context.read_plain
        """Takes the number of a plain packet that somebody else reads; False changes nothing."""
        self._limit = options.max_payload
        self._strict = options.strict
        self._tail_wanted = False
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
        """Bytes of a tick that are still to be skipped."""
        return self._skip

    @property
    def limit(self) -> int:
        """The largest payload."""
        return self._limit if self._limit is not None else PAYLOAD_LIMITS[self._dialect.current]

    def accept(self, limit: int | None) -> None:
        """Change the largest payload; None for the dialect's own."""
        self._limit = limit

    def frame(self, buf: bytes, pos: int, end: int) -> tuple[Packet | object, int]:
        """One packet, or `SKIPPED`, and where it stops."""
        if self._dialect.auto:
            return self._tolerant(buf, pos, end)
        if not self._strict and _type_at(buf, pos, end) == _UNDEFINED:
            return self._undefined_type(buf, pos, end)
        packet, stop = self._dialect.codec.decode_packet(buf, pos, end, self.limit)
        return packet, stop

    @property
    def is_plain(self) -> bool:
        """Whether `plain` may find anything: strict, one dialect, and no option demanded."""
        return self._strict and not self._dialect.auto and self._context.is_plain

    def plain(self, buf: bytes, pos: int, end: int, limit: int) -> tuple[Message, int] | None:
        """The Message of a whole packet without options, and where it stops: nearly every one.

        None, or an error, changes nothing: `frame` and `open` then say what there is instead.
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
        """Return the Message in a packet that begins at `pos` and stops at `stop`."""
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
            error.offset = pos + _PLACES[error.field] if error.field in _PLACES else start
            raise
        try:
            message, used = self._dialect.codec.read_message(plain, 0, len(plain))
            if used != len(plain) and self._strict:
                raise DecodeError("trailing_bytes", "message", used, f"{len(plain) - used} left")
        except DecodeError as error:
            # Within waste, a byte of the Message has no place of its own: name the content's.
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
        if self._tail_wanted and not self._head_follows(buf, pos, end):
            self._tail_wanted = False
            self._start_skipping(buf, pos)
            return SKIPPED, pos + _LENGTH
        self._tail_wanted = False
        kind = _type_at(buf, pos, end)
        if kind in _TICKS:
            return self._tick(buf, pos, end, PacketType(kind))
        if kind == _UNDEFINED and not self._strict:
            return self._undefined_type(buf, pos, end)
        # The codec of the original asks for no more than a tick when a packet has hardly begun.
        codec = PROTOCOL.codec("upstream") if end - pos < _HEAD else self._dialect.codec
        return cast("tuple[Packet, int]", codec.decode_packet(buf, pos, end, self.limit))

    def _tick(self, buf: bytes, pos: int, end: int, kind: PacketType) -> tuple[Packet, int]:
        """A tick at five bytes; what follows is looked at if it is there, and not waited for."""
        stop = pos + _HEAD
        tail = buf[stop : min(end, stop + _LENGTH)]
        if tail == _MAGIC:
            self._dialect.detected("upstream")
        elif len(tail) == _LENGTH and int.from_bytes(tail, "little") <= self.limit:
            self._start_skipping(buf, stop)
            stop += _LENGTH
        else:
            self._tail_wanted = True
        return _TICKS[kind], stop

    def _head_follows(self, buf: bytes, pos: int, end: int) -> bool:
        """Return whether the tick before `pos` was one of the original."""
        if end - pos < _LENGTH:
            raise NeedMore(_LENGTH - (end - pos))
        if not buf.startswith(_MAGIC, pos):
            return False
        self._dialect.detected("upstream")
        return True

    def _start_skipping(self, buf: bytes, pos: int) -> None:
        length = int.from_bytes(buf[pos : pos + _LENGTH], "little")
        if length > self.limit:
            raise DecodeError("too_large", "packet.length", pos, f"{length} over {self.limit}")
        self._skip = length
        self._dialect.detected("seed")

    def _undefined_type(self, buf: bytes, pos: int, end: int) -> tuple[Packet, int]:
        """Return a packet of type 3 as the original reads it: a message."""
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
    """Return the type of the packet at `pos`; None when it has not come so far, or is no packet."""
    return buf[pos + 4] & 3 if end - pos >= _HEAD and buf.startswith(_MAGIC, pos) else None


class PacketWriter:
    """The direction away from us. A call that raises has used up no number."""

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
        self._surely_fits = least - _MOST_OVERHEAD - self._spare
        self.number = 0
        """The number of the last packet; 0 before the first."""

    @property
    def limit(self) -> int:
        """The largest payload."""
        return self._limit if self._limit is not None else PAYLOAD_LIMITS[self._dialect.current]

    @property
    def is_plain(self) -> bool:
        """Whether the next packet has no options, and is not the first one."""
        return self._context.is_plain and self.access_id is not None

    @property
    def surely_fits(self) -> int:
        """Bytes of a Message that need not be measured."""
        return self._surely_fits

    def next_plain(self) -> int:
        """The number of a plain packet that somebody else writes; 0 when `is_plain` is not true."""
        number = self._context.write_plain()
        if number:
            self.number = number
        return number

    def message(self, message: Message, access_id: int) -> bytes:
        """Return a packet with the next number; the first one's access id stays (§3)."""
        try:
            return self.content(self._dialect.codec.write_message(message), access_id)
        except EncodeError as error:
            raise SessionError(error.code, str(error)) from error

    def content(self, plain: bytes, access_id: int) -> bytes:
        """Return the same for a Message that is bytes already. EncodeError too."""
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
        """To the byte, except that the most waste is counted that there can be."""
        codec, context = self._dialect.codec, self._context
        if self.access_id is not None:
            access_id = self.access_id
        envelope = Envelope(access_id=access_id, number=context.number + 1, content=plain)
        size = len(codec.encode_envelope(envelope)) - _LENGTH + self._spare
        if context.config.verify:
            size += _CHECK_BYTES[self._dialect.current]
        if size > self.limit:
            raise SessionError("too_large", f"payload of {size} bytes exceeds {self.limit}")

"""The fast path: requests answered while they are read, without an event.

An application that can answer some requests immediately sets `fast_handler`. A request without
options that has the next number and matches a known template is passed to it; all others, and those
that the handler declines, go through `endpoint.py`. So does a request that would overtake an event
that is still queued.

Matching compares bytes: only id, time and body of a request differ from the one before. Whatever
does not match exactly takes the full path, which alone reports errors. The reply is assembled from
bytes encoded once. Decoding a message costs 3.4 µs and encoding one 2.4 µs
(`benchmarks/results/wire.json`); the fast path does neither.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wirelake.wire.errors import DecodeError, NeedMore
from wirelake.wire.runtime import put_twos64, uvarint, write_uvarint

from ..sansio import CLOSED, SessionError, Side
from . import codec_seed
from .endpoint import Endpoint
from .layout import SUCCESS, Envelope, Message, Mode, Packet
from .message import ResultCode
from .packets import PLAIN

__all__ = [
    "HEADS",
    "HEAD_SIZE",
    "MAX_PAYLOAD",
    "SIZES",
    "Answer",
    "Deferred",
    "FastHandler",
    "FastPathRequests",
    "RequestTemplate",
    "access_piece",
    "learn_template",
    "size_at",
]


# -- templates: the bytes that repeat from packet to packet ----------------------------------------


MAX_PAYLOAD: Final = 4_096
"""The largest payload whose head is cached: beyond it, copying the body dominates."""
_MIN_PAYLOAD: Final = 2
"""The smallest payload: an access id and a number, of a byte each."""
_ZERO: Final = 1
"""Bytes of a varint 0, and of an empty body."""


def _packet(size: int) -> bytes:
    body = Envelope(access_id=0, number=0, content=bytes(size - _MIN_PAYLOAD))
    return codec_seed.encode_packet(Packet(body=body))


HEAD_SIZE: Final = len(_packet(_MIN_PAYLOAD)) - _MIN_PAYLOAD
"""Bytes of head, option and length."""


class _Heads(dict[int, bytes]):
    """Packet heads by payload size, each encoded on first use."""

    def __missing__(self, size: int) -> bytes:
        head = self[size] = _packet(size)[:HEAD_SIZE]
        SIZES[head] = size
        return head


HEADS: Final = _Heads()
"""Head, option and length by the size of the payload; equal in both dialects."""
SIZES: Final[dict[bytes, int]] = {}
"""The size of the payload by head, option and length, as far as `HEADS` has them."""


def size_at(buf: bytes, pos: int, end: int) -> int:
    """Return the size of the payload of the packet at `pos`, and cache its head.

    0 for a packet with options, an incomplete packet, or a large one.
    """
    if not buf.startswith(PLAIN, pos):
        return 0
    try:
        stop = codec_seed.scan_envelope(buf, pos + len(PLAIN), end, MAX_PAYLOAD)
    except (DecodeError, NeedMore):
        return 0
    size = stop - pos - HEAD_SIZE
    return size if size >= _MIN_PAYLOAD and buf.startswith(HEADS[size], pos) else 0


class RequestTemplate(msgspec.Struct, gc=False, eq=False):
    """The bytes that requests to one protocol on one line have in common, and their replies."""

    protocol: int
    line: int
    asked: bytes
    """The bytes of a request between its id and its time."""
    size: int
    """Bytes of `asked`."""
    answered: bytes
    """The bytes of a successful reply between its own id and that of the request."""
    target: Any = None
    """For the application: the service of the protocol number."""


def access_piece(codec: ModuleType, access_id: int) -> bytes:
    """Encode an access id as in a packet."""
    bare: bytes = codec.encode_envelope(Envelope(access_id=0, number=0, content=b""))
    whole: bytes = codec.encode_envelope(Envelope(access_id=access_id, number=0, content=b""))
    return whole[len(bare) - _MIN_PAYLOAD : -_ZERO]


def learn_template(codec: ModuleType, request: Message) -> RequestTemplate | None:
    """Return the template of a request; None if it needs the full path."""
    if request.mode != Mode.REQUEST or request.body is None:
        return None
    if request.forward_header is not None or request.headers is not None:
        return None
    asked: bytes = codec.write_message(
        Message(
            id=0,
            reserved=request.reserved,
            line=request.line,
            protocol=request.protocol,
            code=request.code,
            to_message=request.to_message,
            body=b"",
        )
    )
    answered: bytes = codec.write_message(
        Message(
            id=0,
            line=request.line,
            mode=Mode.RESPONSE,
            protocol=request.protocol,
            code=SUCCESS,
            body=b"",
        )
    )
    asked = asked[_ZERO : -2 * _ZERO]  # without id; time, body
    answered = answered[_ZERO : -3 * _ZERO]  # without id; to message, time, body
    return RequestTemplate(request.protocol, request.line, asked, len(asked), answered)


class Answer(NamedTuple):
    """A reply other than success with a body."""

    code: int
    body: bytes | None = None


class Deferred(Enum):
    """The reply comes later, through `FastPathRequests.reply_deferred`."""

    DEFERRED = "deferred"


FastHandler: TypeAlias = Callable[[RequestTemplate, bytes, bytes], bytes | Answer | Deferred | None]
"""Answers a request, given its template, its body, and its id as bytes.

Returns the body of a successful reply, an `Answer`, or `Deferred`. None means that the handler did
nothing: the request becomes an event.
"""

_MAX_TEMPLATES: Final = 8
"""Templates per connection. A client has few kinds of requests, and each template is compared."""
_LONGEST: Final = 9
"""Bytes of a varint that both dialects read alike: a tenth has surplus bits."""
_MORE: Final = 0x80
"""The continuation bit of a varint's byte."""
_MAX_REPLY_OVERHEAD: Final = 128
"""An upper bound of the bytes besides the body in the payload of a reply."""
_NO_TIME: Final = put_twos64(0, "message.time")
_LAST_ID: Final = 1 << 62
"""Ids above this are left to the full path, so that adding one cannot overflow."""


class FastPathRequests(Endpoint):
    """An endpoint with the fast path."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.fast_handler: FastHandler | None = None
        """Answers requests while they are read; None turns all of them into events."""
        self.too_large_answer = Answer(ResultCode.SERVER_ERROR)
        """The reply sent instead of one that is too large for a packet."""
        self._templates: list[RequestTemplate] = []
        self._peer_access = b""
        self._access = b""
        self._room = 0
        self._peer_time = _NO_TIME
        self._time = _NO_TIME
        self._time_at: float | None = None
        self._numbers_low_at = self.options.max_number - self.options.numbers_low

    # -- the application's side --------------------------------------------------------------

    def reply_deferred(
        self, kind: RequestTemplate, asked: bytes, answer: bytes | Answer, now: float
    ) -> None:
        """Answer a deferred request; `asked` is its id. Does nothing on a closed connection."""
        if self.state == CLOSED:
            return
        self._advance(now)
        self._unanswered_count -= 1
        if type(answer) is bytes and len(answer) <= self._room:
            self._reply(kind, asked, answer)
        else:
            number, _ = uvarint(asked, 0, len(asked), "message.id")
            self._reply_to(Message(id=number, line=kind.line, protocol=kind.protocol), answer)

    # -- learning templates ------------------------------------------------------------------

    def _on_request(self, message: Message) -> None:
        if (
            self.fast_handler is not None
            and self._is_plain
            and len(self._templates) < _MAX_TEMPLATES
        ):
            self._learn(message)
        super()._on_request(message)

    def _learn(self, message: Message) -> None:
        peer, own, codec = self._reader.access_id, self._writer.access_id, self._dialect.codec
        if peer is None or own is None or not self._writer.is_plain:
            return  # the first packet of a direction fixes the access id (§3)
        for known in self._templates:
            if known.protocol == message.protocol and known.line == message.line:
                return
        kind = learn_template(codec, message)
        if kind is None or not 0 <= self.next_id < _LAST_ID:
            return
        self._peer_access, self._access = access_piece(codec, peer), access_piece(codec, own)
        self._room = min(MAX_PAYLOAD, self._writer.surely_fits) - _MAX_REPLY_OVERHEAD
        self._templates.append(kind)

    # -- matching requests -------------------------------------------------------------------

    def _parse(self, buf: bytes) -> None:
        # With events queued the fast path waits: an earlier request that became an event must reach
        # the application before a later one is answered.
        if self._templates and self.fast_handler is not None and not self._events:
            pos = self._answer_fast_path_requests(buf, self.fast_handler)
            if pos:
                self._consumed += pos
                self._pong_tail_due = False
                if self.state == CLOSED:
                    return
                self._restart_timer("idle", self.options.idle_limit_s)
                if pos == len(buf):
                    return
                buf = buf[pos:]
        super()._parse(buf)

    def _answer_fast_path_requests(self, buf: bytes, fast_handler: FastHandler) -> int:
        """Answer the matching requests at the start of `buf`; return where they stop."""
        reader, room = self._reader, self._room
        pos, end, limit, number = 0, len(buf), reader.limit, reader.number
        most = self.options.max_pending
        while pos < end and self._unanswered_count < most:
            number += 1
            found = self._request_at(buf, pos, end, number)
            if found is None:
                break
            kind, id_at, asked, start, stop = found
            # Only the next number matches: the full path handles gaps and replays (§3).
            if stop - pos - HEAD_SIZE > limit or not reader.take_plain(number):
                break
            answer = fast_handler(kind, buf[start:stop], asked)
            if self.state == CLOSED:  # the application closed it meanwhile
                return stop
            if type(answer) is bytes and len(answer) <= room:
                self._reply(kind, asked, answer)
            elif answer is Deferred.DEFERRED:
                self._unanswered_count += 1
            else:
                self._packet_at = self._consumed + pos
                self._reply_otherwise(buf[id_at:stop], answer)
            pos = stop
            if self._events or self.state == CLOSED:
                break
        return pos

    def _request_at(
        self, buf: bytes, pos: int, end: int, number: int
    ) -> tuple[RequestTemplate, int, bytes, int, int] | None:
        """Match the request at `pos`.

        Return its template, the start of its Message, its id as bytes, and start and stop of its
        body; None if it has to take the full path.
        """
        # One dict lookup replaces decoding magic, option and length of a packet.
        size = SIZES.get(buf[pos : pos + HEAD_SIZE]) or size_at(buf, pos, end)
        at = pos + HEAD_SIZE
        stop = at + size
        before = self._peer_access + write_uvarint(number)
        if not size or stop > end or not buf.startswith(before, at):
            return None
        id_at = at = at + len(before)
        try:
            while buf[at] >= _MORE:
                at += 1
            at += 1
            asked = buf[id_at:at]
            for kind in self._templates:
                if buf.startswith(kind.asked, at):
                    break
            else:
                return None
            at = self._after_time(buf, at + kind.size)
            length = buf[at]
            at += 1
            if length >= _MORE:
                length, at = uvarint(buf, at - 1, stop, "message.body")
        except (DecodeError, IndexError):
            return None
        # The id is echoed as bytes, so it must be in the shortest form, which we would write too.
        if at + length != stop or (len(asked) > 1 and not asked[-1]) or len(asked) > _LONGEST:
            return None
        return kind, id_at, asked, at, stop

    def _after_time(self, buf: bytes, at: int) -> int:
        """Return where the time at `at` stops; it often equals the previous one."""
        if buf.startswith(self._peer_time, at):
            return at + len(self._peer_time)
        start = at
        while buf[at] >= _MORE:
            at += 1
        at += 1
        if at - start > _LONGEST:
            raise IndexError
        self._peer_time = buf[start:at]
        return at

    # -- replies -----------------------------------------------------------------------------

    def _reply(self, kind: RequestTemplate, asked: bytes, body: bytes) -> None:
        """Write a successful reply; `asked` is the id of the request."""
        number = self._writer.next_plain()
        own_id = self.next_id
        self.next_id = own_id + 1
        # All replies of one read have the same time: it is encoded once for them.
        if self.now != self._time_at:
            self._time_at = self.now
            self._time = put_twos64(self._time_ms(), "message.time")
        written = write_uvarint(number)
        payload = b"".join(
            (
                self._access,
                written,
                written if own_id == number else write_uvarint(own_id),
                kind.answered,
                asked,
                self._time,
                write_uvarint(len(body)),
                body,
            )
        )
        self._out += HEADS[len(payload)], payload
        self.sent_bytes += HEAD_SIZE + len(payload)
        if number >= self._numbers_low_at:
            self._check_numbers()

    def _reply_otherwise(self, plain: bytes, answer: bytes | Answer | None) -> None:
        """Decode the request in full and reply; without an answer it becomes an event."""
        request, _ = self._dialect.codec.read_message(plain, 0, len(plain))
        if answer is None:
            super()._on_request(request)
        else:
            self._reply_to(request, answer)

    def _reply_to(self, request: Message, answer: bytes | Answer) -> None:
        if isinstance(answer, bytes):
            answer = Answer(ResultCode.SUCCESS, answer)
        try:
            self._respond_now(request, answer)
        except SessionError as error:
            if error.code == "too_large":
                with contextlib.suppress(SessionError):
                    self._respond_now(request, self.too_large_answer)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self.fast_handler = None  # drop references to the application
        self._templates = []

    def _respond_now(self, request: Message, answer: Answer) -> None:
        message = self._response(request, answer.code, answer.body)
        self._put(message)
        self._after_write(message)

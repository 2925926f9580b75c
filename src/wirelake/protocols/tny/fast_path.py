"""Plain requests, answered while they are read.

An application that can answer some requests on the spot sets `at_once`. A plain request (see
`moulds.py`) with the next number is then given to it, and makes no event; all others, and those
that it does not want, take the long way of `conversation.py`. So does what would overtake an event
that has not been taken yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from wirelake.wire.errors import DecodeError
from wirelake.wire.runtime import (
    put_twos64,
    uvarint,
    write_uvarint,
)

from ..sansio import (
    CLOSED,
    SessionError,
    Side,
)
from .endpoint import Conversation
from .layout import Message
from .results import ResultCode
from .templates import (
    HEAD_SIZE,
    HEADS,
    MOST_PAYLOAD,
    SIZES,
    Kind,
    access_piece,
    learn,
    size_at,
)

__all__ = ["Answer", "AtOnce", "Later", "PlainRequests"]


class Answer(NamedTuple):
    """An answer that is not just a body and success."""

    code: int
    body: bytes | None = None


class Later(Enum):
    """The answer will come: `PlainRequests.reply_later`."""

    LATER = "later"


AtOnce: TypeAlias = Callable[[Kind, bytes, bytes], bytes | Answer | Later | None]
"""Answers a plain request, of which it gets the kind, the body, and the id as bytes.

Gives back the body of an answer of success, or an `Answer`, or `Later`, or None when it wants the
request as an event, and has done nothing yet.
"""

_KINDS: Final = 8
"""Kinds that are kept for one connection: a client has few kinds of plain requests."""
_LONGEST: Final = 9
"""Bytes of a varint that every dialect reads alike: a tenth has bits to spare."""
_MORE: Final = 0x80
"""The bit of a varint's byte that another one follows."""
_MOST_BESIDES: Final = 128
"""More bytes than there can be beside the body in the payload of an answer."""
_NO_TIME: Final = put_twos64(0, "message.time")
_LAST_ID: Final = 1 << 62
"""No session gets as far, unless it is told to start there."""


class PlainRequests(Conversation):
    """An end of a connection that answers its peer at once where it can."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.at_once: AtOnce | None = None
        """Answers plain requests while they are read; None lets all of them be events."""
        self.instead = Answer(ResultCode.SERVER_ERROR)
        """What is said instead of an answer that was given at once and does not fit a packet."""
        self._kinds: list[Kind] = []
        self._peer_access = b""
        self._access = b""
        self._room = 0
        self._peer_time = _NO_TIME
        self._time = _NO_TIME
        self._time_at: float | None = None
        self._numbers_low_at = self.options.max_number - self.options.numbers_low

    # -- the application's side --------------------------------------------------------------

    def reply_later(self, kind: Kind, asked: bytes, answer: bytes | Answer, now: float) -> None:
        """Answers a request that `at_once` put off; `asked` is its id. After the end of the
        connection it does nothing."""
        if self.state == CLOSED:
            return
        self._advance(now)
        self._asked_count -= 1
        if type(answer) is bytes and len(answer) <= self._room:
            self._reply(kind, asked, answer)
        else:
            number, _ = uvarint(asked, 0, len(asked), "message.id")
            self._reply_to(Message(id=number, line=kind.line, protocol=kind.protocol), answer)

    # -- what is learned ---------------------------------------------------------------------

    def _take_request(self, message: Message) -> None:
        if self.at_once is not None and self._is_plain and len(self._kinds) < _KINDS:
            self._learn(message)
        super()._take_request(message)

    def _learn(self, message: Message) -> None:
        peer, own, codec = self._reader.access_id, self._writer.access_id, self._speech.codec
        if peer is None or own is None or not self._writer.is_plain:
            return  # the first packet of a direction says more than others
        for known in self._kinds:
            if known.protocol == message.protocol and known.line == message.line:
                return
        kind = learn(codec, message)
        if kind is None or not 0 <= self.next_id < _LAST_ID:
            return
        self._peer_access, self._access = access_piece(codec, peer), access_piece(codec, own)
        self._room = min(MOST_PAYLOAD, self._writer.surely_fits) - _MOST_BESIDES
        self._kinds.append(kind)

    # -- what comes --------------------------------------------------------------------------

    def _parse(self, buf: bytes) -> None:
        if self._kinds and self.at_once is not None and not self._events:
            pos = self._answer_plain(buf, self.at_once)
            if pos:
                self._consumed += pos
                self._owes_tail = False
                if self.state == CLOSED:
                    return
                self._quiet_from_now("idle", self.options.idle_limit_s)
                if pos == len(buf):
                    return
                buf = buf[pos:]
        super()._parse(buf)

    def _answer_plain(self, buf: bytes, at_once: AtOnce) -> int:
        """Answers the plain requests that `buf` begins with; where they stop."""
        reader, room = self._reader, self._room
        pos, end, limit, number = 0, len(buf), reader.limit, reader.number
        most = self.options.max_pending
        while pos < end and self._asked_count < most:
            number += 1
            found = self._plain_at(buf, pos, end, number)
            if found is None:
                break
            kind, id_at, asked, start, stop = found
            if stop - pos - HEAD_SIZE > limit or not reader.take_plain(number):
                break
            answer = at_once(kind, buf[start:stop], asked)
            if self.state == CLOSED:  # the application has ended it meanwhile
                return stop
            if type(answer) is bytes and len(answer) <= room:
                self._reply(kind, asked, answer)
            elif answer is Later.LATER:
                self._asked_count += 1
            else:
                self._packet_at = self._consumed + pos
                self._reply_otherwise(buf[id_at:stop], answer)
            pos = stop
            if self._events or self.state == CLOSED:
                break
        return pos

    def _plain_at(
        self, buf: bytes, pos: int, end: int, number: int
    ) -> tuple[Kind, int, bytes, int, int] | None:
        """The request at `pos`: its kind, where its Message begins, its id as bytes, and where its
        body starts and stops. None when it has to take the long way, which finds out why."""
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
            for kind in self._kinds:
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
        if at + length != stop or (len(asked) > 1 and not asked[-1]) or len(asked) > _LONGEST:
            return None
        return kind, id_at, asked, at, stop

    def _after_time(self, buf: bytes, at: int) -> int:
        """Where the time at `at` stops: it is often the same as the last one."""
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

    # -- what is answered --------------------------------------------------------------------

    def _reply(self, kind: Kind, asked: bytes, body: bytes) -> None:
        """An answer of success; `asked` is the id of the request."""
        number = self._writer.next_plain()
        own_id = self.next_id
        self.next_id = own_id + 1
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
        """The same the long way; without an answer the request becomes an event."""
        request, _ = self._speech.codec.read_message(plain, 0, len(plain))
        if answer is None:
            super()._take_request(request)
        else:
            self._reply_to(request, answer)

    def _reply_to(self, request: Message, answer: bytes | Answer) -> None:
        if isinstance(answer, bytes):
            answer = Answer(ResultCode.SUCCESS, answer)
        try:
            self._say_at_once(request, answer)
        except SessionError as error:
            if error.code == "too_large":
                with contextlib.suppress(SessionError):
                    self._say_at_once(request, self.instead)

    def _close(self, reason: str, side: Side, *, clean: bool = True) -> None:
        super()._close(reason, side, clean=clean)
        self.at_once = None  # nothing holds on to the application any more
        self._kinds = []

    def _say_at_once(self, request: Message, answer: Answer) -> None:
        message = self._response(request, answer.code, answer.body)
        self._put(message)
        self._after_write(message)

"""Plain requests, answered while they are read.

An application that can answer some requests on the spot sets `at_once`. A plain request (see
`moulds.py`) with the next number is then given to it, and makes no event; all others, and those
that it does not want, take the long way of `conversation.py`. So does what would overtake an event
that has not been taken yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from wirehouse.protocols.sansio import CLOSED, SessionError
from wirehouse.wire.errors import DecodeError
from wirehouse.wire.runtime import put_twos64, uvarint, write_uvarint

from .conversation import Conversation
from .layout import Message
from .moulds import HEAD_SIZE, HEADS, MOST_PAYLOAD, SIZES, Kind, access_piece, learn, size_at
from .results import ResultCode

__all__ = ["Answer", "AtOnce", "PlainRequests"]


class Answer(NamedTuple):
    """An answer that is not just a body and success."""

    code: int
    body: bytes | None = None


AtOnce: TypeAlias = Callable[[Kind, bytes], bytes | Answer | None]
"""Answers a plain request, of which it gets the kind and the body.

Gives back the body of an answer of success, or an `Answer`, or None when it wants the request as an
event, and has done nothing yet.
"""

_KINDS: Final = 8
"""Kinds that are kept for one connection: a client has few kinds of plain requests."""
_LONGEST: Final = 9
"""Bytes of a varint that every dialect reads alike: a tenth has bits to spare."""
_MOST_BESIDES: Final = 128
"""More bytes than there can be beside the body in the payload of an answer."""
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
        self._peer_time = NO_TIME
        self._time = NO_TIME
        self._time_at = -1.0
        self._numbers_low_at = self.options.max_number - self.options.numbers_low

    # -- what is learned ---------------------------------------------------------------------

    def _take_request(self, message: Message) -> None:
        if self.at_once is not None and self._is_plain and len(self._kinds) < _KINDS:
            self._learn(message)
        super()._take_request(message)

    def _learn(self, message: Message) -> None:
        peer, own, codec = self._reader.access_id, self._writer.access_id, self._speech.codec
        if peer is None or own is None or not self._writer.is_plain:
            return  # the first packet of a direction says more than others
        kind = learn(codec, message)
        if kind is None or not 0 <= self.next_id < _LAST_ID:
            return
        if any(kind.asked == known.asked for known in self._kinds):
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
        while pos < end:
            number += 1
            found = self._plain_at(buf, pos, end, number)
            if found is None:
                break
            kind, asked, start, stop = found
            if stop - pos - HEAD_SIZE > limit or not reader.take_plain(number):
                break
            answer = at_once(kind, buf[start:stop])
            if self.state == CLOSED:  # the application has ended it meanwhile
                return stop
            if type(answer) is bytes and len(answer) <= room:
                self._reply(kind, asked, answer)
            else:
                self._packet_at = self._consumed + pos
                self._answer_long(self._message_at(buf, start, stop, kind, asked), answer)
            pos = stop
            if self._events or self.state == CLOSED:
                break
        return pos

    def _plain_at(
        self, buf: bytes, pos: int, end: int, number: int
    ) -> tuple[Kind, bytes, int, int] | None:
        """The request at `pos`: its kind, its id as bytes, and where its body starts and stops.

        None when it has to take the long way, which finds out why.
        """
        size = SIZES.get(buf[pos : pos + HEAD_SIZE]) or size_at(buf, pos, end)
        at = pos + HEAD_SIZE
        stop = at + size
        before = self._peer_access + write_uvarint(number)
        if not size or stop > end or not buf.startswith(before, at):
            return None
        id_at = at + len(before)
        at = varint_stop(buf, id_at, stop)

        return None

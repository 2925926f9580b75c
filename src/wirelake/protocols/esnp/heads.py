"""Heads that a peer keeps sending: plain requests, read and answered without looking at every row.

Most requests of a connection differ in their id and their body alone. The rows before the body are
then the same bytes each time, but for the id, and so are those of the answer. A `Head` is learned
from a request that went through all gates (`requests.py`), with the codec's own bytes; a request
that does not begin with a known one, or whose body has other rows than a plain one, goes through
the gates again.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import msgspec

from .bodies import Quick
from .layout import (
    Address,
    Data,
    Flag,
    FlagType,
    Header,
    Message,
    MessageId,
    Payload,
    Row,
    SourceMessageId,
    XData,
)
from .message import address
from .message_summary import ASYNC, Facts
from .replies import reply_to

__all__ = ["ID_SIZE", "PLAIN_BODY", "Head", "learn"]

PLAIN_BODY: Final = frozenset({Data, Payload, Header, XData})
"""Body rows that mean nothing to the session: a reply does not carry them back."""
ID_SIZE: Final = 8
"""Bytes of an id."""
_PLAIN_HEAD: Final = frozenset({Flag, Address, MessageId})
_PLAIN_FLAGS: Final = (
    frozenset({int(FlagType.REQUEST)}),
    frozenset({int(FlagType.REQUEST), ASYNC}),
)
_NO_ID: Final = bytes(ID_SIZE)


class Head(msgspec.Struct, gc=False, eq=False):
    """The bytes before and after the id, of the request and of its answer."""

    rows: tuple[Row, ...]
    """The rows of the request that it was learned from."""
    before: bytes
    after: bytes
    reply_before: bytes
    reply_after: bytes
    service: str
    op: str
    concurrent: bool
    """Whether the peer allows answers out of order."""
    after_at: int
    """Bytes from the beginning to those after the id."""
    size: int
    """Bytes from the beginning to the body."""
    target: Any = None
    """For the application: what it has found at this address."""
    quick: Quick | None = None
    """For the application: a body that comes again and again, and what to do with it."""
    learned: int = 0
    """How often `quick` was set: who sends another body each time gains nothing by it."""

    def is_of(self, message: Message, data: bytes) -> bool:
        """Whether it is the whole head of a message whose bytes are `data`."""
        if not (data.startswith(self.before) and data.startswith(self.after, self.after_at)):
            return False
        body = message.rows[len(self.rows) :]
        return not body or type(body[0]) not in _PLAIN_HEAD


def learn(
    codec: ModuleType, message: Message, facts: Facts, data: bytes, concurrent: bool
) -> Head | None:
    """The head of a plain request whose bytes are `data`; None when it is not plain."""
    if facts.flags not in _PLAIN_FLAGS or facts.odd or not facts.id:
        return None
    kinds = [type(row) for row in message.rows]
    count = next((at for at, kind in enumerate(kinds) if kind not in _PLAIN_HEAD), len(kinds))
    if not PLAIN_BODY.issuperset(kinds[count:]):
        return None
    rows = message.rows[:count]
    before, after = _around_id(codec, rows, MessageId)
    after_at = len(before) + ID_SIZE
    if not data.startswith(before) or not data.startswith(after, after_at):
        return None  # the same rows can be written in other bytes
    reply = _around_id(codec, reply_to(Message(rows=rows)).rows, SourceMessageId)
    where = address(message)
    size = after_at + len(after)
    names = where.service or "", where.op or ""
    return Head(rows, before, after, *reply, *names, concurrent, after_at, size)


def _around_id(codec: ModuleType, rows: tuple[Row, ...], cls: type) -> tuple[bytes, bytes]:
    at = next(index for index, row in enumerate(rows) if isinstance(row, cls))
    end = codec.encode_message(Message())
    upto: bytes = codec.encode_message(Message(rows=(*rows[:at], cls(value=0))))
    rest: bytes = codec.encode_message(Message(rows=rows[at + 1 :]))
    return upto.removesuffix(_NO_ID + end), rest.removesuffix(end)

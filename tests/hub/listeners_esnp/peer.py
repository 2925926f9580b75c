"""A peer that speaks ESNP over a real socket: messages by hand, and none of the session's rules.

async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
    answer = await peer.call("test/add", a=1, b=2)
    assert values_of(answer.rows) == {"c": 3}
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from tests.hub.running import DEADLINE_S, Running, running

from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols.esnp import codec_seed
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Error,
    Flag,
    FlagType,
    Message,
    MessageId,
    Row,
    SeqNo,
    SourceMessageId,
)
from wirelake.protocols.esnp.message import seq, source_message_id
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.wire.errors import NeedMore

T = TypeVar("T")

REQUEST = Flag(value=FlagType.REQUEST)
INFO = Flag(value=FlagType.INFO)
EVENT = Flag(value=FlagType.EVENT)
ASYNC = Flag(value=FlagType.ASYNC)
TRACE = Flag(value=FlagType.TRACE)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Runs a test, for a while."""
    asyncio.run(asyncio.wait_for(test, 3 * DEADLINE_S))


def esnp_hub(**options: Any) -> AbstractAsyncContextManager[Running]:
    """A hub with this listener alone, and the services for trying out."""
    options.setdefault("services", demo_services())
    return running(listeners=["esnp"], **options)


def to(url: str) -> tuple[Row, ...]:
    """The ADDRESS rows of `service/op`."""
    service, _, op = url.partition("/")
    return (
        Address(kind=AddressKind.SERVICE, value=service),
        Address(kind=AddressKind.OP, value=op),
    )


class Peer:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer
        self.codec: Any = codec_seed
        self._held = b""
        self._number = 0

    def write(self, *rows: Row) -> None:
        """Sends a message of these rows."""
        self.writer.write(self.codec.encode_message(Message(rows=rows)))

    def ask(self, url: str, *rows: Row, flags: Iterable[Flag] = (REQUEST,), **values: Any) -> int:
        """Sends a request, and returns its number."""
        self._number += 1
        number = MessageId(value=self._number)
        self.write(*flags, *to(url), number, *data_rows(values), *rows)
        return self._number

    def tell(self, url: str, *rows: Row, **values: Any) -> None:
        """Sends an event."""
        self.write(EVENT, *to(url), *data_rows(values), *rows)

    async def message(self) -> Message:
        """The next message."""
        while True:
            try:
                found, stop = self.codec.decode_message(self._held, 0, len(self._held))
            except NeedMore:
                data = await asyncio.wait_for(self.reader.read(65_536), DEADLINE_S)
                assert data, "the hub has closed the connection"
                self._held += data
            else:
                self._held = self._held[stop:]
                assert isinstance(found, Message)
                return found

    async def call(self, url: str, *rows: Row, **values: Any) -> Message:
        """Asks, and waits for the answer, which must be the next message."""
        number = self.ask(url, *rows, **values)
        answer = await self.message()
        assert source_message_id(answer) == number
        return answer

    async def ok(self, url: str, *rows: Row, **values: Any) -> dict[str, Any]:
        """The values of an answer that is no error."""
        answer = await self.call(url, *rows, **values)
        assert error_of(answer) is None
        return values_of(answer.rows)

    async def refusal(self, url: str, *rows: Row, **values: Any) -> str:
        """The text of an answer that is an error."""
        text = error_of(await self.call(url, *rows, **values))
        assert text is not None
        return text

    async def notified(self) -> dict[str, Any]:
        """The next message, which must be a notification."""
        message = await self.message()
        assert message.rows[:3] == (EVENT, *to("hub/notify"))
        return values_of(message.rows)

    async def closed(self) -> None:
        """Waits until the hub closes, having said nothing more."""
        data = await asyncio.wait_for(self.reader.read(), DEADLINE_S)
        assert self._held + data == b""

    async def close(self) -> None:
        """Goes away."""
        self.writer.close()
        with contextlib.suppress(OSError):  # the hub was first
            await self.writer.wait_closed()


def error_of(message: Message) -> str | None:
    """The text of the ERROR row."""
    return next((row.value for row in message.rows if isinstance(row, Error)), None)


def flags_of(message: Message) -> set[int]:
    """The flags of a message."""
    return {row.value for row in message.rows if isinstance(row, Flag)}


def part_of(message: Message) -> tuple[int, int] | None:
    """The two numbers of a part."""
    return seq(message)


def is_head_first(message: Message) -> bool:
    """Whether head rows come before body rows, in an answer of the hub."""
    head = (Flag, Error, SeqNo, SourceMessageId, Address)
    kinds = [isinstance(row, head) for row in message.rows]
    return kinds == sorted(kinds, reverse=True)


@asynccontextmanager
async def connected(it: Running, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """A connection that has not signed on."""
    host, port = it.address("esnp")
    name = "localhost" if tls is not None else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        await peer.close()


@asynccontextmanager
async def signed_on(
    it: Running, client: str, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Peer]:
    """A connection of a client."""
    async with connected(it, tls) as peer:
        assert await peer.ok("hub/auth", id=client, token=it.tokens[client]) == {"id": client}
        yield peer

"""A tny client for tests: a sans-IO session over a real socket."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.hub.running import DEADLINE_S

from wirelake.protocols.sansio import Closed
from wirelake.protocols.tny.endpoint import CallFailed, Ponged, Pushed, Replied
from wirelake.protocols.tny.layout import Message
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.session import ClientSession


class TnyClient:
    """One connection; answers and pushes are waited for, with a deadline."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        options: ClientOptions | None = None,
    ):
        loop = asyncio.get_running_loop()
        self.session = ClientSession(options, access_id=7, random=bytes, now=loop.time())
        self.writer = writer
        self.pushes: asyncio.Queue[Message] = asyncio.Queue()
        self._pongs: asyncio.Queue[Ponged] = asyncio.Queue()
        self.closed: asyncio.Future[str] = loop.create_future()
        """Why the connection ended."""
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._reader = reader
        self._task = asyncio.ensure_future(self._read())

    async def call(self, protocol: int, body: Any = None) -> Message:
        """Asks, and waits for the answer; a body that is no bytes is sent as JSON."""
        return await asyncio.wait_for(self.ask(protocol, body), DEADLINE_S)

    def ask(self, protocol: int, body: Any = None, **headers: Any) -> asyncio.Future[Message]:
        """Asks; the future has the answer."""
        loop = asyncio.get_running_loop()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        number = self.session.request(protocol, data, **headers, timeout_s=3600.0, now=loop.time())
        answer = self._answers[number] = loop.create_future()
        self._flush()
        return answer

    def push(self, protocol: int, body: bytes) -> None:
        """Tells something."""
        self.session.push(protocol, body)
        self._flush()

    async def ping(self) -> None:
        """Asks whether the other end is there, and waits for the answer."""
        self.session.ping()
        self._flush()
        await asyncio.wait_for(self._pongs.get(), DEADLINE_S)

    async def sign_on(self, name: str, token: str) -> Message:
        """Protocol 10."""
        return await self.call(10, {"id": name, "token": token})

    async def next_push(self) -> Message:
        """The next push."""
        return await asyncio.wait_for(self.pushes.get(), DEADLINE_S)

    async def ended(self) -> str:
        """Waits for the end of the connection; the reason."""
        return await asyncio.wait_for(asyncio.shield(self.closed), DEADLINE_S)

    async def close(self) -> None:
        """Closes the connection."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self.writer.close()
        with suppress(OSError, ssl.SSLError):
            await self.writer.wait_closed()

    async def _read(self) -> None:
        with suppress(ConnectionError):
            while data := await self._reader.read(65_536):
                self.session.receive(data, asyncio.get_running_loop().time())
                self._heard()
        self.session.receive_eof()
        self._heard()

    def _heard(self) -> None:
        for event in self.session.events():
            if isinstance(event, Replied):
                self._settle(event.request.id, event.response)
            elif isinstance(event, Pushed):
                self.pushes.put_nowait(event.message)
            elif isinstance(event, Ponged):
                self._pongs.put_nowait(event)
            elif isinstance(event, CallFailed):
                answer = self._answers.pop(event.request.id)
                answer.set_exception(ConnectionError(event.code))
                answer.exception()  # a test that does not look at it need not
            elif isinstance(event, Closed) and not self.closed.done():
                self.closed.set_result(event.reason)
        self._flush()

    def _settle(self, number: int, response: Message) -> None:
        answer = self._answers.pop(number)
        if not answer.done():
            answer.set_result(response)

    def _flush(self) -> None:
        data = self.session.to_send()
        if data:
            self.writer.write(data)


@asynccontextmanager
async def tny_client(
    address: tuple[str, int],
    options: ClientOptions | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[TnyClient]:
    """A client that is connected."""
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    client = TnyClient(reader, writer, options)
    try:
        yield client
    finally:
        await client.close()


def body_of(message: Message) -> Any:
    """The JSON body of a message."""
    return json.loads(message.body or b"null")

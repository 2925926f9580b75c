"""A client for tests of listeners: a client session driven over a socket."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

from tests.hub.running import DEADLINE_S

from wirelake.protocols.sansio import Event, Session

_Kind = TypeVar("_Kind", bound=Event)


class SessionClient:
    """Drives a session over a real socket; events wait until somebody asks for them."""

    session: Any

    def __init__(
        self, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ):
        self.session = session
        self.reader = reader
        self.writer = writer
        self.events: list[Event] = []

    def write(self) -> None:
        """Sends what the session has to say."""
        self.events += self.session.events()
        data = self.session.to_send()
        if data:
            self.writer.write(data)

    async def read(self) -> bool:
        """Takes what comes next; False at the end of the stream."""
        data = await asyncio.wait_for(self.reader.read(65536), DEADLINE_S)
        now = asyncio.get_running_loop().time()
        if data:
            self.session.receive(data, now)
        else:
            self.session.receive_eof()
        self.write()
        return bool(data)

    async def next(
        self, kind: type[_Kind], where: Callable[[_Kind], bool] = lambda _: True
    ) -> _Kind:
        """The next event of a kind; those of other kinds stay."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and where(event):
                    self.events.remove(event)
                    return event
            if self.session.closed:
                raise AssertionError(f"closed before {kind.__name__}: {self.events}")
            await self.read()

    async def ended(self) -> bytes:
        """Waits for the end of the stream; gives what came after the session was over."""
        rest = b""
        while not self.session.closed and await self.read():
            pass
        while data := await asyncio.wait_for(self.reader.read(65536), DEADLINE_S):
            rest += data
        return rest

    async def hang_up(self) -> None:
        """Closes the socket."""
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


async def dial(
    address: tuple[str, int], tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A socket to a listener."""
    name = None if tls is None else "localhost"
    return await asyncio.wait_for(
        asyncio.open_connection(*address, ssl=tls, server_hostname=name), DEADLINE_S
    )

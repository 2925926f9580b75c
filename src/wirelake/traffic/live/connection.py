"""A client's end of one TCP connection: a session, a socket, and a ledger beside them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from wirelake.protocols.sansio import (
    Closed,
    Event,
    Failed,
)

from ..plan import SimulateError
from .hub_address import DEADLINE_S
from .journal import Ledger

__all__ = ["Line", "dial"]

_Line = TypeVar("_Line", bound="Line")


class Line(asyncio.Protocol):
    """Drives a session. What a protocol does about its events is a subclass's to say.

    Heartbeats and deadlines of sessions are not wanted here: nothing is said that was not decided,
    so nobody calls `on_timer`.
    """

    protocol: ClassVar[str]
    """As the table `connections` has it."""

    def __init__(self, ledger: Ledger, session: Any):
        self.ledger = ledger
        self.session = session
        self.contact = ledger.contact(self.protocol)
        self.read_ns = 0
        """The wall clock after the last read."""
        self.transport: Any = None
        self.loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        """Done when the socket is closed."""
        self.leaving = False
        """Whether the end of the connection is what we want."""
        self._left_alone = ""

    # -- what asyncio calls ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The hub has taken the connection."""
        self.transport = transport
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.contact.address, self.contact.port = transport.get_extra_info("sockname")[:2]
        self.contact.server_port = transport.get_extra_info("peername")[1]

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.read_ns = time.time_ns()
        self.contact.bytes_s2c += len(data)
        self.session.receive(data, self.loop.time())
        self.react()

    def eof_received(self) -> bool:
        """The hub will say no more."""
        self._left_alone = "the hub closed it"
        self.session.receive_eof()
        self.react()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        if not self.gone.done():
            self.gone.set_result(None)
        if not self.leaving:
            self._left_alone = str(exc or self._left_alone or "the hub closed it")
        self.on_end()

    # -- what a protocol gives ---------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Acts on an event of the session, other than `Failed` and `Closed`."""

    def on_failed(self, event: Failed) -> None:
        """The session says that a rule was broken."""

    def on_closed(self, event: Closed) -> None:
        """The session is over."""

    def on_end(self) -> None:
        """The connection is over: whoever waits for something waits in vain."""

    # -- talking -----------------------------------------------------------------------------

    def react(self) -> None:
        """Acts on what the session has to say, and writes what it has to send."""
        for event in self.session.events():
            if isinstance(event, Failed):
                self._left_alone = self._left_alone or f"{event.code} {event.detail}".strip()
                self.on_failed(event)
            elif isinstance(event, Closed):
                self.on_closed(event)
            else:
                self.on_event(event)
        self.flush()

    def flush(self) -> None:
        """Writes what the session has to send."""
        data = self.session.to_send()
        if data:
            self.write(data)

    def write(self, data: bytes) -> None:
        """Writes bytes of messages."""
        self.contact.bytes_c2s += len(data)
        self.transport.write(data)

    def check(self) -> None:
        """SimulateError when the connection has ended against our will."""
        if self._left_alone and not self.leaving:
            raise self.trouble()

    def trouble(self) -> SimulateError:
        """What to say when the connection has ended against our will."""
        who = self.contact.client or f"{self.contact.address}:{self.contact.port}"
        return SimulateError(
            f"the hub and {who} ({self.protocol}) parted too early: "
            f"{self._left_alone or 'no answer in time'}; its log says more"
        )

    async def hang_up(self) -> None:
        """Closes the socket; everything that was written goes first."""
        self.leaving = True
        self.transport.close()
        await self.ended()

    async def ended(self) -> None:
        """Waits until the socket is closed, by whomever."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.shield(self.gone)
        except TimeoutError as error:
            raise self.trouble() from error

    def abandon(self) -> None:
        """Closes the socket at once: the performance is given up."""
        self.leaving = True
        if self.transport is not None:
            self.transport.abort()


async def dial(address: tuple[str, int], make: Callable[[], _Line]) -> _Line:
    """A connection to a door of the hub."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DEADLINE_S):
            _, line = await loop.create_connection(make, *address)
    except (OSError, TimeoutError) as error:
        raise SimulateError(f"{address[0]}:{address[1]}: cannot connect ({error})") from error
    return line

"""Live clients on magline: devices without a key of the hub; they resume with a ticket."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from typing import Any, ClassVar, Final

from wirelake.protocols.magline import session as magline
from wirelake.protocols.magline.binding import BINDING
from wirelake.protocols.sansio import Event

from ..calling import CallingClient, CallingPopulation, operation_numbers
from ..journal import Journal
from ..population import MalformedFrame

__all__ = ["POPULATIONS", "Device"]

_COMMANDS: Final = operation_numbers(BINDING)
"""Business commands."""
_FIN_SHARE: Final = 0.5
"""Share of devices that close their session with FIN."""


class Device(CallingClient):
    """A device."""

    protocol: ClassVar[str] = "magline"

    def __init__(
        self, journal: Journal, key: magline.ClientKey, ticket: magline.Ticket | None = None
    ):
        now = asyncio.get_running_loop().time()
        session = magline.ClientSession(key=key, entropy=os.urandom, ticket=ticket, now=now)
        super().__init__(journal, session)
        self.ready: asyncio.Future[None] = self.loop.create_future()
        """Done when calls may be made."""
        if ticket is not None:
            self.entry.resumed = False

    async def handshake(self) -> None:
        """Exchange SYN and ACK; with a ticket also PIN and PON, which end the old session."""
        self.session.connect()
        self.entry.sent("handshake", "syn")
        self.flush()
        await self.wait_for(self.ready)

    def send_request(self, operation: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """Send a REQ whose data is JSON."""
        command = _COMMANDS[operation]
        number = self.session.send(magline.Request(command, json.dumps(arguments).encode()))
        self.entry.sent("request", "req")
        return str(command), number

    def on_event(self, event: Event) -> None:
        """Handle the handshake, a response or a push."""
        if isinstance(event, magline.Established):
            self.entry.received("handshake", "ack")
            if event.resumed:
                self.entry.sent("heartbeat", "pin")
                self.entry.heartbeats += 1
            else:
                self.complete(self.ready)
        elif isinstance(event, magline.Resumed):
            self.entry.resumed = True
            self.complete(self.ready)
        elif isinstance(event, magline.Ponged):
            self.entry.received("heartbeat", "pon")
        elif isinstance(event, magline.Replied):
            self.entry.received("response", "rep")
            self.on_response(event.seq, "ok", self.read_ns, json.loads(event.data or b"{}"))
        elif isinstance(event, magline.RequestFailed):
            self.entry.received("response", "err")
            self.on_response(event.seq, str(event.error_number), self.read_ns, None)
        elif isinstance(event, magline.Pushed):
            self.entry.received("push", "psh")
            self.on_notification(str(json.loads(event.data)["id"]))
        elif isinstance(event, magline.Refused):
            self.entry.received("control", "err")
        elif isinstance(event, magline.Finished):
            self.entry.received("control", "fin")

    def on_disconnect(self) -> None:
        """Fail the calls in flight, and the handshake."""
        super().on_disconnect()
        self.fail(self.ready)

    async def finish(self) -> None:
        """Close the session with FIN, and disconnect."""
        self.closing = True
        self.session.close()
        self.entry.sent("control", "fin")
        self.entry.close_reason = "normal"
        self.process_events()
        await self.disconnect()


def _frame(first: int, version: int, command: int, seq: int, size: int) -> bytes:
    return struct.pack(">BBHHHII", first, version, command, 0, 0, seq, size)


class _Devices(CallingPopulation):
    listener = "magline"
    callers = (7, 1)
    members = (4, 1)
    malformed = (
        MalformedFrame("bad_magic", bytes(16)),
        MalformedFrame("bad_version", _frame(0x7E, 0x11, 4, 2, 0)),
    )

    async def connect(self, ticket: Any = None) -> CallingClient:
        """Connect a device, and agree on keys."""
        key = magline.ClientKey(allow_anonymous=True)
        journal = self.run.journal
        device = await self.run.connect(self.listener, lambda: Device(journal, key, ticket))
        await device.handshake()
        return device

    def ticket_of(self, client: CallingClient) -> Any:
        """Return the ticket of a device."""
        return client.session.ticket

    async def leave(self, client: CallingClient) -> None:
        """Disconnect a device, with or without FIN."""
        assert isinstance(client, Device)
        if self.run.rng.random() < _FIN_SHARE:
            self.run.connections.discard(client)
            await client.finish()
        else:
            await super().leave(client)


POPULATIONS: Final = (_Devices,)
"""The kinds of live clients of this protocol."""

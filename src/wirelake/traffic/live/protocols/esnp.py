"""Live clients on ESNP: services that call others; some calls may be answered out of order."""

from __future__ import annotations

import asyncio
import random
from typing import Any, ClassVar, Final

from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.protocols.sansio import Event, Role

from ..calling import CallingClient, CallingPopulation
from ..journal import Journal
from ..population import MalformedFrame

__all__ = ["POPULATIONS", "Service"]

_CALLS_FIRST: Final = 0.2
"""Share of callers that call before they sign on; the hub refuses the call."""


class Service(CallingClient):
    """A service."""

    protocol: ClassVar[str] = "esnp"

    def __init__(self, journal: Journal, rng: random.Random):
        session = esnp_session.EsnpSession(
            Role.CLIENT,
            first_id=rng.randrange(1, 1 << 40),
            now=asyncio.get_running_loop().time(),
        )
        super().__init__(journal, session)
        self.in_any_order = rng.random() < 0.7

    def send_request(self, operation: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """Send a REQUEST with the arguments as DATA rows."""
        service, _, op = operation.partition("/")
        rows = (
            esnp.Address(kind=esnp.AddressKind.SERVICE, value=service),
            esnp.Address(kind=esnp.AddressKind.OP, value=op),
            *data_rows(arguments),
        )
        flags = (esnp.FlagType.ASYNC,) if self.in_any_order else ()
        number = self.session.request(rows, more_flags=flags)
        self.entry.sent("request", "request")
        return operation, number

    def on_event(self, event: Event) -> None:
        """Handle a response or a notification."""
        if isinstance(event, esnp_session.Answered):
            self.entry.received("response", "response")
            status = "ok" if event.error is None else "error"
            self.on_response(event.id, status, self.read_ns, values_of(event.message.rows))
        elif isinstance(event, esnp_session.Announced):
            self.entry.received("event", "event")
            self.on_notification(str(values_of(event.message.rows)["id"]))


class _Services(CallingPopulation):
    listener = "esnp"
    callers = (14, 2)
    members = (6, 2)
    malformed = (
        MalformedFrame("bad_end", b"\x00\x00\x00\x02??"),
        MalformedFrame("bad_end", b"\x1f\x00\x00\x02ok\x00\x00\x00\x01?"),
    )

    async def connect(self, ticket: Any = None) -> CallingClient:  # noqa: ARG002
        """Connect a service."""
        run = self.run
        return await run.connect(self.listener, lambda: Service(run.journal, run.rng))

    async def arrive(self, name: str) -> CallingClient:
        """Connect a caller; some call before they sign on."""
        if self.run.rng.random() > _CALLS_FIRST:
            return await super().arrive(name)
        client = await self.connect()
        await client.call("test/add", a=1, b=2)
        await client.sign_on(name, self.run.tokens[name])
        return client


POPULATIONS: Final = (_Services,)
"""The kinds of live clients of this protocol."""

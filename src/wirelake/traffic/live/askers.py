"""Those who call services of the hub: over ESNP, tny and magline, directly or in a tunnel.

All of them ask for the same deeds by name; what a deed is called on the wire is the protocol's to
say. Calls are pipelined: several are under way, and each is matched by its id.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from abc import abstractmethod
from typing import Any, ClassVar, Final

from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.protocols.hub_calls import CALLS, HUB_SERVICE
from wirelake.protocols.magline import session as magline
from wirelake.protocols.sansio import Event, Role
from wirelake.protocols.tny import session as tny

from ..plan import SimulateError
from .connection import Line
from .hub_address import DEADLINE_S
from .journal import (
    Asked,
    Contact,
    Ledger,
)
from .listeners import Listener

__all__ = ["DEEDS", "Asker", "Device", "Player", "Service"]

DEEDS: Final[dict[str, int]] = {
    **{f"{HUB_SERVICE}/{call.name}": call.number for call in CALLS.values()},
    "test/echo": 1001,
    "test/add": 1002,
    "test/sleep": 1003,
    "test/fail": 1004,
}
"""What may be asked, with the number that tny has for it. magline writes the four digits of a
service in hexadecimal."""
_TO_MAGLINE: Final = {
    number: number if number < 100 else int(str(number), 16) for number in DEEDS.values()
}
_OK: Final = "ok"
_NS: Final = 1_000_000


class Asking:
    """Calls under way, and their answers."""

    ledger: Ledger
    contact: Contact

    def __init__(self) -> None:
        self.open: dict[int, tuple[Asked, asyncio.Future[Any]]] = {}

    @abstractmethod
    def put(self, deed: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """Hands a request to the session; gives its target and its id."""

    @abstractmethod
    def send_out(self) -> None:
        """Writes what was handed to the session."""

    @abstractmethod
    def trouble(self) -> SimulateError:
        """What to say when no answer comes."""

    def post(self, deed: str, **arguments: Any) -> asyncio.Future[Any]:
        """Asks; the answer is a mapping, or the status of a failure as a text."""
        asked_ns = time.time_ns()
        target, number = self.put(deed, arguments)
        least = int(arguments["ms"]) * _NS if deed == "test/sleep" else 0
        call = self.ledger.ask(self.contact, target, number, asked_ns, least)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.open[number] = call, future
        self.send_out()
        return future

    async def ask(self, deed: str, **arguments: Any) -> Any:
        """Asks, and waits for the answer."""
        return (await self.all_of([self.post(deed, **arguments)]))[0]

    async def all_of(self, calls: list[asyncio.Future[Any]]) -> list[Any]:
        """Waits for the answers."""
        _, late = await asyncio.wait(calls, timeout=DEADLINE_S)
        if late:
            raise self.trouble()
        return [each.result() for each in calls]

    async def must(self, deed: str, **arguments: Any) -> Any:
        """Asks what cannot fail."""
        found = await self.ask(deed, **arguments)
        if not isinstance(found, dict):
            raise SimulateError(f"the hub refuses {deed} ({found}); it has to run with --demo")
        return found

    async def sign_on(self, client: str, token: str) -> None:
        """Says who it is."""
        await self.must("hub/auth", id=client, token=token)
        self.contact.client = client

    def answered(self, number: int, status: str, read_ns: int, answer: Any) -> None:
        """An answer came."""
        call, future = self.open.pop(number)
        call.answer(status, read_ns)
        self.contact.failures += status != _OK
        if not future.done():
            future.set_result(answer if status == _OK else status)

    def lose_all(self) -> None:
        """Hangs up on calls under way: they are lost, by our own will."""
        for call, future in self.open.values():
            call.lose()
            future.cancel()
        self.open.clear()

    def give_up(self) -> None:
        """The connection is over: no answer will come."""
        for _, future in self.open.values():
            if not future.done():
                future.set_exception(self.trouble())
                future.exception()  # whoever waits gets it; nobody may be left who does
        self.open.clear()


class Asker(Line, Asking, Listener):
    """Somebody with a connection of its own."""

    def __init__(self, ledger: Ledger, session: Any):
        Line.__init__(self, ledger, session)
        Asking.__init__(self)
        Listener.__init__(self)

    def send_out(self) -> None:
        """Writes what was handed to the session."""
        self.check()
        self.flush()

    def on_end(self) -> None:
        """No answer will come."""
        self.give_up()

    @property
    def calm(self) -> bool:
        """Whether everything that was expected has come, and nothing is under way."""
        self.check()
        return not self.missing and not self.open

    def told(self, notification: str) -> None:
        """A notification was pushed; it is acknowledged at once where that was agreed."""
        self.saw(notification)
        if self.acks:
            self.post("hub/ack", id=notification)


# -- ESNP ------------------------------------------------------------------------------------


class Service(Asker):
    """A service that calls others; some of its calls may be answered out of order."""

    protocol: ClassVar[str] = "esnp"

    def __init__(self, ledger: Ledger, chance: random.Random):
        session = esnp_session.EsnpSession(
            Role.CLIENT,
            first_id=chance.randrange(1, 1 << 40),
            now=asyncio.get_running_loop().time(),
        )
        super().__init__(ledger, session)
        self.in_any_order = chance.random() < 0.7

    def put(self, deed: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """A REQUEST with the arguments as DATA rows."""
        service, _, op = deed.partition("/")
        rows = (
            esnp.Address(kind=esnp.AddressKind.SERVICE, value=service),
            esnp.Address(kind=esnp.AddressKind.OP, value=op),
            *data_rows(arguments),
        )
        flags = (esnp.FlagType.ASYNC,) if self.in_any_order else ()
        number = self.session.request(rows, more_flags=flags)
        self.contact.said("request", "request")
        return deed, number

    def on_event(self, event: Event) -> None:
        """An answer, or a notification."""
        if isinstance(event, esnp_session.Answered):
            self.contact.heard("response", "response")
            status = _OK if event.error is None else "error"
            self.answered(event.id, status, self.read_ns, values_of(event.message.rows))
        elif isinstance(event, esnp_session.Announced):
            self.contact.heard("event", "event")
            self.told(str(values_of(event.message.rows)["id"]))


# -- tny -------------------------------------------------------------------------------------


class Player(Asker):
    """A game client."""

    protocol: ClassVar[str] = "tny"

    def __init__(self, ledger: Ledger, chance: random.Random):
        now = asyncio.get_running_loop().time()
        session = tny.ClientSession(
            access_id=chance.randrange(1, 1 << 31),
            epoch_ms=int(time.time() * 1000 - now * 1000),
            random=os.urandom,
            now=now,
        )
        super().__init__(ledger, session)

    def put(self, deed: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """A request whose body is JSON."""
        number = DEEDS[deed]
        body = json.dumps(arguments).encode()
        found = self.session.request(number, body, now=self.loop.time())
        self.contact.said("request", "request")
        return str(number), found

    def on_event(self, event: Event) -> None:
        """An answer, or a push."""
        if isinstance(event, tny.Replied):
            self.contact.heard("response", "response")
            take_response(self, event.response, self.read_ns)
        elif isinstance(event, tny.Pushed):
            self.contact.heard("push", "push")
            if event.message.protocol:  # 0 is the protocol's own: why the hub closes
                self.told(str(json.loads(event.message.body or b"{}")["id"]))


def take_response(asker: Asking, response: Any, read_ns: int) -> None:
    """An answer in tny, which came directly or in a tunnel."""
    status = _OK if response.code == 100 else str(response.code)
    body = response.body or b"{}"
    asker.answered(response.to_message, status, read_ns, json.loads(body))


# -- magline ---------------------------------------------------------------------------------


class Device(Asker):
    """A device, with a key of the hub's or with none; it can come back with its ticket."""

    protocol: ClassVar[str] = "magline"

    def __init__(
        self, ledger: Ledger, key: magline.ClientKey, ticket: magline.Ticket | None = None
    ):
        now = asyncio.get_running_loop().time()
        session = magline.ClientSession(key=key, entropy=os.urandom, ticket=ticket, now=now)
        super().__init__(ledger, session)
        self.ready: asyncio.Future[None] = self.loop.create_future()
        """Done when calls may be made."""
        if ticket is not None:
            self.contact.resumed = False

    async def shake_hands(self) -> None:
        """SYN and ACK; with a ticket also PIN and PON, which the old session ends with."""
        self.session.connect()
        self.contact.said("handshake", "syn")
        self.flush()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self.ready
        except TimeoutError as error:
            raise self.trouble() from error

    def put(self, deed: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """A REQ whose data is JSON."""
        command = _TO_MAGLINE[DEEDS[deed]]
        number = self.session.send(magline.Request(command, json.dumps(arguments).encode()))
        self.contact.said("request", "req")
        return str(command), number

    def on_event(self, event: Event) -> None:
        """The handshake, an answer, or a push."""
        if isinstance(event, magline.Established):
            self.contact.heard("handshake", "ack")
            if event.resumed:
                self.contact.said("heartbeat", "pin")
            else:
                self.ready.set_result(None)
        elif isinstance(event, magline.Resumed):
            self.contact.resumed = True
            self.ready.set_result(None)
        elif isinstance(event, magline.Ponged):
            self.contact.heard("heartbeat", "pon")
        elif isinstance(event, magline.Replied):
            self.contact.heard("response", "rep")
            self.answered(event.seq, _OK, self.read_ns, json.loads(event.data or b"{}"))
        elif isinstance(event, magline.RequestFailed):
            self.contact.heard("response", "err")
            self.answered(event.seq, str(event.error_number), self.read_ns, None)
        elif isinstance(event, magline.Pushed):
            self.contact.heard("push", "psh")
            self.told(str(json.loads(event.data)["id"]))
        elif isinstance(event, magline.Refused):
            self.contact.heard("control", "err")
        elif isinstance(event, magline.Finished):
            self.contact.heard("control", "fin")

    def on_end(self) -> None:
        """No answer will come, of the handshake neither."""
        super().on_end()
        if not self.ready.done():
            self.ready.set_exception(self.trouble())
            self.ready.exception()

    async def say_goodbye(self) -> None:
        """FIN, and hangs up."""
        self.leaving = True
        self.session.close()
        self.contact.said("control", "fin")
        self.contact.close_reason = "normal"
        self.react()
        await self.hang_up()

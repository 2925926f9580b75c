"""Phones, over comet: they sign on, subscribe, fetch what waits, are told, and acknowledge.

What a phone does about a notification is its temper: `prompt` acknowledges at once, `late` after a
while, `twice` at once and again, `sloppy` now and then, `never` not at all.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from typing import Any, ClassVar, Final

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.session import (
    ClientSession,
    Notified,
    Replied,
)
from wirelake.protocols.sansio import Event, Failed

from .connection import Line
from .hub_address import DEADLINE_S
from .journal import Asked, Ledger
from .listeners import Listener

__all__ = ["TEMPERS", "Phone"]

TEMPERS: Final = {"prompt": 50, "late": 20, "sloppy": 12, "never": 12, "twice": 6}
"""How many of a hundred phones have which temper."""
_ACKS: Final = 64
"""Ids in one acknowledgement; a frame has room for some more."""
_UNDER_WAY: Final = 16
"""Commands that may wait for their replies before acknowledgements wait, too."""
_NAMES: Final[dict[type, str]] = {
    comet.Auth: "auth",
    comet.ExchangeKey: "exchange_key",
    comet.GetTopicList: "get_topic_list",
    comet.Subscribe: "subscribe",
    comet.Unsubscribe: "unsubscribe",
    comet.GetMessageList: "get_message_list",
    comet.Heartbeat: "heartbeat",
    comet.MessageAck: "message_ack",
    comet.ReportEnviron: "report_environ",
    comet.Ok: "ok",
    comet.Error: "error",
    comet.AuthSuccess: "auth_success",
    comet.TopicList: "topic_list",
    comet.MessageList: "message_list",
}


class Phone(Line, Listener):
    """A phone's connection."""

    protocol: ClassVar[str] = "comet"
    session: ClientSession

    def __init__(self, ledger: Ledger, chance: random.Random, client: str, temper: str):
        Line.__init__(self, ledger, ClientSession(now=asyncio.get_running_loop().time()))
        Listener.__init__(self)
        self.client = client
        self.temper = temper
        self.owed = 0
        """Notifications that were pushed here and not acknowledged."""
        self._chance = chance
        self._open: deque[tuple[Asked, asyncio.Future[Any]]] = deque()
        self._later = 0
        self._batch: list[str] = []
        self._held: list[str] = []

    # -- asking ------------------------------------------------------------------------------

    def post(self, command: Any) -> asyncio.Future[Any]:
        """Asks; replies come in the order of commands."""
        asked_ns = self._note(command)
        self.session.send(command)
        return self._sent(type(command), asked_ns)

    async def ask(self, command: Any) -> Any:
        """Asks, and waits for the reply."""
        return await self._reply(self.post(command))

    async def sign_on(self, token: str) -> None:
        """Says who it is."""
        await self.ask(comet.Auth(client_id=self.client, token=token))
        self.contact.client = self.client

    async def exchange_key(self) -> None:
        """Contents are sealed from here on."""
        asked_ns = time.time_ns()
        self.session.exchange_key(secret=os.urandom(32), eph_private=os.urandom(32))
        await self._reply(self._sent(comet.ExchangeKey, asked_ns))

    async def fetch(self) -> None:
        """Asks for what waits; it is treated as what is pushed."""
        found = await self.ask(comet.GetMessageList())
        for each in found.messages:
            self.ledger.saw(self.client, each.msg_id, self.read_ns)
        self._answer([each.msg_id for each in found.messages])

    def _note(self, command: Any) -> int:
        asked_ns = time.time_ns()
        if isinstance(command, comet.MessageAck):
            for each in command.msg_ids:
                self.ledger.acked(self.client, each, asked_ns)
        return asked_ns

    def _sent(self, kind: type, asked_ns: int) -> asyncio.Future[Any]:
        self.check()
        name = _NAMES[kind]
        self.contact.said("request", name)
        future: asyncio.Future[Any] = self.loop.create_future()
        self._open.append((self.ledger.ask(self.contact, name, None, asked_ns), future))
        self.flush()
        return future

    async def _reply(self, future: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(DEADLINE_S):
                found = await future
        except TimeoutError as error:
            raise self.trouble() from error
        if isinstance(found, comet.Error):
            self._left_alone = f"error {found.error_code}: {found.reason}"
            raise self.trouble()
        return found

    # -- hearing -----------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """A reply, or a notification."""
        if isinstance(event, Replied):
            self._replied(event)
        elif isinstance(event, Notified):
            self.contact.heard("push", "message")
            self.ledger.saw(self.client, event.notification.msg_id, self.read_ns)
            self.saw(event.notification.msg_id)
            self.owed += 1
            self._batch.append(event.notification.msg_id)

    def react(self) -> None:
        """What came together is acknowledged together."""
        super().react()
        batch, self._batch = self._batch, []
        if batch:
            self._answer(batch)

    def _replied(self, event: Replied) -> None:
        call, future = self._open.popleft()
        reply = event.reply
        failed = isinstance(reply, comet.Error)
        self.contact.heard("response", _NAMES[type(reply)])
        self.contact.failures += failed
        call.answer(str(reply.error_code) if isinstance(reply, comet.Error) else "ok", self.read_ns)
        if isinstance(event.command, comet.MessageAck):
            self.owed = max(0, self.owed - len(event.command.msg_ids))
            for each in event.command.msg_ids:
                self.ledger.ack_answered(self.client, each, self.read_ns)
        if not future.done():
            future.set_result(reply)
        if self._held:
            self._ack([])

    def _answer(self, ids: list[str]) -> None:
        """Acknowledges, or does not."""
        if self.temper == "sloppy":
            ids = [each for each in ids if self._chance.random() < 0.6]
        if not ids or self.temper == "never":
            return
        if self.temper == "late":
            self._later += 1
            self.loop.call_later(self._chance.uniform(0.05, 0.6), self._ack_late, ids)
            return
        self._ack(ids)
        if self.temper == "twice":
            self._ack(ids)

    def _ack_late(self, ids: list[str]) -> None:
        self._later -= 1
        if not self.leaving and not self.gone.done():
            self._ack(ids)

    def _ack(self, ids: list[str]) -> None:
        """Acknowledges, a few commands at a time."""
        self._held += ids
        while self._held and len(self._open) < _UNDER_WAY:
            some, self._held = self._held[:_ACKS], self._held[_ACKS:]
            self.post(comet.MessageAck(msg_ids=tuple(some)))

    def on_failed(self, event: Failed) -> None:
        """The hub answers what was no command; it says so once, and closes."""
        if self.leaving and event.code == "unexpected_reply":
            self.contact.heard("response", "error")
            self.contact.failures += 1
            status = event.detail.partition(":")[0].removeprefix("error ")
            self.ledger.stray(self.contact, "unsettled", status)

    # -- the end -----------------------------------------------------------------------------

    @property
    def calm(self) -> bool:
        """Whether everything that was expected has come, and nothing is under way."""
        self.check()
        return not (self.missing or self._open or self._held or self._later)

    def on_end(self) -> None:
        """No reply will come."""
        for _, future in self._open:
            if not future.done():
                future.set_exception(self.trouble())
                future.exception()
        self._open.clear()

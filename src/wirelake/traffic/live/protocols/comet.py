"""Live clients on comet: phones that subscribe, fetch what is queued, receive and acknowledge.

What a phone does about a notification is its ack policy: `prompt` acknowledges at once, `late`
after a while, `twice` at once and again, `sometimes` only some, `never` none.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.session import ClientSession, Notified, Replied
from wirelake.protocols.sansio import Event, Failed

from ..calling import together
from ..connection import ClientConnection, RunContext
from ..journal import CallEntry, Journal
from ..population import (
    ClientNames,
    ClientPopulation,
    ConnectedSubscriber,
    MalformedFrame,
    Recipient,
    Subscriber,
    Topics,
    scaled,
)

__all__ = ["ACK_POLICIES", "POPULATIONS", "Phone", "PhoneOwner", "owners"]

_PROTOCOL: Final = "comet"
ACK_POLICIES: Final = {"prompt": 50, "late": 20, "sometimes": 12, "never": 12, "twice": 6}
"""Phones out of a hundred, by ack policy."""
_IDS_PER_ACK: Final = 64
"""Ids in one acknowledgement; a frame has room for some more."""
_MAX_IN_FLIGHT: Final = 16
"""Commands in flight before acknowledgements wait."""
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


class Phone(ClientConnection, Subscriber):
    """A connection of a phone."""

    protocol: ClassVar[str] = _PROTOCOL
    session: ClientSession

    def __init__(self, journal: Journal, rng: random.Random, client: str, ack_policy: str):
        session = ClientSession(now=asyncio.get_running_loop().time())
        ClientConnection.__init__(self, journal, session)
        Subscriber.__init__(self)
        self.client = client
        self.ack_policy = ack_policy
        self.unacked = 0
        """Notifications that were pushed here and not acknowledged."""
        self._rng = rng
        self._open: deque[tuple[CallEntry, asyncio.Future[Any]]] = deque()
        self._late_acks = 0
        self._batch: list[str] = []
        self._unsent_acks: list[str] = []

    # -- sending -----------------------------------------------------------------------------

    def start_call(self, command: Any) -> asyncio.Future[Any]:
        """Send a command; replies come in the order of commands."""
        started_ns = time.time_ns()
        if isinstance(command, comet.MessageAck):
            for each in command.msg_ids:
                self.journal.acked(_PROTOCOL, self.client, each, started_ns)
        self.session.send(command)
        return self._sent(type(command), started_ns)

    async def call(self, command: Any) -> Any:
        """Send a command, and wait for the reply."""
        return await self._reply(self.start_call(command))

    async def sign_on(self, token: str) -> None:
        """Authenticate."""
        await self.call(comet.Auth(client_id=self.client, token=token))
        self.entry.client = self.client

    async def exchange_key(self) -> None:
        """Exchange keys; content is sealed from here on."""
        started_ns = time.time_ns()
        self.session.exchange_key(secret=os.urandom(32), eph_private=os.urandom(32))
        await self._reply(self._sent(comet.ExchangeKey, started_ns))

    async def fetch(self) -> None:
        """Fetch queued notifications, and treat them like pushed ones."""
        found = await self.call(comet.GetMessageList())
        for each in found.messages:
            self.journal.delivered(_PROTOCOL, self.client, each.msg_id, self.read_ns)
        self._acknowledge([each.msg_id for each in found.messages])

    def _sent(self, kind: type, started_ns: int) -> asyncio.Future[Any]:
        self.check()
        name = _NAMES[kind]
        self.entry.sent("request", name)
        self.entry.heartbeats += kind is comet.Heartbeat
        future: asyncio.Future[Any] = self.loop.create_future()
        self._open.append((self.journal.call(self.entry, name, None, started_ns), future))
        self.flush()
        return future

    async def _reply(self, future: asyncio.Future[Any]) -> Any:
        found = await self.wait_for(future)
        if isinstance(found, comet.Error):
            self.close_reason = f"error {found.error_code}: {found.reason}"
            raise self.failure()
        return found

    # -- receiving ---------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Handle a reply or a notification."""
        if isinstance(event, Replied):
            self._replied(event)
        elif isinstance(event, Notified):
            self.entry.received("push", "message")
            notification = event.notification.msg_id
            self.journal.delivered(_PROTOCOL, self.client, notification, self.read_ns)
            self.delivered(notification)
            self.unacked += 1
            self._batch.append(notification)

    def process_events(self) -> None:
        """Handle events; notifications that arrive together are acknowledged together."""
        super().process_events()
        batch, self._batch = self._batch, []
        if batch:
            self._acknowledge(batch)

    def _replied(self, event: Replied) -> None:
        call, future = self._open.popleft()
        reply = event.reply
        failed = isinstance(reply, comet.Error)
        self.entry.received("response", _NAMES[type(reply)])
        self.entry.failures += failed
        call.answer(str(reply.error_code) if isinstance(reply, comet.Error) else "ok", self.read_ns)
        if isinstance(event.command, comet.MessageAck):
            self.unacked = max(0, self.unacked - len(event.command.msg_ids))
            for each in event.command.msg_ids:
                self.journal.ack_answered(_PROTOCOL, self.client, each, self.read_ns)
        if not future.done():
            future.set_result(reply)
        if self._unsent_acks:
            self._ack([])

    def _acknowledge(self, ids: list[str]) -> None:
        """Acknowledge notifications as the policy says."""
        if self.ack_policy == "sometimes":
            ids = [each for each in ids if self._rng.random() < 0.6]
        if not ids or self.ack_policy == "never":
            return
        if self.ack_policy == "late":
            self._late_acks += 1
            self.loop.call_later(self._rng.uniform(0.05, 0.6), self._ack_late, ids)
            return
        self._ack(ids)
        if self.ack_policy == "twice":
            self._ack(ids)

    def _ack_late(self, ids: list[str]) -> None:
        self._late_acks -= 1
        if not self.closing and not self.closed.done():
            self._ack(ids)

    def _ack(self, ids: list[str]) -> None:
        """Send acknowledgements, a few commands at a time."""
        self._unsent_acks += ids
        while self._unsent_acks and len(self._open) < _MAX_IN_FLIGHT:
            some = self._unsent_acks[:_IDS_PER_ACK]
            del self._unsent_acks[:_IDS_PER_ACK]
            self.start_call(comet.MessageAck(msg_ids=tuple(some)))

    def on_failed(self, event: Failed) -> None:
        """Handle the error that the hub sends for a malformed frame: a reply to no command."""
        if self.closing and event.code == "unexpected_reply":
            self.entry.received("response", "error")
            self.entry.failures += 1
            status = event.detail.partition(":")[0].removeprefix("error ")
            # The malformed frame is a fault in the capture, and after a fault order is not trusted
            # (`docs/concepts/matching.md`).
            self.journal.orphan(self.entry, "unsettled", status)

    @property
    def idle(self) -> bool:
        """Whether everything expected has arrived, and nothing is in flight."""
        self.check()
        return not (self.missing or self._open or self._unsent_acks or self._late_acks)

    def on_disconnect(self) -> None:
        """Fail the commands in flight."""
        for _, future in self._open:
            self.fail(future)
        self._open.clear()


# -- population ------------------------------------------------------------------------------

_TURN_SHARE: Final = 0.3
"""Share of phones that connect or disconnect in each turn."""
_UNSUBSCRIBE_SHARE: Final = 0.06
"""Share of phones that give up a topic in each turn."""
_MAX_UNACKED: Final = 100
"""Unacknowledged notifications before a phone disconnects: a hub stops pushing at 256."""
_SEALED_SHARE: Final = 0.35
"""Share of phones that exchange keys."""
_MODELS: Final = ("A1 mini", "B2", "C3 pro", "D4 max")


@dataclass(slots=True, eq=False)
class PhoneOwner:
    """A phone that is connected or not."""

    client: str
    ack_policy: str
    sealed: bool
    topics: list[str]
    phone: Phone | None = None
    new: bool = True
    """Whether it has yet to subscribe."""


def owners(names: list[str], topics: list[str], rng: random.Random) -> list[PhoneOwner]:
    """Return phones; every ack policy occurs, with and without sealing."""
    policies = list(ACK_POLICIES)
    made = []
    for number, name in enumerate(names):
        if number < len(policies):
            policy = policies[number]
        else:
            policy = rng.choices(policies, list(ACK_POLICIES.values()))[0]
        sealed = number % 2 == 1 if number < len(policies) else rng.random() < _SEALED_SHARE
        chosen = {_popular(topics, rng) for _ in range(rng.randint(1, 3))}
        if number < len(policies):
            chosen.add(topics[0])
        made.append(PhoneOwner(name, policy, sealed, sorted(chosen)))
    return made


def _popular(topics: list[str], rng: random.Random) -> str:
    """Return a topic; the first ones are the popular ones."""
    return topics[min(int(rng.expovariate(3.0 / len(topics))), len(topics) - 1)]


def _frame(kind: int, body: bytes = b"") -> bytes:
    return struct.pack(">HB", len(body) + 1, kind) + body


class _Phones(ClientPopulation):
    listener = _PROTOCOL
    malformed = (
        MalformedFrame("unknown_type", _frame(0x77)),
        MalformedFrame("short", _frame(8, b"\x01")),
        MalformedFrame("trailing_bytes", _frame(6, b"??")),
        MalformedFrame("length_overrun", _frame(3, b"\x01\x00\x09@a")),
    )

    def __init__(self, scale: float, names: ClientNames):
        self._names = names.make("phone", scaled(130, scale, 6))
        self._owners: list[PhoneOwner] = []

    async def open(self, run: RunContext, topics: Topics) -> None:
        """Connect most phones."""
        await super().open(run, topics)
        self._owners = owners(self._names, topics.names, run.rng)
        later = [each for each in self._owners[len(ACK_POLICIES) :] if self._turns()]
        await together([self._switch_on(each) for each in self._owners if each not in later])

    def recipients(self) -> Sequence[Recipient]:
        """Return all phones, connected or not."""
        return [Recipient(_PROTOCOL, each.client, each.phone) for each in self._owners]

    def subscribers(self) -> Sequence[ConnectedSubscriber]:
        """Return the connected phones."""
        return [each.phone for each in self._owners if each.phone is not None]

    async def turn(self) -> None:
        """Let phones connect, disconnect and unsubscribe."""
        await together([self._turn(each) for each in self._owners])

    async def close(self) -> None:
        """Disconnect all phones."""
        phones = [each.phone for each in self._owners if each.phone is not None]
        await together([self.run.disconnect(each) for each in phones])

    async def connect_malformed(self, client: str) -> ClientConnection:
        """Connect a phone."""
        return await self._connect(client, "prompt")

    async def _connect(self, client: str, ack_policy: str) -> Phone:
        run = self.run
        async with run.handshakes:
            phone = await run.connect(
                self.listener, lambda: Phone(run.journal, run.rng, client, ack_policy)
            )
            await phone.sign_on(run.tokens[client])
        return phone

    def _turns(self) -> bool:
        return self.run.rng.random() < _TURN_SHARE

    async def _turn(self, owner: PhoneOwner) -> None:
        turns, other = self._turns(), self.run.rng.random()
        phone = owner.phone
        if phone is None:
            if turns:
                await self._switch_on(owner)
        elif turns or phone.unacked > _MAX_UNACKED:
            owner.phone = None
            self.topics.leave(phone)
            await self.run.disconnect(phone)
        elif other < _UNSUBSCRIBE_SHARE and len(owner.topics) > 1:
            topic = owner.topics.pop()
            await phone.call(comet.Unsubscribe(topics=(topic,)))
            self.topics.leave(phone)
            for name in owner.topics:
                self.topics.enter(name, phone)
        elif other < 4 * _UNSUBSCRIBE_SHARE:
            await phone.call(comet.Heartbeat())

    async def _switch_on(self, owner: PhoneOwner) -> None:
        rng = self.run.rng
        phone = await self._connect(owner.client, owner.ack_policy)
        if owner.sealed:
            await phone.exchange_key()
        model = rng.choice(_MODELS)
        network, isp = rng.choice(tuple(comet.NetworkType)), rng.choice(tuple(comet.Isp))
        await phone.call(comet.ReportEnviron(network_type=network, isp=isp, phone_type=model))
        if owner.new:
            owner.new = False
            await phone.call(comet.Subscribe(topics=tuple(owner.topics)))
        elif rng.random() < _TURN_SHARE:
            await phone.call(comet.GetTopicList())
        # It counts as present only after the fetch: what was published before is in the fetched
        # list, what is published from now on is pushed (comet, rule 18).
        await phone.fetch()
        owner.phone = phone
        for name in owner.topics:
            self.topics.enter(name, phone)


POPULATIONS: Final = (_Phones,)
"""The kinds of live clients of this protocol."""

"""Small servers for the clients' tests, made of the project's server sessions.

They do what a test tells them to: answer, stay silent, cut connections, forget sessions. What a
real hub does is tested with a real hub.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet import session as comet_session
from wirelake.protocols.comet.limits import ServerOptions as CometOptions
from wirelake.protocols.comet.sealing import X25519ServerKey
from wirelake.protocols.esnp import session as esnp_session
from wirelake.protocols.esnp.layout import Address, AddressKind, Data, Payload
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import address
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.protocols.hub_calls import busy_text
from wirelake.protocols.magline import session as magline_session
from wirelake.protocols.magline.handshake import x25519_public
from wirelake.protocols.magline.limits import ServerOptions as MaglineOptions
from wirelake.protocols.sansio import Event, Role
from wirelake.protocols.tny import session as tny_session
from wirelake.protocols.tny.limits import ServerOptions as TnyOptions

TOKEN = "throw-away token of a test"
DEADLINE_S = 20.0
"""How long anything may take before a test gives up."""
HUB = {10: "auth", 11: "subscribe", 12: "unsubscribe", 13: "publish", 14: "ack"}
SERVICES = {1: "echo", 2: "add", 3: "fail", 4: "silence"}
STATIC = bytes(range(1, 33))
"""A throw-away private key of a magline server, and of a comet server."""
PINNED = x25519_public(STATIC)


class Refusal(Exception):  # noqa: N818 - an answer, no accident
    """What a server says no with: a tny code, a magline number, words, and a code of a hub."""

    def __init__(self, tny: int, magline: int, text: str, code: str = "failed"):
        super().__init__(text)
        self.tny, self.magline, self.text, self.code = tny, magline, text, code


class Sent(NamedTuple):
    """A notification."""

    id: str
    topic: str
    content: bytes


class Stand:
    """One server of one protocol."""

    def __init__(self, protocol: str, **options: Any):
        self.protocol = protocol
        self.options = options
        self.peers: list[Peer] = []
        self.heard: list[tuple[str, dict[str, Any]]] = []
        """Everything that was asked: name and arguments."""
        self.requests: list[tuple[Any, ...]] = []
        """The rows of every ESNP request."""
        self.waiting: dict[str, Sent] = {}
        """Notifications without an acknowledgement."""
        self.token = TOKEN
        self.page_size = 2
        self.beats = 0
        self.mute = False
        """Whether to hear nothing and to say nothing."""
        self.drop_auth = False
        """Whether to cut the connection instead of saying that somebody has signed on (magline)."""
        self.busy = ""
        """The code of a hub that refuses for now, such as too_busy,"""
        self.busy_calls: set[str] = set()
        """these calls; an empty set is all of them."""
        self.drop_acks = False
        """Whether to cut the connection instead of taking an acknowledgement."""
        self.tickets = magline_session.MemoryStore()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._count = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{self.protocol}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens, on the port of the last time."""
        loop = asyncio.get_running_loop()
        make = PEERS[self.protocol]
        self._server = await loop.create_server(
            lambda: make(self), "127.0.0.1", self.port, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes, and cuts what is connected."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await until(lambda: not self.peers, "connections end")

    def cut(self) -> None:
        """Cuts every connection."""
        for peer in tuple(self.peers):
            peer.transport.abort()

    def names(self) -> list[str]:
        """What was asked, by name."""
        return [name for name, _ in self.heard]

    def notify(self, content: bytes, topic: str = "@news", *, push: bool = True) -> str:
        """Publishes something: it waits, and is pushed to all."""
        self._count += 1
        sent = Sent(f"{self._count:016d}", topic, content)
        self.waiting[sent.id] = sent
        if push:
            for peer in self.peers:
                peer.push(sent)
        return sent.id

    def push_own(self, number: int, body: bytes) -> None:
        """Pushes something that is no notification of a hub."""
        for peer in self.peers:
            peer.push_own(number, body)
            peer.react()

    def refuses(self, name: str) -> bool:
        """Whether a call is refused for now."""
        return bool(self.busy) and (not self.busy_calls or name in self.busy_calls)

    def do(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Acts on a call of the hub, or of a service with values."""
        self.heard.append((name, arguments))
        if self.refuses(name):
            raise Refusal(500, 11, "later", self.busy)
        match name:
            case "auth":
                if arguments.get("token") != self.token:
                    raise Refusal(210, 13, "the id or the token is wrong")
                return {"id": arguments["id"]}
            case "subscribe":
                if "@forbidden" in arguments["topics"]:
                    raise Refusal(500, 15, "not this one")
                return {"topics": len(arguments["topics"])}
            case "publish":
                return {"id": self.notify(b"", push=False), "audience": 3}
            case "ack":
                for each in arguments["ids"]:
                    self.waiting.pop(each, None)
                return {"acked": len(arguments["ids"])}
            case "add":
                return {"c": arguments["a"] + arguments["b"]}
            case "fail":
                raise Refusal(500, 15, "failed on request")
            case "unsubscribe":
                return {}
        raise Refusal(205, 14, f"there is no {name}")


class Peer(asyncio.Protocol):
    """One connection of a client."""

    session: Any

    def __init__(self, stand: Stand):
        self.stand = stand
        self.loop = asyncio.get_running_loop()
        self.session = self.make_session()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.stand.peers.append(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.stand.peers.remove(self)

    def data_received(self, data: bytes) -> None:
        if self.stand.mute:
            return
        self.session.receive(data, self.loop.time())
        self.react()

    def react(self) -> None:
        while events := self.session.events():
            for event in events:
                if type(event).__name__ in ("HeartbeatAnswered", "Pinged"):
                    self.stand.beats += 1
                self.on_event(event)
        self.transport.write(self.session.to_send())
        if self.session.closed:
            self.transport.close()

    def make_session(self) -> Any:
        raise NotImplementedError

    def on_event(self, event: Event) -> None:
        raise NotImplementedError

    def push(self, sent: Sent) -> None:
        raise NotImplementedError

    def push_own(self, number: int, body: bytes) -> None:
        raise NotImplementedError

    def numbered(self, number: int, body: bytes) -> bytes | None:
        """The answer to a call by number; None stays silent."""
        if SERVICES.get(number) == "echo":
            return body
        if SERVICES.get(number) == "silence":
            self.stand.heard.append(("silence", {}))
            return None
        name = {**HUB, **SERVICES}.get(number, f"number {number}")
        return msgspec.json.encode(self.stand.do(name, msgspec.json.decode(body or b"{}")))

    def pushed_json(self, sent: Sent) -> bytes:
        content = sent.content.decode()
        return msgspec.json.encode(
            {"id": sent.id, "topic": sent.topic, "content": content, "ts": 7}
        )


class EsnpPeer(Peer):
    def make_session(self) -> Any:
        return esnp_session.EsnpSession(Role.SERVER, SessionOptions(trace_name="stand"))

    def on_event(self, event: Event) -> None:
        if isinstance(event, esnp_session.Announced):
            where = address(event.message)
            self.stand.heard.append((f"{where.service}/{where.op}", values_of(event.message.rows)))
        if not isinstance(event, esnp_session.Requested):
            return
        call = event.call
        rows = call.message.rows
        self.stand.requests.append(rows)
        where = address(call.message)
        op = where.op or ""
        if op == "silence":
            self.stand.heard.append(("silence", {}))
        elif op == "echo":
            self.session.answer(call, [row for row in rows if isinstance(row, Data | Payload)])
        elif op == "kind":
            self.session.answer(
                call, data_rows({"kind": call.kind, "ordered": not call.concurrent})
            )
        elif op == "count":
            for number in (1, 2, 3):
                self.session.answer(call, data_rows({"n": number}), seq=(number, 0))
            self.session.answer(call, seq=(4, 4))
        else:
            try:
                self.session.answer(call, data_rows(self.stand.do(op, values_of(rows))))
            except Refusal as refusal:
                self.session.answer(call, error=busy_text(refusal.code, refusal.text))

    def push(self, sent: Sent) -> None:
        values = {"id": sent.id, "topic": sent.topic, "content": sent.content, "ts": 7}
        where = (
            Address(kind=AddressKind.SERVICE, value="hub"),
            Address(kind=AddressKind.OP, value="notify"),
        )
        self.session.announce([*where, *data_rows(values)])
        self.react()

    def push_own(self, number: int, body: bytes) -> None:
        where = (
            Address(kind=AddressKind.SERVICE, value="test"),
            Address(kind=AddressKind.OP, value=str(number)),
        )
        self.session.announce([*where, Payload(data=body)])


class TnyPeer(Peer):
    def make_session(self) -> Any:
        return tny_session.ServerSession(TnyOptions())

    def on_event(self, event: Event) -> None:
        if not isinstance(event, tny_session.Requested):
            return
        message = event.message
        self.stand.heard.append(("id", {"id": message.id}))
        try:
            body = self.numbered(message.protocol, message.body or b"")
        except Refusal as refusal:
            text = msgspec.json.encode({"code": refusal.code, "text": refusal.text})
            self.session.respond(message, text, code=refusal.tny)
        else:
            if body is not None:
                self.session.respond(message, body)

    def push(self, sent: Sent) -> None:
        self.session.push(20, self.pushed_json(sent))
        self.react()

    def push_own(self, number: int, body: bytes) -> None:
        self.session.push(number, body)


class MaglinePeer(Peer):
    def make_session(self) -> Any:
        keys = magline_session.ServerKeys(static=[STATIC], psks=[bytes(32)], allow_anonymous=True)
        options = MaglineOptions(order_cmds=self.stand.options.get("order_cmds", (10,)))
        return magline_session.ServerSession(
            options, keys=keys, entropy=os.urandom, store=self.stand.tickets, now=self.loop.time()
        )

    def on_event(self, event: Event) -> None:
        if isinstance(event, magline_session.Resumed):
            self.stand.heard.append(("resumed", {}))
        if not isinstance(event, magline_session.Requested):
            return
        try:
            if event.business_cmd == 10 and self.session.authenticated:
                raise Refusal(500, 15, "signed on already")
            body = self.numbered(event.business_cmd, event.data)
        except Refusal as refusal:
            self.session.send(magline_session.Failure(event.seq, refusal.magline))
        else:
            if event.business_cmd == 10:
                self.session.identify("somebody")
            if body is not None:
                self.session.send(magline_session.Reply(event.seq, body))
            if event.business_cmd == 10 and self.stand.drop_auth:
                self.session.to_send()
                self.transport.abort()

    def push(self, sent: Sent) -> None:
        self.session.send(magline_session.Push(20, self.pushed_json(sent)))
        self.react()

    def push_own(self, number: int, body: bytes) -> None:
        self.session.send(magline_session.Push(number, body))


class CometPeer(Peer):
    def make_session(self) -> Any:
        key = None
        if self.stand.options.get("key", True):
            static = self.stand.options.get("static")
            key = X25519ServerKey(os.urandom(32), static_private=static)
        return comet_session.ServerSession(CometOptions(), server_key=key, now=self.loop.time())

    def on_event(self, event: Event) -> None:
        if isinstance(event, comet_session.AuthRequested):
            self.stand.heard.append(("auth", {}))
            if self.stand.refuses("auth"):
                self.session.refuse(6)
            elif event.token == self.stand.token:
                self.session.accept()
            else:
                self.session.refuse()
        elif isinstance(event, comet_session.KeyExchanged):
            self.stand.heard.append(("key", {}))
        elif isinstance(event, comet_session.Requested):
            self._requested(event.command)

    def _requested(self, command: Any) -> None:
        match command:
            case comet.Subscribe(topics=topics):
                self._answer("subscribe", {"topics": list(topics)})
            case comet.Unsubscribe(topics=topics):
                self._answer("unsubscribe", {"topics": list(topics)})
            case comet.MessageAck(msg_ids=ids):
                if self.stand.drop_acks:
                    self.transport.abort()
                else:
                    self._answer("ack", {"ids": list(ids)})
            case comet.GetMessageList():
                page = list(self.stand.waiting.values())[: self.stand.page_size]
                messages = tuple(map(_comet, page))
                self.stand.heard.append(("list", {"ids": [each.id for each in page]}))
                self.session.send(comet.MessageList(messages=messages))

    def _answer(self, name: str, arguments: dict[str, Any]) -> None:
        try:
            self.stand.do(name, arguments)
        except Refusal as refusal:
            code = 6 if self.stand.refuses(name) else 4
            self.session.send(comet.Error(error_code=code, reason=refusal.text))
        else:
            self.session.send(comet.Ok())

    def push(self, sent: Sent) -> None:
        self.session.send(_comet(sent))
        self.react()


def _comet(sent: Sent) -> comet.Notification:
    return comet.Notification(msg_type=0, msg_id=sent.id, content=sent.content, ts=7)


PEERS: dict[str, Callable[[Stand], Peer]] = {
    "esnp": EsnpPeer,
    "tny": TnyPeer,
    "magline": MaglinePeer,
    "comet": CometPeer,
}


@asynccontextmanager
async def standing(protocol: str, **options: Any) -> AsyncIterator[Stand]:
    """A server that runs."""
    stand = Stand(protocol, **options)
    await stand.start()
    try:
        yield stand
    finally:
        await stand.stop()


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Waits until something is true; a test that waits for ever fails."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"{what}: not within {DEADLINE_S:.0f} s")
        await asyncio.sleep(0.005)


async def take(client: Any, count: int) -> list[Any]:
    """So many notifications."""
    found: list[Any] = []

    async def collect() -> None:
        async for each in client.notifications():
            found.append(each)
            if len(found) == count:
                return

    await asyncio.wait_for(collect(), DEADLINE_S)
    return found

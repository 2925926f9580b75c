"""Clients that call services of the hub, directly or in a tunnel, and what they do.

All of them call the same operations by name; how an operation is named on the wire is up to the
protocol. Calls are pipelined: several are in flight, and each is matched by its id.

Callers connect, call and disconnect; most wait for all responses, one in eight disconnects during a
long call. Subscribers stay connected, receive notifications, and sometimes reconnect.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ClassVar, Final

from wirelake.protocols.binding import Binding
from wirelake.protocols.hub_calls import (
    ACK,
    AUTH,
    CALLS,
    DEMO_OPERATIONS,
    DEMO_SERVICE,
    PUBLISH,
    SUBSCRIBE,
)

from ..plan import SimulateError
from .connection import ClientConnection, RunContext
from .hub_address import DEADLINE_S
from .journal import CallEntry, ConnectionEntry, Journal
from .population import (
    ClientNames,
    ClientPopulation,
    ConnectedSubscriber,
    Publish,
    Subscriber,
    Topics,
    scaled,
)

__all__ = [
    "Caller",
    "CallingClient",
    "CallingPopulation",
    "SubscribedCaller",
    "every_call",
    "make_calls",
    "operation_numbers",
    "random_call",
    "stay_s",
    "together",
]

_OK: Final = "ok"
_MS_NS: Final = 1_000_000


def operation_numbers(binding: Binding) -> dict[str, int]:
    """Return the number of each operation in a protocol that addresses services by number."""
    assert binding.demo_number is not None
    demo = (f"{DEMO_SERVICE}/{op}" for op in DEMO_OPERATIONS)
    numbers = {call.target: call.number for call in CALLS.values()}
    return numbers | {name: number for number, name in enumerate(demo, binding.demo_number)}


class Caller:
    """Calls in flight, and their responses."""

    journal: Journal
    entry: ConnectionEntry

    def __init__(self) -> None:
        self.open: dict[int, tuple[CallEntry, asyncio.Future[Any]]] = {}

    @abstractmethod
    def send_request(self, operation: str, arguments: dict[str, Any]) -> tuple[str, int]:
        """Pass a request to the session; return its target and its id."""

    @abstractmethod
    def send_pending(self) -> None:
        """Write what was passed to the session."""

    @abstractmethod
    def failure(self) -> SimulateError:
        """Return the error for a missing response."""

    def start_call(self, operation: str, **arguments: Any) -> asyncio.Future[Any]:
        """Send a request. The result is a mapping, or the status of a failure as text."""
        # The clock is read before the session encodes: the hub cannot have the request earlier.
        # `test/sleep` is a lower bound of the latency that the hub itself measures.
        started_ns = time.time_ns()
        target, number = self.send_request(operation, arguments)
        least = int(arguments["ms"]) * _MS_NS if operation == "test/sleep" else 0
        call = self.journal.call(self.entry, target, number, started_ns, least)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.open[number] = call, future
        self.send_pending()
        return future

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Call, and wait for the response."""
        return (await self.wait_all([self.start_call(operation, **arguments)]))[0]

    async def wait_all(self, calls: list[asyncio.Future[Any]]) -> list[Any]:
        """Wait for responses."""
        _, late = await asyncio.wait(calls, timeout=DEADLINE_S)
        if late:
            raise self.failure()
        return [each.result() for each in calls]

    async def must_call(self, operation: str, **arguments: Any) -> Any:
        """Make a call that must succeed."""
        found = await self.call(operation, **arguments)
        if not isinstance(found, dict):
            raise SimulateError(f"the hub refuses {operation} ({found}); start it with --demo")
        return found

    async def sign_on(self, client: str, token: str) -> None:
        """Authenticate."""
        await self.must_call(AUTH.target, id=client, token=token)
        self.entry.client = client

    def on_response(self, number: int, status: str, read_ns: int, result: Any) -> None:
        """Complete a call."""
        call, future = self.open.pop(number)
        call.answer(status, read_ns)
        self.entry.failures += status != _OK
        if not future.done():
            future.set_result(result if status == _OK else status)

    def drop_calls(self) -> None:
        """Give up the calls in flight: the client is about to disconnect."""
        # The service sleeps for a minute, so no response can arrive before the socket is closed.
        for call, future in self.open.values():
            call.lose()
            future.cancel()
        self.open.clear()

    def fail_calls(self) -> None:
        """Fail the calls in flight: the connection has ended."""
        for _, future in self.open.values():
            if not future.done():
                future.set_exception(self.failure())
                future.exception()  # marks it as retrieved: nobody may be waiting
        self.open.clear()


class SubscribedCaller(Caller, Subscriber):
    """A caller that gets notifications, and acknowledges them with calls."""

    read_ns: int
    """When the message that is being handled was read."""

    def __init__(self) -> None:
        Caller.__init__(self)
        Subscriber.__init__(self)
        self._notes: list[tuple[Callable[[str, str, str, int], None], str, int]] = []
        """Entries about notifications that wait for the name of the client."""

    def on_notification(self, notification: str) -> None:
        """Record a notification, and acknowledge it where that was agreed."""
        self.delivered(notification)
        self._note(self.journal.delivered, notification, self.read_ns)
        if self.acks:
            self._note(self.journal.acked, notification, time.time_ns())

            def answered(call: asyncio.Future[Any]) -> None:
                if not call.cancelled() and call.exception() is None:
                    self._note(self.journal.ack_answered, notification, self.read_ns)

            self.start_call(ACK.target, id=notification).add_done_callback(answered)

    def _note(
        self, add: Callable[[str, str, str, int], None], notification: str, ts_ns: int
    ) -> None:
        self._notes.append((add, notification, ts_ns))
        self.note_deliveries()

    def note_deliveries(self) -> None:
        """Add what happened to notifications to the journal, once the client is known."""
        # A resumed session may get notifications before its handshake is complete.
        if self.entry.client is not None:
            for add, notification, ts_ns in self._notes:
                add(self.entry.protocol, self.entry.client, notification, ts_ns)
            self._notes.clear()


class CallingClient(ClientConnection, SubscribedCaller):
    """A client with a connection of its own."""

    def __init__(self, journal: Journal, session: Any):
        ClientConnection.__init__(self, journal, session)
        SubscribedCaller.__init__(self)

    def send_pending(self) -> None:
        """Write what was passed to the session."""
        self.check()
        self.flush()

    def on_disconnect(self) -> None:
        """Fail the calls in flight."""
        self.fail_calls()

    @property
    def idle(self) -> bool:
        """Whether everything expected has arrived, and nothing is in flight."""
        self.check()
        return not self.missing and not self.open


# -- what callers call -----------------------------------------------------------------------

_WEIGHTS: Final = {"test/sleep": 40, "test/echo": 30, "test/add": 22, "test/fail": 8}
_MAX_SLEEP_MS: Final = 150
_WORDS: Final = ("a", "word", "and", "another", "make", "some", "text", "to", "send", "back")
_DEPTH: Final = 6
"""Maximum calls of a batch."""
_PAUSE_S: Final = 0.25
"""Mean pause between two batches."""
_STAY_S: Final = (1.5, 6.0)


def every_call(rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Return one call of each operation."""
    return [_arguments(name, rng) for name in _WEIGHTS]


def random_call(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Return an operation and its arguments; most sleeps are short, some are long."""
    return _arguments(rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0], rng)


def _arguments(name: str, rng: random.Random) -> tuple[str, dict[str, Any]]:
    if name == "test/sleep":
        return name, {"ms": max(1, min(_MAX_SLEEP_MS, round(rng.lognormvariate(2.4, 1.0))))}
    if name == "test/add":
        return name, {"a": rng.randrange(1_000), "b": rng.randrange(1_000)}
    if name == "test/echo":
        return name, {"text": " ".join(rng.choices(_WORDS, k=rng.randint(2, 12)))}
    return name, {}


def stay_s(run: RunContext) -> float:
    """Return how long a caller stays."""
    return min(run.rng.uniform(*_STAY_S), run.left_s)


async def make_calls(run: RunContext, caller: Caller, seconds: float) -> None:
    """Make batches of calls, with pauses between them."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    calls = every_call(run.rng)
    while loop.time() < until:
        started = [caller.start_call(name, **arguments) for name, arguments in calls]
        await caller.wait_all(started)
        calls = [random_call(run.rng) for _ in range(run.rng.randint(1, _DEPTH))]
        await run.pause(run.rng.expovariate(1.0 / _PAUSE_S))


async def together(work: Sequence[Awaitable[Any]]) -> list[Any]:
    """Await all; the first failure cancels the others."""

    async def one(each: Awaitable[Any]) -> Any:
        return await each

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(each)) for each in work]
    return [task.result() for task in tasks]


# -- populations -----------------------------------------------------------------------------

_IMPATIENT: Final = 0.125
"""Share of callers that disconnect during a call."""
_LONG_MS: Final = 60_000


class _Member:
    """A subscriber that is connected, or absent and coming back."""

    def __init__(self, name: str, topics: list[str], acks: bool):
        self.name = name
        self.topics = topics
        self.acks = acks
        self.client: CallingClient | None = None
        self.ticket: Any = None
        self.absent: Subscriber | None = None
        """Collects what is published while it is absent."""


class CallingPopulation(ClientPopulation):
    """Callers, subscribers and a publisher of one protocol."""

    callers: ClassVar[tuple[int, int]]
    """Callers at scale 1, and at least."""
    members: ClassVar[tuple[int, int]]
    """Subscribers at scale 1, and at least."""

    def __init__(self, scale: float, names: ClientNames):
        self.caller_names = names.make(f"{self.listener}-caller", scaled(*_at(self.callers, scale)))
        self.member_names = names.make(
            f"{self.listener}-subscriber", scaled(*_at(self.members, scale))
        )
        self.publisher_name = names.make(f"{self.listener}-publisher", 1)[0]
        self._members: list[_Member] = []
        self._publisher: CallingClient

    @abstractmethod
    async def connect(self, ticket: Any = None) -> CallingClient:
        """Connect a client, ready to make calls but not signed on."""

    def ticket_of(self, client: CallingClient) -> Any:  # noqa: ARG002 - most have none
        """Return what a client resumes its session with; None without resumption."""
        return None

    async def arrive(self, name: str) -> CallingClient:
        """Connect a caller."""
        return await self.signed_on(name)

    async def leave(self, client: CallingClient) -> None:
        """Disconnect a caller."""
        await self.run.disconnect(client)

    async def signed_on(self, name: str, ticket: Any = None) -> CallingClient:
        """Connect a client and sign on, or resume with a ticket."""
        async with self.run.handshakes:
            client = await self.connect(ticket)
            if ticket is None:
                await client.sign_on(name, self.run.tokens[name])
            else:
                client.entry.client = name
                client.note_deliveries()
        return client

    async def open(self, run: RunContext, topics: Topics) -> None:
        """Connect subscribers and the publisher."""
        await super().open(run, topics)
        for number, name in enumerate(self.member_names):
            chosen = sorted(run.rng.sample(topics.names, min(2, len(topics.names))))
            self._members.append(_Member(name, chosen, number % 2 == 0))
        await together([self._join(each) for each in self._members])
        self._publisher = await self.signed_on(self.publisher_name)
        await self._publisher.must_call("test/echo", text="is everything here?")

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return the callers."""
        return [self._caller(name) for name in self.caller_names]

    async def _caller(self, name: str) -> None:
        """Connect, call and disconnect, again and again until the end."""
        run = self.run
        await run.pause(run.rng.uniform(0.0, 0.5))
        while run.left_s > 0:
            client = await self.arrive(name)
            await make_calls(run, client, stay_s(run))
            if run.rng.random() < _IMPATIENT:
                client.start_call("test/sleep", ms=_LONG_MS)
                client.drop_calls()
                await run.disconnect(client)
            else:
                await self.leave(client)
            await run.pause(run.rng.uniform(0.1, 0.6))

    def publishers(self) -> Sequence[Publish]:
        """Return the publisher."""

        async def publish(topic: str, content: str) -> tuple[str, int]:
            found = await self._publisher.must_call(PUBLISH.target, topic=topic, content=content)
            return str(found["id"]), int(found["audience"])

        return [publish]

    def subscribers(self) -> Sequence[ConnectedSubscriber]:
        """Return the connected subscribers."""
        return [each.client for each in self._members if each.client is not None]

    async def turn(self) -> None:
        """Let absent subscribers come back, and another one leave."""
        absent = [each for each in self._members if each.client is None]
        present = [each for each in self._members if each.client is not None]
        await together([self._join(each) for each in absent])
        if present:
            leaver = self.run.rng.choice(present)
            await self._leave(leaver)
            present.remove(leaver)
        clients = [self._publisher, *(each.client for each in present if each.client)]
        await together([each.call("test/echo", text="still here") for each in clients])

    async def close(self) -> None:
        """Disconnect subscribers and the publisher."""
        present = [each.client for each in self._members if each.client is not None]
        await together([self.run.disconnect(each) for each in (*present, self._publisher)])

    async def connect_malformed(self, client: str) -> ClientConnection:
        """Connect a client that makes one good call."""
        found = await self.signed_on(client)
        await found.call("test/add", a=self.run.rng.randrange(100), b=1)
        return found

    async def _join(self, member: _Member) -> None:
        """Connect and subscribe; with a ticket, the session still has its subscriptions."""
        client = await self.signed_on(member.name, member.ticket)
        client.acks = member.acks
        if member.absent is not None:
            self.topics.leave(member.absent)
            for notification in member.absent.missing:
                client.expect(notification)
            member.absent = None
        member.client = client
        if member.ticket is None:
            await client.must_call(SUBSCRIBE.target, topics=member.topics, ack=member.acks)
        for name in member.topics:
            self.topics.enter(name, client)

    async def _leave(self, member: _Member) -> None:
        client, member.client = member.client, None
        assert client is not None
        self.topics.leave(client)
        member.absent = Subscriber()
        for name in member.topics:
            self.topics.enter(name, member.absent)
        member.ticket = self.ticket_of(client)
        await self.run.disconnect(client)


def _at(count: tuple[int, int], scale: float) -> tuple[int, float, int]:
    return count[0], scale, count[1]

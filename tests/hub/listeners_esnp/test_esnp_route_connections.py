"""The connections of a route: one call at a time on each, and what callers notice of each other.

The server is a socket that answers what a test tells it to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.hub.listeners_esnp.peer import ASYNC, REQUEST, Peer, connected, error_of, run
from tests.hub.running import DEADLINE_S, Running, running, until

from wirelake.hub.listeners import esnp_routes
from wirelake.hub.listeners.esnp import EsnpListener
from wirelake.hub.listeners.esnp_routes import Route
from wirelake.protocols.esnp.endpoint import reply_to
from wirelake.protocols.esnp.layout import Message
from wirelake.protocols.esnp.message import source_message_id
from wirelake.protocols.esnp.values import data_rows, values_of


class Request(NamedTuple):
    """A request that the server has received."""

    peer: Peer
    """Its connection."""
    message: Message

    @property
    def name(self) -> str:
        """What the caller calls it."""
        name = values_of(self.message.rows)["name"]
        assert isinstance(name, str)
        return name

    def answer(self, **values: Any) -> None:
        """Answers it."""
        self.peer.write(*reply_to(self.message, data_rows(values)).rows)

    def refuse(self, text: str) -> None:
        """Answers with an error."""
        self.peer.write(*reply_to(self.message, error=text).rows)


class Server:
    """The server of a route."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        """Every connection that it has accepted."""
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self.ended: list[Peer] = []
        """Connections that the hub has closed."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receives requests until the hub closes the connection, and closes nothing itself."""
        peer = Peer(reader, writer)
        self.peers.append(peer)
        try:
            while True:
                self.requests.put_nowait(Request(peer, await peer.message()))
        except (AssertionError, OSError):
            self.ended.append(peer)

    async def request(self) -> Request:
        """The next request."""
        return await asyncio.wait_for(self.requests.get(), DEADLINE_S)


@asynccontextmanager
async def routed(
    limits: dict[str, Any] | None = None, **route: Any
) -> AsyncIterator[tuple[Running, Server]]:
    """A hub whose calls go to a server of the test."""
    server = Server()
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    address = "{}:{}".format(*listening.sockets[0].getsockname())
    esnp = {"auth": "none", "routes": [{"server": address, **route}]}
    try:
        async with running(listeners=["esnp"], limits=limits or {}, esnp=esnp) as it:
            yield it, server
    finally:
        listening.close()
        for peer in server.peers:
            await peer.close()


def route_of(it: Running) -> Route:
    listener = it.hub.listeners["esnp"]
    assert isinstance(listener, EsnpListener)
    return listener.routes[0]


async def answer_of(peer: Peer) -> dict[str, Any]:
    """The values of the next message, which must not be an error."""
    message = await peer.message()
    assert error_of(message) is None
    return values_of(message.rows)


async def error_at(peer: Peer) -> str:
    """The error that is the next message."""
    text = error_of(await peer.message())
    assert text is not None
    return text


@pytest.mark.parametrize("flags", [(REQUEST,), (REQUEST, ASYNC)], ids=["in order", "async"])
def test_callers_do_not_wait_for_each_other(flags: tuple[Any, ...]) -> None:
    async def story() -> None:
        async with routed() as (it, server), connected(it) as one, connected(it) as two:
            one.ask("far/it", flags=flags, name="one")
            first = await server.request()
            # With the same message id, which a server refuses on the same connection.
            two.ask("far/it", flags=flags, name="two")
            second = await server.request()
            assert (first.name, second.name) == ("one", "two")
            assert first.peer is not second.peer
            second.answer(n=2)
            assert await answer_of(two) == {"n": 2}
            first.answer(n=1)
            assert await answer_of(one) == {"n": 1}

    run(story())


def test_connections_are_dialled_up_to_the_bound_and_kept() -> None:
    async def story() -> None:
        async with (
            routed(connections=2) as (it, server),
            connected(it) as one,
            connected(it) as two,
        ):
            for _ in range(3):
                for peer in (one, two):
                    peer.ask("far/it", name="any")
                held = [await server.request(), await server.request()]
                async with connected(it) as three:
                    three.ask("far/it", name="three")
                    await until(lambda: route_of(it).unanswered == 3)
                    assert server.requests.empty()
                    for each in held:
                        each.answer()
                    last = await server.request()
                    assert last.name == "three"
                    last.answer(n=3)
                    assert await answer_of(three) == {"n": 3}
                await answer_of(one)
                await answer_of(two)
            assert len(server.peers) == 2

    run(story())


def test_calls_of_one_caller_keep_their_order() -> None:
    async def story() -> None:
        async with routed(connections=1) as (it, server), connected(it) as peer:
            names = [str(n) for n in range(4)]
            for name in names:
                peer.ask("far/it", flags=(REQUEST, ASYNC), name=name)
            await until(lambda: route_of(it).unanswered == 4)
            seen = []
            for _ in names:
                request = await server.request()
                assert server.requests.empty()
                seen.append(request.name)
                request.answer()
            assert seen == names

    run(story())


def test_callers_take_turns() -> None:
    async def story() -> None:
        async with (
            routed(connections=1) as (it, server),
            connected(it) as one,
            connected(it) as two,
        ):
            for name in ("one-1", "one-2", "one-3"):
                one.ask("far/it", flags=(REQUEST, ASYNC), name=name)
            await until(lambda: route_of(it).unanswered == 3)
            two.ask("far/it", name="two-1")
            await until(lambda: route_of(it).unanswered == 4)
            seen = []
            for _ in range(4):
                request = await server.request()
                seen.append(request.name)
                request.answer()
            assert seen == ["one-1", "one-2", "two-1", "one-3"]

    run(story())


def test_one_caller_leaves_connections_and_places_to_others() -> None:
    async def story() -> None:
        async with (
            routed(connections=4, queue=8) as (it, server),
            connected(it) as greedy,
            connected(it) as other,
        ):
            for n in range(2):
                greedy.ask("far/it", flags=(REQUEST, ASYNC), name=str(n))
                assert (await server.request()).name == str(n)
            # It has two connections of four, and may have four places of eight.
            numbers = [greedy.ask("far/it", flags=(REQUEST, ASYNC), name="it") for _ in range(8)]
            for number in numbers[4:]:
                refused = await greedy.message()
                assert source_message_id(refused) == number
                assert "too many calls wait" in (error_of(refused) or "")
            assert route_of(it).unanswered == 6
            other.ask("far/it", name="other")
            request = await server.request()
            assert request.name == "other"
            request.answer(n=1)
            assert await answer_of(other) == {"n": 1}
            assert server.requests.empty()

    run(story())


def _cut(peer: Peer) -> None:
    peer.writer.transport.abort()


def _garbage(peer: Peer) -> None:
    peer.writer.write(b"\x00\x00\x00\x01!")


@pytest.mark.parametrize("lose", [_cut, _garbage])
def test_a_lost_connection_fails_its_own_call(lose: Callable[[Peer], None]) -> None:
    async def story() -> None:
        async with (
            routed(connections=2) as (it, server),
            connected(it) as one,
            connected(it) as two,
            connected(it) as three,
        ):
            one.ask("far/it", name="one")
            first = await server.request()
            two.ask("far/it", name="two")
            second = await server.request()
            three.ask("far/it", name="three")
            await until(lambda: route_of(it).unanswered == 3)
            lose(first.peer)
            assert "the connection was lost" in await error_at(one)
            third = await server.request()
            assert third.name == "three"
            third.answer(n=3)
            assert await answer_of(three) == {"n": 3}
            second.answer(n=2)
            assert await answer_of(two) == {"n": 2}

    run(story())


def test_a_late_reply_is_not_taken_for_another() -> None:
    async def story() -> None:
        async with (
            routed(connections=1, timeout_s=0.2) as (it, server),
            connected(it) as one,
            connected(it) as two,
        ):
            one.ask("far/it", name="one")
            first = await server.request()
            assert "no reply in time" in await error_at(one)
            await until(lambda: server.ended == [first.peer])
            first.answer(n="late")
            # `timeout_s` is short for this call, too.
            for n in range(100):
                two.ask("far/it", name=str(n))
                second = await server.request()
                assert second.peer is not first.peer
                second.answer(n=n)
                message = await two.message()
                if error_of(message) is None:
                    break
            assert values_of(message.rows) == {"n": n}

    run(story())


def test_a_second_reply_is_dropped() -> None:
    async def story() -> None:
        async with (
            routed(connections=1) as (it, server),
            connected(it) as one,
            connected(it) as two,
        ):
            one.ask("far/it", name="one")
            first = await server.request()
            two.ask("far/it", name="two")
            await until(lambda: route_of(it).unanswered == 2)
            first.answer(n=1)
            first.answer(n="again")
            assert await answer_of(one) == {"n": 1}
            second = await server.request()
            first.answer(n="and again")
            second.answer(n=2)
            assert await answer_of(two) == {"n": 2}
            assert it.hub.counters.failures["esnp", "unexpected_reply"] == 2
            assert len(server.peers) == 1

    run(story())


def sign_on(tmp_path: Path) -> dict[str, str]:
    token = tmp_path / "gate.token"
    token.write_text("a throw-away token")
    return {"id": "gate", "token_file": str(token)}


def test_the_time_of_a_call_counts_from_its_acceptance(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            routed(timeout_s=0.05, **sign_on(tmp_path)) as (it, server),
            connected(it) as one,
        ):
            await server.request()  # hub/auth, which gets no answer
            one.ask("far/it", name="one")
            assert "no reply in time" in await error_at(one)
            assert server.requests.empty()

    run(story())


def test_a_sign_on_without_an_answer_ends(tmp_path: Path) -> None:
    async def story() -> None:
        limits = {"auth_s": 0.05}
        async with (
            routed(limits, **sign_on(tmp_path)) as (it, server),
            connected(it) as one,
        ):
            one.ask("far/it", name="one")
            assert "is not reachable" in await error_at(one)
            peer = (await server.request()).peer
            await until(lambda: peer in server.ended)

    run(story())


def test_a_refused_sign_on_fails_calls_and_is_not_repeated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(esnp_routes, "_FIRST_DELAY_S", 3_600.0)

    async def story() -> None:
        async with routed(**sign_on(tmp_path)) as (it, server), connected(it) as one:
            auth = await server.request()
            one.ask("far/it", name="one")
            await until(lambda: route_of(it).unanswered == 1)
            auth.refuse("no")
            assert "is not reachable" in await error_at(one)
            for _ in range(3):
                assert "is not reachable" in await one.refusal("far/it", name="one")
            assert len(server.peers) == 1

    run(story())


def test_the_connection_of_a_caller_that_left_is_closed() -> None:
    async def story() -> None:
        async with routed(connections=1) as (it, server), connected(it) as two:
            async with connected(it) as one:
                one.ask("far/it", name="one")
                first = await server.request()
                two.ask("far/it", name="two")
                await until(lambda: route_of(it).unanswered == 2)
            second = await server.request()
            assert second.name == "two"
            await until(lambda: server.ended == [first.peer])
            second.answer(n=2)
            assert await answer_of(two) == {"n": 2}

    run(story())


def test_a_drain_waits_for_the_calls_of_routes() -> None:
    async def story() -> None:
        async with routed(limits={"drain_s": DEADLINE_S}) as (it, server), connected(it) as one:
            one.ask("far/it", name="one")
            request = await server.request()
            drain = asyncio.ensure_future(it.hub.drain())
            await until(lambda: it.hub.draining)
            done, _ = await asyncio.wait([drain], timeout=0.1)
            assert not done
            request.answer(n=1)
            assert await answer_of(one) == {"n": 1}
            await asyncio.wait_for(drain, DEADLINE_S)

    run(story())


def test_events_keep_their_order_and_do_not_wait_for_calls() -> None:
    async def story() -> None:
        async with (
            routed(connections=2) as (it, server),
            connected(it) as one,
            connected(it) as two,
        ):
            one.ask("far/it", name="one")
            await server.request()
            two.ask("far/it", name="two")
            await server.request()
            for n in range(5):
                one.tell("far/it", name=str(n))
            events = [await server.request() for _ in range(5)]
            assert [each.name for each in events] == ["0", "1", "2", "3", "4"]

    run(story())

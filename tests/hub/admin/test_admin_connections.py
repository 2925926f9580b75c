"""Idle, slow and many HTTP connections: a liveness probe always gets an answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.hub.admin.admin_client import AdminClient, admin_client, tailing
from tests.hub.certificates import Certificate, make_certificate
from tests.hub.running import DEADLINE_S, Running, running, until
from uvicorn.protocols.http.h11_impl import H11Protocol

from wirelake.hub.admin.server import _TURN_BYTES


@asynccontextmanager
async def _admin(
    certificate: Certificate | None = None, **settings: Any
) -> AsyncIterator[tuple[Running, AdminClient]]:
    """A hub without listeners, and its HTTP server."""
    table = settings if certificate is None else {**settings, "tls": certificate.settings}
    tls = None if certificate is None else certificate.trusting()
    async with running(listeners=[], admin=table) as it, admin_client(it.hub, tls) as admin:
        yield it, admin


async def _dial(admin: AdminClient, data: bytes = b"") -> tuple[Any, Any]:
    reader, writer = await asyncio.open_connection(*admin.address)
    writer.write(data)
    return reader, writer


async def _ended(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""


@pytest.mark.parametrize(
    ("secure", "data"),
    [
        (False, b""),
        (False, b"GET /healthz HTTP/1.1\r\nHost: "),
        (False, b"POST /v1/publish"),
        (True, b""),
        (True, b"\x16\x03\x01\x02\x00"),
    ],
)
def test_idle_connections_do_not_keep_probes_out(secure: bool, data: bytes, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path) if secure else None

    async def go() -> None:
        async with _admin(certificate, connections=8) as (it, admin):
            ends = [await _dial(admin, data) for _ in range(30)]
            for _ in range(3):
                assert (await admin.get("/healthz", token=None)).status == 200
                assert (await admin.get("/connz")).status == 200
            assert it.hub.counters.drops["admin", "admin_connections"] >= 22
            for reader, _ in ends[:22]:  # the oldest were closed
                await _ended(reader)
            for _, writer in ends:
                writer.transport.abort()

    asyncio.run(go())


def test_a_flood_of_one_address_closes_its_own_connections() -> None:
    async def go() -> None:
        async with _admin(connections=4, host="127.0.0.1") as (_, admin):
            other, writer = await asyncio.open_connection(
                *admin.address, local_addr=("127.0.0.2", 0)
            )
            flood = [await _dial(admin) for _ in range(20)]
            await _ended(flood[0][0])
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b" 200 " in await asyncio.wait_for(other.readline(), DEADLINE_S)
            for each in (writer, *(each for _, each in flood)):
                each.transport.abort()

    asyncio.run(go())


def test_when_all_are_in_use_only_probes_are_answered() -> None:
    async def go() -> None:
        async with _admin(connections=2) as (it, admin), AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(tailing(admin))
            assert (await admin.get("/healthz", token=None)).status == 200
            assert (await admin.get("/readyz", token=None)).status == 200
            answer = await admin.get("/varz")
            assert (answer.status, answer.json["error"]) == (503, "too_busy")
            # The reserve is bounded, and full of connections in use it refuses.
            assert it.hub.counters.refused["admin_connections"] == 0
            await stack.aclose()
            assert (await admin.get("/varz")).status == 200

    asyncio.run(go())


_PUBLISH = b"POST /v1/publish HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"


@pytest.mark.parametrize("data", [b"", b"GET /", b"GET /healthz HTTP/1.1\r\nA: b", _PUBLISH])
def test_a_request_has_a_deadline(data: bytes) -> None:
    async def go() -> None:
        async with _admin(request_s=5.0) as (it, admin):
            reader, writer = await _dial(admin, data)
            connections = admin.server._connections
            await until(lambda: any(each.made for each in connections))
            (connection,) = connections
            if data == _PUBLISH:
                # The answer to a request without a token comes before its body.
                assert b" 401 " in await asyncio.wait_for(reader.readline(), DEADLINE_S)
            # Each further byte changes nothing.
            start = connection.since
            for byte in b"ab":
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            connection.check_deadlines(start + 4.9)
            assert not it.hub.counters.drops
            connection.check_deadlines(max(connection.since, start) + 5.1)
            assert it.hub.counters.drops == {("admin", "too_slow"): 1}
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), DEADLINE_S)
            writer.close()

    asyncio.run(go())


def test_a_body_has_a_deadline() -> None:
    async def go() -> None:
        async with _admin(request_s=5.0) as (it, admin):
            head = f"Authorization: Bearer {admin.token}\r\nContent-Length: 100\r\n\r\n"
            data = f"POST /v1/publish HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}".encode() + b"{"
            reader, writer = await _dial(admin, data)
            connections = admin.server._connections
            await until(lambda: any(each.cycle is not None for each in connections))
            (connection,) = connections
            connection.check_deadlines(connection.since + 4.9)
            assert not it.hub.counters.drops
            connection.check_deadlines(connection.since + 5.1)
            assert it.hub.counters.drops == {("admin", "too_slow"): 1}
            await _ended(reader)
            writer.close()

    asyncio.run(go())


def test_a_peer_that_does_not_read_has_a_deadline() -> None:
    async def go() -> None:
        async with _admin(request_s=5.0) as (it, admin):
            _, writer = await _dial(admin, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            connections = admin.server._connections
            await until(lambda: any(each.made for each in connections))
            (connection,) = connections
            connection.pause_writing()
            connection.resume_writing()
            connection.pause_writing()
            now = it.hub.loop.time()
            connection.check_deadlines(now + 31.0)
            assert it.hub.counters.drops == {("admin", "slow_reader"): 1}
            writer.close()

    asyncio.run(go())


def test_keepalive_is_on() -> None:
    async def go() -> None:
        async with _admin() as (_, admin):
            _, writer = await _dial(admin)
            connections = admin.server._connections
            await until(lambda: any(each.made for each in connections))
            (connection,) = connections
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            writer.close()

    asyncio.run(go())


def test_those_closed_while_they_are_accepted_are_forgotten() -> None:
    async def go() -> None:
        async with _admin(connections=4) as (it, admin):
            server = admin.server._server
            assert server is not None
            # All are in the accept queue before the hub sees the first.
            peers = [socket.create_connection(admin.address) for _ in range(30)]
            drops = it.hub.counters.drops
            await until(lambda: drops["admin", "admin_connections"] >= 26, "most are closed")
            for peer in peers:
                peer.close()
            await until(lambda: not admin.server._connections, "none is counted")
            await until(lambda: not server.server_state.connections, "none is kept")

    # The loop of `wirelake hub`: with asyncio's own, each of them is reported as closed.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


def test_a_body_that_never_ends_does_not_fail_a_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with _admin(request_s=1_000.0) as (it, admin):
            head = f"Authorization: Bearer {admin.token}\r\nContent-Length: 100\r\n\r\n"
            data = f"POST /v1/publish HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}".encode() + b"{"
            reader, writer = await _dial(admin, data)
            connections = admin.server._connections
            await until(lambda: any(each.cycle is not None for each in connections))
            await admin.server.stop()
            assert it.hub.counters.drops == {("admin", "shutdown"): 1}
            await _ended(reader)
            writer.close()

    asyncio.run(go())
    assert caplog.records == []


def test_connections_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body in tiny chunks takes the parser long: others go on after each piece of it."""
    pieces: list[tuple[object, int]] = []
    parse = H11Protocol.data_received

    def record(connection: H11Protocol, data: bytes) -> None:
        pieces.append((connection, len(data)))
        parse(connection, data)

    monkeypatch.setattr(H11Protocol, "data_received", record)

    async def go() -> None:
        async with _admin() as (_, admin):
            head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            first = await _dial(admin, head + b"1\r\nx\r\n" * 1_000 + b"0\r\n\r\n")
            second = await _dial(admin, head + b"1\r\nx\r\n" * 1_000 + b"0\r\n\r\n")
            for reader, writer in (first, second):
                reply = await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), DEADLINE_S)
                assert reply.startswith(b"HTTP/1.1 200")
                # The body was read to its end: the connection takes another request.
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), DEADLINE_S)
            assert max(size for _, size in pieces) <= _TURN_BYTES
            changes = [one for (one, _), (other, _) in pairwise(pieces) if one is not other]
            assert len(changes) > 2

            # The head has a limit, also when all of it arrives at once.
            third = await _dial(admin, b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 9_000)
            reply = await asyncio.wait_for(third[0].readline(), DEADLINE_S)
            assert reply == b"HTTP/1.1 400 Bad Request\r\n"
            for _, writer in (first, second, third):
                writer.close()

    asyncio.run(go())

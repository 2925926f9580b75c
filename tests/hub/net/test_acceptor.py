"""Accepting: silent TLS connections, failed handshakes, socket options, a lack of descriptors."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.hub.admin.admin_client import admin_client
from tests.hub.certificates import make_certificate
from tests.hub.running import DEADLINE_S, LISTENERS, Running, running, until

from wirelake.hub.listeners.tny_gateway import LinkConnection
from wirelake.hub.net.acceptor import charged_address

ALL = (*LISTENERS, "parcel")


def _run(protocol: str, tls: dict[str, str] | None = None, **limits: Any) -> Any:
    """A hub with one listener, also of a protocol of another package."""
    settings: dict[str, Any] = {"port": 0} if tls is None else {"port": 0, "tls": tls}
    return running(listeners=[protocol], limits=limits, **{protocol: settings})


async def _dial(address: tuple[str, int], count: int) -> list[asyncio.StreamWriter]:
    return [(await asyncio.open_connection(*address))[1] for _ in range(count)]


async def _close(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)


@pytest.mark.parametrize("protocol", ALL)
def test_silent_tls_connections_are_counted(protocol: str, tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def go() -> None:
        async with _run(protocol, made.settings, half_open_per_address=5) as it:
            writers = await _dial(it.address(protocol), 20)
            refused = it.hub.counters.refused
            await until(lambda: refused["half_open_per_address"] == 15, "15 are refused")
            assert it.hub.table.count == 5
            assert not it.hub.connections
            await _close(writers)
            await until(lambda: it.hub.table.count == 0, "none is counted")
            assert it.hub.counters.handshake_failures[protocol, "lost"] == 5
            await _handshake(it, protocol, made.trusting())

    asyncio.run(go())


async def _handshake(it: Running, protocol: str, tls: Any) -> None:
    """A complete handshake is added to the table, and nothing is left of it."""
    _, writer = await asyncio.open_connection(
        *it.address(protocol), ssl=tls, server_hostname="localhost"
    )
    await until(lambda: len(it.hub.connections) == 1 and it.hub.table.count == 1)
    writer.transport.abort()
    await until(lambda: it.hub.table.count == 0)


def test_handshakes_have_a_deadline(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def go() -> None:
        async with _run("comet", made.settings, handshake_s=0.1) as it:
            reader, writer = await asyncio.open_connection(*it.address("comet"))
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
            writer.close()
            await until(lambda: it.hub.table.count == 0)
            assert it.hub.counters.handshake_failures == {("comet", "timeout"): 1}

    asyncio.run(go())


def test_bytes_that_are_no_handshake(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def go() -> None:
        async with _run("comet", made.settings) as it:
            reader, writer = await asyncio.open_connection(*it.address("comet"))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), DEADLINE_S)
            writer.close()
            await until(lambda: it.hub.table.count == 0)
            assert it.hub.counters.handshake_failures == {("comet", "tls"): 1}

    asyncio.run(go())


def test_a_stop_ends_handshakes(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def go() -> None:
        before = len(os.listdir("/proc/self/fd"))
        async with _run("comet", made.settings) as it:
            writers = await _dial(it.address("comet"), 3)
            await until(lambda: it.hub.table.count == 3)
        await until(lambda: it.hub.table.count == 0)
        await _close(writers)
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before, "descriptors are closed")

    asyncio.run(go())


# -- vanished peers ------------------------------------------------------------------------------


def _options(sock: Any) -> dict[str, int]:
    names = ("TCP_NODELAY", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    found = {each: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, each)) for each in names}
    return {**found, "SO_KEEPALIVE": sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)}


_EXPECTED = {
    "SO_KEEPALIVE": 1,
    "TCP_NODELAY": 1,
    "TCP_KEEPIDLE": 40,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 80_000,
}


@pytest.mark.parametrize("protocol", ALL)
def test_a_stop_while_a_connection_is_made_leaves_it_to_its_end(protocol: str) -> None:
    async def go() -> None:
        async with _run(protocol) as it:
            listener = it.hub.listeners[protocol]
            acceptor = listener._acceptor
            assert acceptor is not None

            class Stopping(listener.connection):  # type: ignore[name-defined,misc]
                def connection_made(self, transport: asyncio.BaseTransport) -> None:
                    super().connection_made(transport)
                    acceptor.close()

            listener.connection = Stopping
            _, writer = await asyncio.open_connection(*it.address(protocol))
            await until(lambda: bool(it.hub.connections), "it is connected")
            await until(lambda: not acceptor._connecting, "it is accepted")
            writer.transport.abort()
            await until(lambda: it.hub.table.count == 0, "its end is reported")

    # The loop of `wirelake hub`.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


@pytest.mark.parametrize("protocol", ALL)
def test_every_listener_probes_its_peers(protocol: str) -> None:
    async def go() -> None:
        async with _run(protocol, keepalive_s=40.0) as it:
            writers = await _dial(it.address(protocol), 1)
            await until(lambda: it.hub.connections)
            (connection,) = it.hub.connections.values()
            found = _options(connection.transport.get_extra_info("socket"))
            assert {key: bool(value) for key, value in found.items()} == dict.fromkeys(found, True)
            assert {**found, "SO_KEEPALIVE": 1, "TCP_NODELAY": 1} == _EXPECTED
            await _close(writers)

    asyncio.run(go())


def test_a_gateway_probes_its_backends() -> None:
    async def go() -> None:
        async with running(listeners=["relay"]) as backend:
            host, port = backend.address("relay")
            gateway = {"enabled": True, "backends": [{"host": host, "port": port}]}
            async with running(listeners=["tny"], gateway=gateway) as it:
                await until(lambda: it.hub.connections)
                (link,) = it.hub.connections.values()
                assert isinstance(link, LinkConnection)
                assert _options(link.transport.get_extra_info("socket"))["TCP_KEEPIDLE"] == 60

    asyncio.run(go())


# -- descriptors ---------------------------------------------------------------------------------


@contextmanager
def _descriptors(soft: int) -> Iterator[None]:
    """Set the limit of open files of this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _highest() -> int:
    return max(map(int, os.listdir("/proc/self/fd")))


def test_without_descriptors_it_logs_counts_and_recovers(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with _run("esnp") as it:
            loop = asyncio.get_running_loop()
            peers = [socket.socket() for _ in range(3)]
            taken = []
            errors = it.hub.counters.accept_errors
            try:
                with _descriptors(_highest() + 1):
                    with suppress(OSError):
                        while True:  # no number below the limit is free
                            taken.append(os.dup(0))
                    for peer in peers:
                        peer.setblocking(False)
                        await loop.sock_connect(peer, it.address("esnp"))
                    await until(lambda: errors["esnp", "EMFILE"] >= 2, "two attempts")
                    assert not it.hub.connections
                for each in taken:
                    os.close(each)
                await until(lambda: len(it.hub.connections) == 3, "all are accepted")
            finally:
                for peer in peers:
                    peer.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(go())
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "esnp: connections wait: Too many open files; raise the limit" in caplog.text


def test_the_last_descriptors_are_for_probes(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with _run("esnp") as it, admin_client(it.hub) as admin:
            assert (await admin.get("/healthz")).status == 200  # its thread has its descriptors
            await until(lambda: not admin.server._connections)
            highest = _highest()
            taken = [os.dup(0)]
            while taken[-1] < highest:  # as if all lower numbers were in use
                taken.append(os.dup(0))
            with _descriptors(highest + 20):
                writers = await _dial(it.address("esnp"), 3)
                refused = it.hub.counters.refused
                await until(lambda: refused["descriptors"] == 3, "three are refused")
                assert (await admin.get("/healthz")).status == 200
            assert not it.hub.connections
            await _close(writers)
            for each in taken:
                os.close(each)
            writers = await _dial(it.address("esnp"), 1)
            await until(lambda: len(it.hub.connections) == 1)
            await _close(writers)

    with caplog.at_level(logging.ERROR, logger="wirelake"):
        asyncio.run(go())
    assert len(caplog.records) == 1
    assert "descriptors are in use; raise the limit of open files" in caplog.text


# -- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "charged"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("fe80::2%eth0", "fe80::2%eth0"),
        ("", ""),
    ],
)
def test_limits_per_address_count_for_the_network_of_an_ipv6_address(
    host: str, charged: str
) -> None:
    assert charged_address(host) == charged


@pytest.mark.parametrize("protocol", ALL)
def test_addresses_of_one_network_share_a_limit(protocol: str) -> None:
    async def go() -> None:
        async with _run(protocol, half_open_per_address=2) as it:
            listener = it.hub.listeners[protocol]
            taken = [listener.accept(f"2001:db8::{number}") for number in range(3)]
            assert [each is not None for each in taken] == [True, True, False]
            other = listener.accept("2001:db8:0:1::1")
            assert other is not None
            for each in (*taken[:2], other):
                assert each is not None
                assert not listener.settled(each)
            assert it.hub.table.count == 0

    asyncio.run(go())

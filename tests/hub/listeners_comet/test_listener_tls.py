"""TLS at a listener: certificates of clients, certificates that change, peers that speak no TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.listeners_comet.phones import phone
from tests.hub.running import running

from wirelake.hub.config import ConfigError
from wirelake.protocols.comet.codec_seed import encode_frame
from wirelake.protocols.comet.layout import Heartbeat, Ok


def test_certificates_are_read_again_while_connections_stay(tmp_path: Path) -> None:
    asyncio.run(_reloaded(tmp_path))


async def _reloaded(folder: Path) -> None:
    old = make_certificate(folder)
    trusting_old = old.trusting()
    settings = {"tls": old.settings}
    async with (
        running(clients=["alice", "bob"], listeners=["comet"], comet=settings) as it,
        phone(it, "alice", tls=trusting_old) as alice,
    ):
        new = make_certificate(folder)
        await it.hub.reload(it.hub.config)
        with pytest.raises(ssl.SSLCertVerificationError):
            async with phone(it, "bob", tls=trusting_old):
                pass
        async with phone(it, "bob", tls=new.trusting()) as bob:
            assert await bob.ask(Heartbeat()) == Ok()
        assert await alice.ask(Heartbeat()) == Ok()


def test_a_client_without_a_certificate_is_refused(tmp_path: Path) -> None:
    asyncio.run(_client_certificates(tmp_path))


async def _client_certificates(folder: Path) -> None:
    server = make_certificate(folder)
    client = make_certificate(folder, "client")
    settings = {"tls": {**server.settings, "client_ca": str(client.certificate)}}
    async with running(clients=["alice"], listeners=["comet"], comet=settings) as it:
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            async with phone(it, "alice", tls=server.trusting()):
                pass
        known = server.trusting()
        known.load_cert_chain(client.certificate, client.key)
        async with phone(it, "alice", tls=known) as alice:
            assert await alice.ask(Heartbeat()) == Ok()


def test_a_peer_without_tls_does_not_affect_others(tmp_path: Path) -> None:
    asyncio.run(_no_tls(tmp_path))


async def _no_tls(folder: Path) -> None:
    made = make_certificate(folder)
    async with (
        running(clients=["alice"], listeners=["comet"], comet={"tls": made.settings}) as it,
        phone(it, "alice", tls=made.trusting()) as alice,
    ):
        reader, writer = await asyncio.open_connection(*it.address("comet"))
        writer.write(encode_frame(Heartbeat()) * 10)
        assert encode_frame(Ok()) not in await reader.read()
        writer.close()
        assert await alice.ask(Heartbeat()) == Ok()
        assert len(it.hub.connections) == 1


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    asyncio.run(_no_certificate(tmp_path))


async def _no_certificate(folder: Path) -> None:
    settings = {"tls": {"certificate": str(folder / "none.crt"), "key": str(folder / "none.key")}}
    with pytest.raises(ConfigError, match=r"none\.crt"):
        async with running(listeners=["comet"], comet=settings):
            pass

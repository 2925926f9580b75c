"""First contact with the wrong server: the error says what it speaks, and what to use instead."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.certificates import make_certificate
from tests.hub.running import running

from wirelake.client import AuthFailed, ClientError, ConnectionLost, Refused, connect, dial
from wirelake.client.dial import Identified, identify, wrong_server
from wirelake.client.errors import Unreachable, WrongServer, foreign_reply
from wirelake.client.settings import Where, parse_where
from wirelake.protocols import registry

DIALED = [name for name in registry.BUILT_IN if registry.binding(name).client is not None]
LISTENERS = tuple(registry.BUILT_IN)


def keyless(protocol: str) -> dict[str, Any]:
    """Options of a client that has no key of the server."""
    return {"anonymous": True} if protocol == "magline" else {}


async def error_of(work: Awaitable[object]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        await work
    return caught.value


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests may take long to answer."""
    monkeypatch.setattr(dial, "_PROBE_S", 20.0)


def test_every_protocol_is_identified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_identified(tmp_path, monkeypatch))


async def _identified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_certificate(folder)
    secured = {name: {"tls": made.settings} for name in (*LISTENERS, "admin")}
    async with (
        running() as plain,
        admin_client(plain.hub) as admin,
        running(**secured) as encrypted,
        admin_client(encrypted.hub, made.trusting()) as encrypted_admin,
    ):
        expected = {
            it.address(name): Identified(name, it is encrypted)
            for it in (plain, encrypted)
            for name in DIALED
        }
        expected |= {admin.address: Identified("http", False)}
        expected |= {encrypted_admin.address: Identified("http", True)}
        found = {address: await identify(*address) for address in expected}
        assert found == expected

        async def known(*address: Any, expected: object) -> Identified | None:  # noqa: ARG001
            return found[address]

        monkeypatch.setattr(dial, "identify", known)
        # Everything that a URL can say about each server, and what is wrong with it.
        for address, served in expected.items():
            for protocol in DIALED:
                for tls in (False, True):
                    given = Where(protocol, tls, *address)
                    error = await wrong_server(given)
                    assert (error is None) == (served == (protocol, tls)), (given, error)
                    if error is not None and served.protocol != "http":
                        assert f"use {served.scheme}://{given.place}" in str(error)
                    elif error is not None:
                        assert "an HTTP server, such as the admin address of a hub" in str(error)


def test_a_server_that_says_nothing_is_not_identified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "_PROBE_S", 0.2)
    asyncio.run(_silent())


async def _silent() -> None:
    ended = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    assert await identify(host, port) is None
    ended.set()
    server.close()


def test_a_slow_server_gets_no_bytes_of_other_protocols() -> None:
    """What is expected is tried first, so that a hub records no faults."""

    async def test() -> None:
        async with running() as it:
            for name in DIALED:
                assert await wrong_server(Where(name, False, *it.address(name))) is None
            # A probe has no key of the server: a handshake that is refused is an answer, too.
            assert {code for _, code in it.hub.counters.failures} <= {"handshake_failed"}

    asyncio.run(test())


def test_the_usual_port_of_another_protocol_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(dial, "identify", nothing)
    relay = parse_where("tny://127.0.0.1:9611")
    assert asyncio.run(wrong_server(relay)) is None
    error = asyncio.run(wrong_server(relay, guess=True))
    assert "9611 is the usual port of relay" in str(error)
    assert asyncio.run(wrong_server(parse_where("tny://127.0.0.1:1"), guess=True)) is None


@pytest.mark.parametrize("protocol", DIALED)
def test_plain_to_tls_and_tls_to_plain(protocol: str, tmp_path: Path) -> None:
    asyncio.run(_other_tls(protocol, tmp_path))


async def _other_tls(protocol: str, folder: Path) -> None:
    made = make_certificate(folder)
    options = {**keyless(protocol), "reconnect": False, "connect_timeout_s": 2.0}
    async with (
        running(listeners=[protocol]) as plain,
        running(listeners=[protocol], **{protocol: {"tls": made.settings}}) as encrypted,
    ):
        place = "{}:{}".format(*plain.address(protocol))
        client = connect(f"{protocol}s://{place}", **options)
        error = await error_of(client.open())
        assert isinstance(error, ConnectionLost)
        assert f"{protocol}://" in str(error)
        assert place in str(error)
        place = "{}:{}".format(*encrypted.address(protocol))
        client = connect(f"{protocol}s://{place}", **options)
        error = await error_of(client.open())
        assert isinstance(error, Refused)
        assert f"{place}: untrusted certificate" in str(error)
        assert "with --ca" in error.named({"tls": "--ca"})
        client = connect(f"{protocol}://{place}", **options, id="ann", token="a token")
        error = await error_of(client.open())
        assert isinstance(error, ConnectionLost)
        assert f"{protocol}s://" in str(error)


def test_replies_that_are_no_protocol_of_ours() -> None:
    alert = foreign_reply("tny", "h:1", b"\x15\x03\x03\x00\x02\x02\x28")
    assert isinstance(alert, WrongServer)
    assert str(alert) == "h:1: the server uses TLS; use tnys://h:1"
    assert "HTTP server" in str(foreign_reply("tny", "h:1", b"HTTP/1.1"))
    assert foreign_reply("tny", "h:1", b"\x01\x02") is None
    assert foreign_reply("tny", "h:1", b"") is None


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ConnectionRefusedError(111, "x"), Unreachable, "no server listens at this address"),
        (ConnectionResetError(), WrongServer, "does not use TLS, use esnp://h:9600"),
        (ConnectionAbortedError(), WrongServer, "does not use TLS, use esnp://h:9600"),
        (ssl.SSLError(1, "x"), WrongServer, "does not use TLS, use esnp://h:9600"),
        (OSError(113, "x"), Unreachable, "h:9600: No route to host"),
        (OSError(), Unreachable, "h:9600: OSError"),
        (TimeoutError(), Unreachable, "check host, port and firewalls, or use esnp:// if"),
    ],
)
def test_errors_of_dialling_have_a_cause(
    error: OSError, kind: type[ClientError], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        async def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
        await connect("esnps://h:9600").open()

    found = asyncio.run(error_of(fails()))
    assert isinstance(found, kind)
    assert text in str(found)


def test_messages_name_options_as_the_caller_does() -> None:
    refused = Refused("bad_key", lambda name: f"set {name('allow_plaintext')}")
    assert str(refused) == "set allow_plaintext (bad_key)"
    assert refused.text == "set allow_plaintext"
    assert refused.named({"allow_plaintext": "--plaintext"}) == "set --plaintext (bad_key)"
    assert str(AuthFailed(205, "no")) == AuthFailed(205, "no").named({}) == "no (205)"
    assert ConnectionLost("gone").named({}) == "gone"

"""Keys at an address: refreshes, failures, and servers that do not behave."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.client.test_clients_with_hub import client_of
from tests.hub.certificates import make_certificate
from tests.hub.running import free_config, running, until

from wirelake.client import AuthFailed
from wirelake.hub.config import ConfigError, make_config
from wirelake.hub.preflight import check_start
from wirelake.hub.signed_tokens import fetch as fetching
from wirelake.hub.signed_tokens import sources
from wirelake.hub.signed_tokens.fetch import MAX_KEYS_BYTES, FetchError, fetch
from wirelake.hub.signed_tokens.sources import AddressSource

from .issuing import KeyServer, Signer, jwks, key_server

HEAD = b"HTTP/1.1 200 OK\r\n"
BAD = "the answer is not valid HTTP, or incomplete"


def read(server: KeyServer) -> Any:
    return asyncio.wait_for(fetch(server.url, None), 20)


def test_a_document_is_read() -> None:
    async def run() -> None:
        async with key_server() as server:
            server.serve(b"{}")
            assert await read(server) == b"{}"
            assert server.requests[0].startswith(b"GET /jwks.json HTTP/1.1\r\n")
            chunks = b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
            server.answer = HEAD + chunks
            assert await read(server) == b"{}"
            server.answer = HEAD + b"\r\n{}"  # until the end of the connection
            assert await read(server) == b"{}"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", BAD),
        (b"\xff" * 100, BAD),
        (b"SSH-2.0-x\r\n\r\n", BAD),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", "redirects are not"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"),
        (HEAD + b"Content-Encoding: gzip\r\n\r\n", "compressed"),
        (HEAD + b"Content-Length: 9\r\n\r\n{}", BAD),
        (HEAD + b"\r\n" + b" " * (MAX_KEYS_BYTES + 1), "more than 262144 bytes"),
        (HEAD + b"X: " + b"x" * 100_000, BAD),
        (HEAD + b"Content-Length: -1\r\n\r\n", BAD),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_used(answer: bytes, problem: str) -> None:
    async def run() -> None:
        async with key_server() as server:
            server.answer = answer
            with pytest.raises(FetchError, match=problem):
                await read(server)

    asyncio.run(run())


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(fetching, "FETCH_S", 0.05)
        async with key_server() as server:
            server.hold = True
            for answer in (b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\n{}"):
                server.answer = answer
                with pytest.raises(FetchError, match="no complete answer within"):
                    await read(server)
        with pytest.raises(FetchError, match=r"refused|Connect"):
            await read(server)

    asyncio.run(run())


def test_https_needs_an_authority_that_is_trusted(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)

    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate, made.key)
        async with key_server(context) as server:
            server.serve(b"{}")
            url = server.url.replace("http:", "https:")
            assert await fetch(url, made.trusting()) == b"{}"
            with pytest.raises(FetchError, match="certificate verify failed"):
                await fetch(url, None)

    asyncio.run(run())


# -- refreshes -----------------------------------------------------------------------------------


class Address:
    """An address whose requests end when the test says so."""

    def __init__(self, source: AddressSource) -> None:
        self.source = source
        self.requests: list[asyncio.Future[bytes]] = []


@asynccontextmanager
async def address(signer: Signer) -> AsyncIterator[Address]:
    async def read(_: str, __: ssl.SSLContext | None) -> bytes:
        made.requests.append(asyncio.get_running_loop().create_future())
        return await made.requests[-1]

    settings = {**signer.settings, "keys": "https://id.example.com/jwks"}
    (issuer,) = make_config({"auth": {"issuers": [settings]}}).auth.issuers
    made = Address(AddressSource(issuer, None, fetch=read))
    made.source.start()
    try:
        yield made
    finally:
        await made.source.stop()


def test_unknown_keys_cause_one_request_in_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with address(signer) as it:
            waiting = [asyncio.ensure_future(it.source.refreshed()) for _ in range(50)]
            await asyncio.sleep(0)
            it.requests[0].set_result(jwks(signer))
            assert all(await asyncio.gather(*waiting))
            assert len(it.source.keys) == 1
            for _ in range(50):
                assert not await it.source.refreshed()
            assert len(it.requests) == 1
            late = asyncio.get_running_loop().time() + 61
            monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: late)
            waiting = [asyncio.ensure_future(it.source.refreshed()) for _ in range(50)]
            for _ in range(3):
                await asyncio.sleep(0)
            monkeypatch.undo()
            assert len(it.requests) == 2
            it.requests[1].set_exception(FetchError("down"))
            assert all(await asyncio.gather(*waiting))
            assert len(it.source.keys) == 1  # the known ones stay

    asyncio.run(run())


def test_a_sign_on_waits_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        monkeypatch.setattr(sources, "_WAIT_S", 0.01)
        async with address(Signer(tmp_path)) as it:
            assert not await it.source.refreshed()
            assert not it.requests[0].done()

    asyncio.run(run())


def test_whatever_happens_it_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with address(signer) as it:
            for error in (FetchError("status 500"), ValueError("a defect"), None):
                request = it.requests[-1]
                if error is None:
                    request.set_result(jwks(signer))
                else:
                    request.set_exception(error)
                await until(lambda: it.source._running is None)
                if error is not None:
                    it.source._next = 0.0
                    waiting = asyncio.ensure_future(it.source.refreshed())
                    await until(lambda before=request: it.requests[-1] is not before)
                    del waiting
            assert len(it.source.keys) == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "cannot read its keys: status 500; the 0 known ones stay" in caplog.text


# -- with a hub ----------------------------------------------------------------------------------


def test_keys_are_rotated_and_the_address_goes_down(tmp_path: Path) -> None:
    async def run() -> None:
        old, new = Signer(tmp_path, key_id="old"), Signer(tmp_path, key_id="new")
        async with key_server() as server:
            server.serve(jwks(old))
            issuer = {**old.settings, "keys": server.url, "retry_s": 1}
            async with running(listeners=["esnp"], auth={"issuers": [issuer]}) as it:
                signs_on: Callable[[str], Any] = lambda token: _signs_on(it, token)  # noqa: E731
                assert await signs_on(old.token())  # waits for the first request
                assert not await signs_on(new.token())
                _, source = it.hub.authority.issuers._issuers[old.iss]
                server.serve(jwks(new))
                source._next = 0.0
                assert await signs_on(new.token())
                assert not await signs_on(old.token())
                server.answer = b"HTTP/1.1 503 Down\r\n\r\n"
                source._next = 0.0
                assert not await signs_on(old.token())
                assert await signs_on(new.token())
                await it.hub.reload(it.hub.config)  # the known keys outlive it
                assert await signs_on(new.token())

    asyncio.run(run())


async def _signs_on(it: Any, token: str) -> bool:
    it.hub.authority.forget_failures("127.0.0.1")
    try:
        async with client_of(it, "esnp", token=token):
            return True
    except AuthFailed:
        return False


def test_a_hub_starts_while_the_address_is_down(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with key_server() as server:
            url = server.url
        issuer = {**signer.settings, "keys": url}
        auth = {"issuers": [issuer]}
        async with running(clients=["bob"], listeners=["esnp"], auth=auth) as it:
            async with client_of(it, "esnp", "bob"):
                pass
            assert not await _signs_on(it, signer.token())

    asyncio.run(run())


def test_a_hub_stops_while_keys_are_read(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with key_server() as server:
            server.hold = True
            auth = {"issuers": [{**signer.settings, "keys": server.url}]}
            async with running(listeners=["esnp"], auth=auth) as it:
                await until(lambda: server.requests)
                # A reload starts another request, and ends this one.
                await it.hub.reload(it.hub.config)
                await until(lambda: len(server.requests) == 2)

    asyncio.run(run())


def test_a_reload_that_fails_reads_no_address(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with key_server() as server:
            issuer = {**signer.settings, "keys": server.url}
            wrong = {**issuer, "issuer": "https://two.example", "keys": str(tmp_path / "missing")}
            auth = make_config({"auth": {"issuers": [issuer, wrong]}}).auth
            async with running(clients=["bob"], listeners=["esnp"]) as it:
                config = msgspec.structs.replace(it.hub.config, auth=auth)
                with pytest.raises(ConfigError, match=r"issuers\[1\].keys: .*missing: No such"):
                    await it.hub.reload(config)
                async with client_of(it, "esnp", "bob"):
                    pass
            assert server.requests == []

    asyncio.run(run())


def test_a_start_with_a_broken_key_leaves_nothing_behind(tmp_path: Path) -> None:
    signer = Signer(tmp_path)
    signer.file.write_text("no key")
    config = free_config(["esnp"], auth={"issuers": [signer.settings]})
    with pytest.raises(ConfigError, match=r"auth.issuers\[0\].keys: .*neither keys in PEM"):
        check_start(config, tmp_path / "data")
    assert not (tmp_path / "data").exists()

"""Ids and texts of any kind in paths, queries and bodies: an answer, never a 500."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import quote

import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.running import running, until

from wirelake.hub.admin import AdminServer
from wirelake.hub.admin.endpoints import ENDPOINTS

IDS = ["a/b", "/", "a//b/", "a b", "ä/日本", "a%2Fb", "a?b#c", "..", "a/../b", "x" * 256]
"""Ids that a client may have, and that need an encoding in a path."""
BYTES = [b"%FF", b"%ED%A0%80", b"%00", b"%", b"%zz", b"%F4%90%80%80", b"+", b"a" * 4_000]
"""Parts of paths and queries that are no text, or no id."""
BODIES = [
    b'{"topic": "a", "content": "\xff"}',
    b'{"topic": "\xff", "content": "a"}',
    b'{"client": "\xed\xa0\x80", "content": "a"}',
    b'{"client": "\x00", "content": "a"}',
    b'{"\xff": 1}',
    b'{"ids": ["\xff"]}',
    b'{"ids": ["\\ud800"]}',
    b"\xff\xfe{}",
    b"\xef\xbb\xbf{}",
    b"",
    b"[" * 100_000,
    b'{"type": 1e999, "topic": "a", "content": "a"}',
    b'{"ttl_s": 1e999, "topic": "a", "content": "a"}',
]


def test_inboxes_of_ids_that_need_an_encoding() -> None:
    asyncio.run(_inboxes())


async def _inboxes() -> None:
    async with running(clients=IDS, listeners=["comet"]) as it, admin_client(it.hub) as admin:
        for each in IDS:
            await admin.post("/v1/publish", {"client": each, "content": "hello"})
            answer = await admin.get(f"/v1/inbox/{quote(each, safe='')}")
            assert answer.status == 200, each
            assert answer.json["client"] == each
            assert [row["content"] for row in answer.json["notifications"]] == ["hello"]
            assert (await admin.get(f"/connz?client={quote(each, safe='')}")).status == 200
            assert (await admin.get(f"/v1/dead?client={quote(each, safe='')}")).status == 200
        answer = await admin.get(f"/v1/inbox/{quote('no/such', safe='')}")
        assert (answer.status, answer.json["error"]) == (404, "not_found")


def test_no_request_is_an_internal_error() -> None:
    asyncio.run(_requests())


async def _requests() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        for each in ENDPOINTS:
            if each.method == "POST":
                for body in BODIES:
                    answer = await admin.post(each.path, body)
                    assert answer.status in {400, 413}, (each.path, body[:40], answer.body)
                    assert answer.json["error"] in {"bad_arguments", "too_large"}
                continue
            for part in BYTES:
                text = part.decode()
                queries = [*(query.name for query in each.queries), "unknown"]
                if each.path == "/v1/tail":  # a valid filter would be answered without an end
                    queries = ["protocol", "unknown"]
                paths = [f"{each.path}?{name}={text}" for name in queries]
                paths = [path.replace("{client}", "anna").replace("{table}", "x") for path in paths]
                if each.places:
                    paths.append(each.path.partition("{")[0] + text)
                for path in paths:
                    answer = await admin.get(path)
                    assert answer.status < 500, (path[:80], answer.body)
        assert it.hub.counters.published == 0


BROKEN = [
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/publish HTTP/1.1\r\nHost: ::\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
]
"""What is not HTTP, from the first byte or in the body."""
CUT = b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: 9\r\n\r\n{}"


def test_broken_requests_are_counted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_broken())
    assert [record.message for record in caplog.records] == []


async def _broken() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        token = f"Authorization: Bearer {admin.token}".encode()
        for each in BROKEN:
            reader, writer = await asyncio.open_connection(*admin.address)
            writer.write(each.replace(b"%s", token))
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()
        assert it.hub.counters.failures == {("admin", "bad_request"): len(BROKEN)}
        _, writer = await asyncio.open_connection(*admin.address)
        writer.write(CUT.replace(b"%s", token))
        await writer.drain()
        await until(lambda: any(each.cycle for each in admin.server._connections))
        writer.close()
        await until(lambda: not admin.server._connections)
        assert (await admin.get("/healthz")).status == 200


def test_the_access_log_has_no_queries(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with running(listeners=["comet"]) as it:
            server = AdminServer(it.hub, access_log=True)
            await server.start()
            try:
                reader, writer = await asyncio.open_connection(*server.addresses[0])
                writer.write(b"GET /varz?token=secret HTTP/1.0\r\n\r\n")
                assert b"200 OK" in await reader.read()
                writer.close()
            finally:
                await server.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(go())
    # Not `caplog.text`: after tests with Spark it is in pyspark's JSON, with quotes escaped.
    logged = "\n".join(caplog.messages)
    assert '"GET /varz HTTP/1.0" 200' in logged
    assert "secret" not in logged

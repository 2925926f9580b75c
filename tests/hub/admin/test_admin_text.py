"""Ids and texts of any kind in paths, queries and bodies: an answer, never a 500."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from tests.hub.admin.admin_client import admin_client
from tests.hub.running import running

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

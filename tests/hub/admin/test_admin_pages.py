"""Pages for a look inside, and who may see them."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.hub.admin.admin_client import admin_client
from tests.hub.certificates import make_certificate
from tests.hub.listeners_comet.phones import phone
from tests.hub.running import running, until

from wirelake.hub.admin import admin_token, metrics, pages
from wirelake.hub.config import ConfigError
from wirelake.hub.store.interface import AddAccount, RemoveTopics, Subscribe

OPEN = ("/healthz", "/readyz", "/varz", "/metrics")
GUARDED = ("/connz", "/topicz", "/clientz", "/v1/dead", "/v1/inbox/anna", "/v1/tail")


def test_on_loopback_only_health_needs_no_token() -> None:
    asyncio.run(_who_may_ask())


async def _who_may_ask() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        for path in OPEN:
            assert (await admin.get(path, token=None)).status == 200, path
        for path in GUARDED:
            for wrong in (None, "a throw-away token that is wrong", admin.token[:-1]):
                answer = await admin.get(path, token=wrong)
                assert answer.status == 401, path
                assert answer.json["error"] == "auth_required"
                assert answer.headers["www-authenticate"] == "Bearer"
                it.hub.authority.forget_failures("admin 127.0.0.1")  # no delay for the next one
        refused = await admin.post("/v1/publish", {"topic": "@a", "content": "b"}, token=None)
        assert refused.status == 401
        assert it.hub.counters.published == 0
        assert (await admin.get("/connz")).status == 200


def test_outside_loopback_every_page_needs_the_token() -> None:
    asyncio.run(_elsewhere())


async def _elsewhere() -> None:
    async with (
        running(listeners=["comet"], admin={"host": "0.0.0.0"}) as it,
        admin_client(it.hub) as admin,
    ):
        for path in OPEN:
            assert (await admin.get(path, token=None)).status == 401, path
            assert (await admin.get(path)).status == 200, path


def test_connections_open_and_over() -> None:
    asyncio.run(_connections())


async def _connections() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        async with phone(it, "anna") as made, phone(it):
            host, port = made.writer.get_extra_info("sockname")
            found = (await admin.get("/connz")).json
            assert found["open"] == 2
            assert found["closed"] == []
            row = found["connections"][0]
            assert (row["client"], row["protocol"]) == ("anna", "comet")
            assert row["peer"] == f"{host}:{port}"
            assert {row["id"] for row in found["connections"]} == {*map(str, it.hub.connections)}
            assert row["bytes_in"] > 0 < row["bytes_out"]
            assert (await admin.get("/connz?client=anna")).json["open"] == 1
            assert (await admin.get("/connz?protocol=esnp")).json["open"] == 0
            paged = (await admin.get("/connz?limit=1&offset=1")).json
            assert [each["client"] for each in paged["connections"]] == [""]
        await until(lambda: not it.hub.connections)
        closed = (await admin.get("/connz")).json["closed"]
        assert sorted(each["client"] for each in closed) == ["", "anna"]
        assert all(isinstance(each["id"], str) for each in closed)
        assert {each["reason"] for each in closed} == {"eof"}
        assert {each["side"] for each in closed} == {"peer"}


@pytest.mark.parametrize(
    "path",
    ["/connz?limit=-1", "/connz?limit=x", "/connz?offset=99999999999999", "/connz?protocol=no"],
)
def test_an_invalid_query_is_reported(path: str) -> None:
    asyncio.run(_refused(path, 400))


@pytest.mark.parametrize(("path", "status"), [("/connz?lmit=1", 400), ("/nowhere", 404)])
def test_what_is_not_there_is_refused(path: str, status: int) -> None:
    asyncio.run(_refused(path, status))


async def _refused(path: str, status: int) -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        answer = await admin.get(path)
        assert answer.status == status
        assert set(answer.json) == {"error", "message"}


def test_counters_and_metrics_agree() -> None:
    asyncio.run(_counters())


async def _counters() -> None:
    async with running(clients=["anna"], listeners=["comet"]) as it, admin_client(it.hub) as admin:
        async with phone(it, "anna") as made:
            await made.subscribe("@news")
            wanted = {"topic": "@news", "content": "hello"}
            assert (await admin.post("/v1/publish", wanted)).status == 200
            assert await made.content() == b"hello"
            counts = (await admin.get("/varz")).json
            text = (await admin.get("/metrics")).body.decode()
        series = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert counts["connections"] == {"comet": 1}
        assert series["wirelake_connections", "comet"] == 1
        assert series["wirelake_connections_accepted_total", "comet"] == 1
        assert counts["published"] == series["wirelake_published_total",] == 1
        assert counts["delivered"] == {"comet": 1}
        assert series["wirelake_delivered_total", "comet"] == 1
        assert counts["bytes_in"]["comet"] == series["wirelake_bytes_in_total", "comet"] > 0
        assert counts["listeners"]["comet"] == ["{}:{}".format(*it.address("comet"))]


def test_metrics_do_not_wait_for_a_database_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_answer() -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
            assert b"wirelake_store_bytes" in (await admin.get("/metrics")).body
            monkeypatch.setattr(metrics, "_STORE_S", 0.01)
            monkeypatch.setattr(it.hub.store, "size", no_answer)
            async with asyncio.timeout(60):
                answer = await admin.get("/metrics")
            assert answer.status == 200
            assert b"wirelake_store_bytes" not in answer.body
            assert b"wirelake_store_failures_total" in answer.body

    asyncio.run(run())


def test_while_it_drains_it_is_not_ready_and_takes_nothing() -> None:
    asyncio.run(_draining())


async def _draining() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        it.hub.table.draining = True
        it.hub.topics.close()
        assert (await admin.get("/readyz")).status == 503
        assert (await admin.get("/healthz")).status == 200
        refused = await admin.post("/v1/publish", {"topic": "@a", "content": "b"})
        assert (refused.status, refused.json["error"]) == (503, "closing")


def test_topics_and_clients() -> None:
    asyncio.run(_topics())


async def _topics() -> None:
    async with (
        running(clients=["anna", "ben"], listeners=["comet"]) as it,
        admin_client(it.hub) as admin,
        phone(it, "anna") as made,
        phone(it, "ben"),
    ):
        await made.subscribe("@news", "@sport")
        topics = (await admin.get("/topicz")).json
        assert topics["count"] == 2
        assert {each["name"] for each in topics["topics"]} == {"@news", "@sport"}
        clients = (await admin.get("/clientz")).json
        assert {each["id"] for each in clients["clients"]} == {"anna", "ben"}
        paged = (await admin.get("/clientz?limit=1&offset=1")).json
        assert (paged["count"], len(paged["clients"])) == (2, 1)


def test_https(tmp_path: Path) -> None:
    asyncio.run(_https(tmp_path))


async def _https(folder: Path) -> None:
    made = make_certificate(folder)
    async with (
        running(listeners=["comet"], admin={"tls": made.settings}) as it,
        admin_client(it.hub, made.trusting()) as admin,
    ):
        assert (await admin.get("/healthz", token=None)).status == 200
        newer = make_certificate(folder)  # the same files
        await it.hub.reload(it.hub.config, admin.server)
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            await admin.get("/healthz")
        assert newer.certificate == made.certificate


def test_the_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    made = admin_token(tmp_path)
    assert admin_token(tmp_path) == made
    assert len(made) > 40
    assert stat.S_IMODE((tmp_path / "admin.token").stat().st_mode) == 0o600


def test_a_token_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("short\n")
    with pytest.raises(ConfigError, match="remove the file"):
        admin_token(tmp_path)


def test_it_can_be_switched_off() -> None:
    asyncio.run(_off())


async def _off() -> None:
    async with (
        running(listeners=["comet"], admin={"enabled": False}) as it,
        admin_client(it.hub) as admin,
    ):
        assert admin.server.addresses == []
        assert not (it.data / "admin.token").exists()


def test_pages_of_topics_and_clients() -> None:
    asyncio.run(_pages())


async def _pages() -> None:
    async with running(listeners=["esnp"]) as it, admin_client(it.hub) as admin:
        store = it.hub.store
        for number in range(2_000):
            id_ = f"c{number:04}"
            store.write(AddAccount("client", id_, bytes(32), 1))
            store.write(Subscribe(number + 1, id_, (f"@t{number:04}",), True, 10_000, 1))
        await store.execute(RemoveTopics(0))
        for name, letter in (("topics", "@t"), ("clients", "c")):
            page = (await admin.get(f"/{name[:-1]}z?limit=3&offset=1500")).json
            assert page["count"] == 2_000
            assert [row["name" if name == "topics" else "id"] for row in page[name]] == [
                f"{letter}{number}" for number in (1_500, 1_501, 1_502)
            ]
        assert it.hub.topics.registry.clients == {}  # nobody stays in memory


def test_counting_many_connections_lets_others_run() -> None:
    async def run() -> None:
        turns = 0
        ended = False

        async def other() -> None:
            nonlocal turns
            while not ended:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        await asyncio.sleep(0)
        seen = [each async for some in pages.in_slices(range(20_001)) for each in some]
        ended = True
        await task
        assert seen == list(range(20_001))
        assert turns > 4

    asyncio.run(run())

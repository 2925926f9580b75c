"""Access over HTTP: roles of tokens, delays after wrong ones, the Host header."""

from __future__ import annotations

import asyncio
import http.client
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from tests.hub.admin.admin_client import AdminClient, admin_client, tailing
from tests.hub.running import Running, running
from tests.hub.signed_tokens.issuing import Signer

from wirelake.hub.admin import access, admin_token, live
from wirelake.hub.admin.access import host_allowed
from wirelake.hub.admin.endpoints import ENDPOINTS
from wirelake.hub.config import AdminSettings, make_config
from wirelake.hub.errors import HubError
from wirelake.hub.roles import Role
from wirelake.hub.signed_tokens import Credential
from wirelake.hub.store import add_user, remove_user, rotate_user

ADDRESS = "admin 127.0.0.1"
"""The key of wrong tokens from this machine."""


def user(it: Running, role: Role | str, **options: Any) -> str:
    """The token of a new user."""
    label = role if isinstance(role, str) else role.label
    return add_user(it.database, f"a {label}", label, **options)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_each_role_reaches_its_endpoints_and_no_other(host: str) -> None:
    asyncio.run(_roles(host))


async def _roles(host: str) -> None:
    async with (
        running(clients=["anna"], listeners=["comet"], admin={"host": host}) as it,
        admin_client(it.hub) as admin,
    ):
        for role in Role:
            token = user(it, role)
            for each in ENDPOINTS:
                path = each.path.replace("{client}", "anna").replace("{table}", "calls")
                if path == "/v1/tail":  # endless: a filter that is refused tells enough
                    path += "?filter=%3D"
                body = b"{}" if each.method == "POST" else None
                answer = await admin.ask(each.method, path, body, token=token)
                allowed = role >= each.role or (each.open and host == "127.0.0.1")
                assert (answer.status != 403) == allowed, (role, each.path, answer.body)
                assert answer.status != 401
                if not allowed:
                    assert each.role.label in answer.json["message"]


def test_roles_have_names() -> None:
    assert [each.label for each in Role] == ["metrics", "viewer", "analyst", "operator"]
    assert all(Role.of(each.label) is each and each.meaning for each in Role)
    with pytest.raises(ValueError, match="unknown role 'boss'; expected one of metrics"):
        Role.of("boss")


def test_signed_tokens_with_roles(tmp_path: Path) -> None:
    asyncio.run(_signed(tmp_path))


async def _signed(folder: Path) -> None:
    signer = Signer(folder)
    issuer = {**signer.settings, "role_claim": "role"}
    async with (
        running(listeners=["comet"], auth={"issuers": [issuer]}) as it,
        admin_client(it.hub) as admin,
    ):

        async def status(path: str = "/connz", **claims: Any) -> int:
            it.hub.authority.forget_failures(ADDRESS)
            return (await admin.get(path, token=signer.token("anna", **claims))).status

        assert await status(role="viewer") == 200
        assert await status(role="viewer", sub=None) == 200
        assert await status("/v1/dead", role="viewer") == 403
        for claims in ({}, {"role": "boss"}, {"role": 4}, {"role": "viewer", "exp": 1}):
            assert await status(**claims) == 401
        assert it.hub.counters.auth_failures == {"admin": 4}
        grant = access.Access(it.hub, "")._find_signed(
            Credential(signer.iss, b"", 1 << 62, None, "viewer"), "anna"
        )
        assert grant is None  # of a key that is not known
    async with (
        running(listeners=["comet"], auth={"issuers": [signer.settings]}) as it,
        admin_client(it.hub) as admin,
    ):
        token = signer.token("anna", role="operator")
        assert (await admin.get("/connz", token=token)).status == 401


def test_a_stream_ends_with_its_signed_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_KEEPALIVE_S", 0.02)
    asyncio.run(_signed_stream(tmp_path))


async def _signed_stream(folder: Path) -> None:
    signer = Signer(folder)
    issuer = {**signer.settings, "role_claim": "role"}
    async with (
        running(listeners=["comet"], auth={"issuers": [issuer]}) as it,
        admin_client(it.hub) as admin,
    ):
        admin.token = signer.token(None, role="analyst")
        async with tailing(admin) as events:
            it.hub.topics._clock = lambda: time.time() + 71
            await events.rest()


def test_tokens_of_users_expire_are_rotated_and_removed() -> None:
    asyncio.run(_users())


async def _users() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:

        async def status(token: str) -> int:
            it.hub.authority.forget_failures(ADDRESS)
            return (await admin.get("/connz", token=token)).status

        path = it.database
        token = user(it, Role.VIEWER, lifetime_s=3_600)
        assert await status(token) == 200
        newer = rotate_user(path, "a viewer", overlap_s=60)
        assert [await status(each) for each in (token, newer)] == [200, 200]
        now = it.hub.topics._clock()
        it.hub.topics._clock = lambda: now + 61
        assert [await status(each) for each in (token, newer)] == [401, 200]
        remove_user(path, "a viewer")
        assert await status(newer) == 401
        assert await status(user(it, "of a newer version")) == 401


def test_a_stream_ends_when_its_token_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_KEEPALIVE_S", 0.02)
    asyncio.run(_stream())


async def _stream() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        admin.token = user(it, Role.ANALYST)
        async with tailing(admin) as events:
            remove_user(it.database, "a analyst")
            await events.rest()


def test_wrong_tokens_are_counted_and_delay_their_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.run(_delayed(monkeypatch))


async def _delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def quick(delay: float) -> None:
        slept.append(delay)
        await sleep(0)

    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        monkeypatch.setattr(access.asyncio, "sleep", quick)
        for _ in range(4):
            answer = await admin.get("/connz", token="a throw-away token that is wrong")
            assert (answer.status, answer.json["error"]) == (401, "auth_required")
        assert [each for each in slept if each > 0.1] == [0.25, 0.5, 1.0]
        assert it.hub.counters.auth_failures == {"admin": 4}
        metrics = (await admin.get("/metrics", token=None)).body
        assert b'wirelake_auth_failures_total{protocol="admin"} 4.0' in metrics
        assert it.hub.authority.delay("127.0.0.1") == 0  # clients behind the address are not slow
        assert (await admin.get("/connz", token=None)).status == 401
        assert it.hub.counters.auth_failures == {"admin": 4}  # no token is no guess
        assert (await admin.get("/connz")).status == 200
        assert it.hub.authority.delay(ADDRESS) == 0


def test_delayed_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_bounded(monkeypatch))


async def _bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = asyncio.Event()

    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        guard = access.Access(it.hub, "a throw-away token for a test")
        it.hub.authority.failed("admin a")

        async def wait(_: float) -> None:
            await ends.wait()

        monkeypatch.setattr(access.asyncio, "sleep", wait)
        waiting = [asyncio.ensure_future(guard._delay("a")) for _ in range(4)]
        for _ in range(3):
            await asyncio.wait(waiting, timeout=0)
        with pytest.raises(HubError) as refused:
            await guard._delay("a")
        assert refused.value.code == "too_busy"
        await guard._delay("b")  # another address is not affected
        ends.set()
        await asyncio.gather(*waiting)
        assert not guard._delayed
        monkeypatch.undo()
        assert admin.address


@pytest.mark.parametrize(
    ("host", "settings", "allowed"),
    [
        ("localhost:9680", {}, True),
        ("LOCALHOST.", {}, True),
        ("127.0.0.1:9680", {}, True),
        ("[::1]:9680", {}, True),
        ("192.0.2.7", {}, True),
        ("", {}, True),
        ("evil.example", {}, False),
        ("evil.example:9680", {}, False),
        ("127.0.0.1.evil.example", {}, False),
        ("[::1]", {}, True),
        ("[::1].evil.example", {}, False),
        ("[::1]:9680.evil.example", {}, False),
        ("[evil.example]", {}, False),
        ("hub.example:9680", {"hosts": ("Hub.example",)}, True),
        ("evil.example", {"hosts": ("hub.example",)}, False),
        ("evil.example", {"host": "0.0.0.0"}, True),
        ("evil.example", {"host": "0.0.0.0", "hosts": ("hub.example",)}, False),
        ("hub.internal", {"host": "hub.internal", "hosts": ("hub.example",)}, True),
    ],
)
def test_names_of_hosts(host: str, settings: dict[str, Any], allowed: bool) -> None:
    admin = AdminSettings(**settings)
    assert host_allowed(host, admin.host, admin.hosts) == allowed


def test_requests_for_other_hosts_are_refused() -> None:
    asyncio.run(_hosts())


async def _hosts() -> None:
    async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
        for path in ("/metrics", "/healthz", "/connz", "/nothing"):
            assert await asyncio.to_thread(_status, admin, path, "evil.example:9680") == 403, path
        assert await asyncio.to_thread(_status, admin, "/healthz", "localhost:9680") == 200
        elsewhere = make_config({"admin": {"host": "0.0.0.0"}})  # needs a restart
        await it.hub.reload(elsewhere, admin.server)
        assert await asyncio.to_thread(_status, admin, "/healthz", "evil.example") == 403
        await it.hub.reload(make_config({"admin": {"hosts": ["hub.example"]}}), admin.server)
        assert await asyncio.to_thread(_status, admin, "/healthz", "hub.example") == 200


def _status(admin: AdminClient, path: str, host: str) -> int:
    connection = http.client.HTTPConnection(*admin.address, timeout=20)
    try:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_address_cannot_be_forged() -> None:
    async def run() -> None:
        async with running(listeners=["comet"]) as it, admin_client(it.hub) as admin:
            await asyncio.to_thread(_forge, admin)
            assert it.hub.authority.delay(ADDRESS) > 0

    asyncio.run(run())


def _forge(admin: AdminClient) -> None:
    connection = http.client.HTTPConnection(*admin.address, timeout=20)
    wrong = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.1"}
    connection.request("GET", "/connz", headers=wrong)
    assert connection.getresponse().status == 401
    connection.close()


def test_a_token_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = admin_token(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert admin_token(tmp_path) == made
    assert caplog.text == ""
    (tmp_path / "admin.token").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert admin_token(tmp_path) == made
    assert "admin.token is readable by other users; run chmod 600" in caplog.text

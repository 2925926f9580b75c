"""Reload: certificates, limits and clients are replaced together, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.certificates import Certificate, make_certificate
from tests.hub.running import Running, running, until

from wirelake.client import connect
from wirelake.hub.admin import AdminServer
from wirelake.hub.config import Config, ConfigError, load_config, make_config, restart_keys
from wirelake.hub.errors import HubError
from wirelake.hub.hub import Hub
from wirelake.hub.listeners.esnp import EsnpListener
from wirelake.hub.listeners.tny_gateway import GatewayListener
from wirelake.hub.run import _reload
from wirelake.hub.store import remove_client, rotate_client

PROTOCOLS: dict[str, dict[str, Any]] = {
    "esnp": {},
    "tny": {},
    "magline": {"anonymous": True},
    "comet": {"allow_plaintext": True},
}
"""Every protocol that a client signs on with, and options of its client."""


async def handshake(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """Shake hands; a refused client certificate is an error at once in TLS 1.2, not in 1.3."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    _, writer = await asyncio.open_connection(*address, ssl=context)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def named(folder: Path, name: str) -> Certificate:
    """A certificate in a folder of its own."""
    (folder / name).mkdir()
    return make_certificate(folder / name)


def with_limits(config: Config, **changes: Any) -> Config:
    return msgspec.structs.replace(config, limits=msgspec.structs.replace(config.limits, **changes))


@pytest.mark.parametrize("broken", ["comet", "esnp", "admin"])
def test_a_refused_reload_changes_nothing(tmp_path: Path, broken: str) -> None:
    asyncio.run(_refused(tmp_path, broken))


async def _refused(folder: Path, broken: str) -> None:
    used = {name: named(folder, name) for name in ("comet", "esnp", "admin")}
    trusting = {name: each.trusting() for name, each in used.items()}
    tables = {name: {"tls": each.settings} for name, each in used.items()}
    async with (
        running(listeners=["comet", "esnp"], **tables) as it,
        admin_client(it.hub, trusting["admin"]) as admin,
    ):
        addresses = {"comet": it.address("comet"), "esnp": it.address("esnp")}
        addresses["admin"] = admin.address
        for name, each in used.items():
            newer = named(folder, f"newer-{name}")
            shutil.copy(newer.certificate, each.certificate)
            if name != broken:  # the broken one keeps the key of its old certificate
                shutil.copy(newer.key, each.key)
        before = it.hub.limits
        with pytest.raises(ConfigError, match="tls"):
            await it.hub.reload(with_limits(it.hub.config, calls=7, auth_s=1.0), admin.server)
        assert it.hub.limits == before
        assert it.hub.config.limits == before
        for name, address in addresses.items():
            await handshake(address, trusting[name])


@pytest.mark.parametrize("listener", ["comet", "admin"])
def test_an_authority_that_was_removed_is_not_trusted(tmp_path: Path, listener: str) -> None:
    asyncio.run(_authorities(tmp_path, listener))


async def _authorities(folder: Path, listener: str) -> None:
    server, old, new = (named(folder, name) for name in ("server", "old", "new"))
    authorities = folder / "authorities.pem"
    shutil.copy(old.certificate, authorities)
    tls = {**server.settings, "client_ca": str(authorities)}

    def showing(certificate: Certificate) -> ssl.SSLContext:
        context = server.trusting()
        context.load_cert_chain(certificate.certificate, certificate.key)
        return context

    async with (
        running(listeners=["comet"], **{listener: {"tls": tls}}) as it,
        admin_client(it.hub, showing(old)) as admin,
    ):
        address = admin.address if listener == "admin" else it.address("comet")
        await handshake(address, showing(old))
        shutil.copy(new.certificate, authorities)
        await it.hub.reload(it.hub.config, admin.server)
        await handshake(address, showing(new))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await handshake(address, showing(old))
        without = make_config(
            {"comet": {"tls": server.settings}, "admin": {"tls": server.settings}}
        )
        await it.hub.reload(without, admin.server)
        await handshake(address, server.trusting())


@pytest.mark.parametrize("change", [remove_client, rotate_client])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_connections_of_a_removed_or_rotated_client_are_closed(protocol: str, change: Any) -> None:
    asyncio.run(_revoked(protocol, change))


async def _revoked(protocol: str, change: Any) -> None:
    options = PROTOCOLS[protocol]
    tables: dict[str, Any] = {"magline": {"anonymous": True}} if protocol == "magline" else {}
    async with (
        running(clients=["anna", "ben"], listeners=[protocol], **tables) as it,
        connect(url(it, protocol), id="anna", token=it.tokens["anna"], reconnect=False, **options),
        connect(url(it, protocol), id="ben", token=it.tokens["ben"], **options),
    ):
        change(it.database, "anna")
        await it.hub.reload(it.hub.config)
        await until(lambda: clients_of(it) == ["ben"])
        closed = it.hub.table.closed_connections
        assert [(each.client, each.reason) for each in closed] == [("anna", "revoked")]


def url(it: Running, protocol: str) -> str:
    host, port = it.address(protocol)
    return f"{protocol}://{host}:{port}"


def clients_of(it: Running) -> list[str]:
    return [each.client.id for each in it.hub.connections.values() if each.client is not None]


def test_a_store_that_cannot_be_read_refuses_the_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_no_store(monkeypatch))


async def _no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> None:
        raise HubError("storage_failed")

    async with running(listeners=["comet"]) as it:
        monkeypatch.setattr(it.hub.store, "clients_with", fail)
        with pytest.raises(HubError):
            await it.hub.reload(with_limits(it.hub.config, calls=7))
        assert it.hub.limits.calls != 7


def test_new_limits_are_those_of_new_sessions() -> None:
    asyncio.run(_options())


async def _options() -> None:
    async with running(listeners=["esnp", "magline", "comet"]) as it:
        await it.hub.reload(with_limits(it.hub.config, calls=7, auth_s=2.5, auth_attempts=9))
        options: dict[str, Any] = {
            name: getattr(listener, "options", None) for name, listener in it.hub.listeners.items()
        }
        assert options["esnp"].max_requests == options["magline"].max_requests == 7
        assert options["magline"].order_deadline_s == options["comet"].auth_deadline_s == 2.5
        assert options["comet"].auth_attempts == 9


def test_changes_that_need_a_restart_are_named(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_restart(caplog))


async def _restart(caplog: pytest.LogCaptureFixture) -> None:
    async with running(listeners=["comet"]) as it:
        changed = with_limits(it.hub.config.with_listener("comet", port=4000), calls=7)
        with caplog.at_level(logging.WARNING):
            await it.hub.reload(changed)
        assert it.hub.limits.calls == 7
    assert "need a restart: comet.port" in caplog.text


def test_restart_keys() -> None:
    tls = {"certificate": "a", "key": "b"}
    old = make_config({"comet": {"tls": tls}, "store": {"server": 1}})
    new = make_config({"comet": {"tls": {**tls, "client_ca": "c"}}, "store": {"server": 2}})
    assert restart_keys(old, new) == ["store.server"]
    assert restart_keys(old, make_config({"store": {"server": 1}})) == ["comet.tls"]
    assert restart_keys(old, with_limits(old, calls=7)) == []


def test_settings_that_need_a_restart_stay(caplog: pytest.LogCaptureFixture) -> None:
    """Also those that are read later than at the start, such as the name of a gateway's link."""

    async def run() -> None:
        async with running(listeners=["comet"]) as it:
            before = it.hub.config
            changed = make_config(
                {
                    "comet": {"port": 4000, "enabled": False},
                    "gateway": {"name": "other", "dialect": "upstream"},
                    "record": {"source": "other"},
                    "admin": {"hosts": ["hub.example"], "connections": 3},
                    "rights": {"clients": [{"ids": ["a"]}]},
                    "limits": {"calls": 7},
                }
            )
            for _ in range(2):  # named again with every reload
                caplog.clear()
                await it.hub.reload(changed)
                assert "comet.port" in caplog.text
                assert "gateway.name" in caplog.text
            found = it.hub.config
            assert found == it.hub.context.config
            assert (found.limits, found.rights) == (changed.limits, changed.rights)
            assert found.admin == msgspec.structs.replace(before.admin, hosts=("hub.example",))
            for table in ("comet", "gateway", "record", "store"):
                assert found.table(table) == before.table(table)

    asyncio.run(run())


def test_limits_that_do_not_fit_a_listener_that_stays_are_refused() -> None:
    async def run() -> None:
        async with running(listeners=["comet"]) as it:
            before = it.hub.limits
            with pytest.raises(ConfigError, match="a comet frame holds at most"):
                await it.hub.reload(
                    make_config({"limits": {"content_bytes": 40_000}, "comet": {"enabled": False}})
                )
            assert it.hub.limits == before

    asyncio.run(run())


def test_content_that_does_not_fit_a_frame_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"limits\.content_bytes: a comet frame holds at most"):
        make_config({"limits": {"content_bytes": 40_000}})
    make_config({"limits": {"content_bytes": 40_000}, "comet": {"enabled": False}})


def test_a_signal_during_the_start_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        hub = Hub(Config(), tmp_path)
        await _reload(hub, AdminServer(hub), Config)

    asyncio.run(run())
    assert "not reloaded: the hub is starting" in caplog.text


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    path.write_bytes(b"[limits]\ncalls = 1 # \xff\n")
    with pytest.raises(ConfigError, match=r"hub\.toml: .*utf-8"):
        load_config(path)


def test_authorities_of_outgoing_connections_are_read_again(tmp_path: Path) -> None:
    """Links of a gateway and routes: one that was removed is not trusted, and all or nothing."""
    old, new = named(tmp_path, "old"), named(tmp_path, "new")
    authorities = tmp_path / "authorities.pem"
    shutil.copy(old.certificate, authorities)
    tls = {**old.settings, "client_ca": str(authorities)}
    route = {"server": "127.0.0.1:1", "tls": True, "ca": str(authorities)}

    async def run() -> None:
        async with running(
            listeners=["tny", "esnp"],
            relay={"tls": tls},
            gateway={"enabled": True, "backends": [{"host": "127.0.0.1", "port": 1, "tls": True}]},
            tny={"auth": "none"},
            esnp={"routes": [route]},
        ) as it:

            def trusted() -> list[Any]:
                gateway, esnp = it.hub.listeners["tny"], it.hub.listeners["esnp"]
                assert isinstance(gateway, GatewayListener)
                assert isinstance(esnp, EsnpListener)
                contexts = (gateway.backend_tls, esnp.routes[0].tls)
                return [each.get_ca_certs(True) for each in contexts if each is not None]

            def only(certificate: Certificate) -> list[Any]:
                return [[ssl.PEM_cert_to_DER_cert(certificate.certificate.read_text())]] * 2

            assert trusted() == only(old)
            shutil.copy(new.certificate, authorities)
            await it.hub.reload(it.hub.config)
            assert trusted() == only(new)
            authorities.write_text("nonsense")
            with pytest.raises(ConfigError, match=r"relay\.tls|esnp\.routes"):
                await it.hub.reload(it.hub.config)
            assert trusted() == only(new)

    asyncio.run(run())

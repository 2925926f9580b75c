"""A hub starts with each shipped configuration and passes its probe."""

from __future__ import annotations

import runpy
import socket
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.cli.started_hub import HubProcess, hub_process

from wirelake.hub.config import ConfigError, load_config
from wirelake.protocols.binding import is_loopback

from .shipped import CONFIGS, DEPLOY, here

HEALTH = DEPLOY / "health.py"
ALERT = b"\x15"
"""Start of a TLS alert."""


def ask(hub: HubProcess, page: str, *, scheme: str = "http", data: Path | None = None) -> str:
    """Return the error of the probe; empty if healthy."""
    port = hub.address("admin")[1]
    command = [sys.executable, str(HEALTH), page, "--url", f"{scheme}://127.0.0.1:{port}"]
    found = subprocess.run(
        [*command, "--data", str(data or hub.data)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == bool(found.stderr), found
    return found.stderr


@pytest.mark.parametrize("name", CONFIGS)
def test_a_hub_starts_records_and_drains(name: str, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    scheme = "https" if name == "kubernetes" else "http"
    text = here(CONFIGS[name], tmp_path, certificate.settings)
    with hub_process(tmp_path, config=text) as hub:
        for page in ("/healthz", "/readyz"):
            assert ask(hub, page, scheme=scheme) == ""
        assert list((tmp_path / "recordings").iterdir())
        code, errors = hub.end()
    assert (code, errors) == (0, "")


def test_probe_reports_the_problem(tmp_path: Path) -> None:
    with hub_process(tmp_path, config=here(CONFIGS["compose"], tmp_path)) as hub:
        assert "/healthz answers 401" in ask(hub, "/healthz", data=tmp_path)
        assert "/nowhere answers 404" in ask(hub, "/nowhere")
        assert "no answer from https://" in ask(hub, "/healthz", scheme="https")
        hub.end()
        assert "no answer from http://" in ask(hub, "/healthz")


def test_the_probe_looks_at_the_default_port_and_folder() -> None:
    said = HEALTH.read_text(encoding="utf-8")
    assert f"http://127.0.0.1:{load_config(None).admin.port}" in said
    assert "/var/lib/wirelake/hub" in said
    assert runpy.run_path(str(HEALTH))["_LIMIT_S"] < 5  # the time-out of every probe


@pytest.mark.parametrize("name", CONFIGS)
def test_listeners_off_loopback_require_a_token(name: str) -> None:
    config = load_config(CONFIGS[name])
    listeners = {"esnp", "tny", "magline", "comet", "admin"}
    outside = {each for each in listeners if not is_loopback(config.table(each).host)}
    assert outside == (set() if name == "systemd" else listeners)
    for each in ("esnp", "tny", "magline"):
        assert config.table(each).auth == "token"
    assert not config.table("magline").anonymous
    assert all((config.table(each).tls is not None) == (name == "kubernetes") for each in listeners)


@pytest.mark.parametrize("name", ["compose", "kubernetes"])
def test_relay_without_gateways_is_rejected(name: str, tmp_path: Path) -> None:
    text = CONFIGS[name].read_text(encoding="utf-8")
    assert not tomllib.loads(text)["relay"]["enabled"]
    file = tmp_path / "hub.toml"
    file.write_text(text.replace("enabled = false", 'host = "0.0.0.0"'))
    with pytest.raises(ConfigError, match=r"set relay\.allow"):
        load_config(file)


def test_kubernetes_listeners_accept_only_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    text = here(CONFIGS["kubernetes"], tmp_path, certificate.settings)
    with hub_process(tmp_path, config=text) as hub:
        port = hub.address("comet")[1]
        with (
            socket.create_connection(("127.0.0.1", port), timeout=20) as line,
            certificate.trusting().wrap_socket(line, server_hostname="localhost") as sealed,
        ):
            assert sealed.version() in {"TLSv1.2", "TLSv1.3"}
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(b"\x00\x01\x06" * 10)
            with suppress(ConnectionError):
                assert line.recv(100)[:1] in {b"", ALERT}
        hub.end()


def test_mounted_token_is_the_admin_token(tmp_path: Path) -> None:
    """Like a Kubernetes Secret: a read-only file of another user."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "admin.token").write_text("throw-away-token-of-a-test")
    (data / "admin.token").chmod(0o440)
    with hub_process(tmp_path, config=here(CONFIGS["compose"], tmp_path)) as hub:
        assert ask(hub, "/healthz") == ""
        assert hub.end()[0] == 0
    assert (data / "admin.token").read_text() == "throw-away-token-of-a-test"

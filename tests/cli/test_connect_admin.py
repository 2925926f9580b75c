"""Requests to a hub's HTTP API: address, token, and the errors when it does not answer."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import click
import pytest
from tests.hub.admin.admin_client import admin_client
from tests.hub.certificates import make_certificate
from tests.hub.running import running

from wirelake.cli.connect import (
    AdminHub,
    Event,
    HubUnavailableError,
    RequestRefusedError,
    admin_hub,
)
from wirelake.cli.errors import CommandError

from .fixed_response_server import answering

TOKEN = "a-throw-away-token"
FOLDERS = ("one", "two", "hub-data")


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders with a token each, which is their name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WIRELAKE_ADMIN_TOKEN", raising=False)
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "admin.token").write_text(f"throw-away-{name}\n")
    return tmp_path


def _token(data: str | None = None, file: str | None = None) -> str:
    return admin_hub("http://127.0.0.1:1", context=None, data=data, token_file=file)._token


def test_where_the_token_comes_from(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _token() == "throw-away-hub-data"
    monkeypatch.setenv("WIRELAKE_ADMIN_TOKEN", "throw-away-variable")
    assert _token() == "throw-away-variable"
    assert _token(data="one") == "throw-away-one"
    assert _token(file=str(tokens / "two" / "admin.token")) == "throw-away-two"


def test_without_a_token_the_error_names_its_file(tokens: Path) -> None:
    (tokens / "hub-data" / "admin.token").unlink()
    with pytest.raises(click.UsageError, match="--data DIR"):
        _token()
    with pytest.raises(CommandError, match=r"hub-data/admin\.token: no such file"):
        _token(data="hub-data")
    with pytest.raises(click.UsageError, match="--data conflicts with --token-file"):
        _token(data="one", file="two/admin.token")
    (tokens / "hub-data" / "admin.token").write_text("\n")
    with pytest.raises(CommandError, match="not a token"):
        _token(data="hub-data")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:9680/", "http://127.0.0.1:9680"),
        ("127.0.0.1:9680", "http://127.0.0.1:9680"),
        ("https://hub.example.org/edge/", "https://hub.example.org/edge"),
        ("http://[::1]:9680", "http://[::1]:9680"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    assert AdminHub(given, TOKEN).url == url


@pytest.mark.parametrize("given", ["esnp://127.0.0.1:9600", "http://", "http://a:99999", ""])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(click.UsageError):
        AdminHub(given, TOKEN)


def test_a_path_before_the_pages_stays() -> None:
    asked: list[str] = []
    with answering(200, b"{}", asked=asked) as url:
        AdminHub(f"{url}/edge/", TOKEN).json("/v1/top", limit=5, filter=None)
    assert asked == ["/edge/v1/top?limit=5"]


def test_connection_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(
            HubUnavailableError, match=r"cannot reach the hub .*refused.*wirelake hub"
        ):
            AdminHub(f"http://127.0.0.1:{port}", TOKEN).json("/v1/top")


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (404, b"not here"), (401, b'{"detail": "no"}')]
)
def test_no_hub(status: int, body: bytes) -> None:
    with (
        answering(status, body) as url,
        pytest.raises(CommandError, match="not a hub's admin address"),
    ):
        AdminHub(url, TOKEN).json("/v1/top")


@pytest.mark.parametrize(
    ("status", "message"), [(401, "invalid admin token"), (404, "older than"), (429, "full")]
)
def test_refusals(status: int, message: str) -> None:
    body = b'{"error": "some_code", "message": "full"}'
    with (
        answering(status, body) as url,
        pytest.raises(RequestRefusedError, match=message) as caught,
    ):
        AdminHub(url, TOKEN).json("/v1/top")
    assert (caught.value.status, caught.value.reason) == (status, "full")


def test_events_are_read_and_comments_are_not() -> None:
    body = b': hello\n\nevent: message\ndata: {"a": 1}\n\n: more\n\nevent: dropped\ndata: 7\n\n'
    with answering(200, body, "text/event-stream; charset=utf-8") as url:
        found = list(AdminHub(url, TOKEN).events("/v1/tail"))
    assert found == [Event("message", {"a": 1}), Event("dropped", 7)]


@pytest.mark.parametrize(
    ("body", "kind"), [(b"{}", "application/json"), (b"data: {\n\n", "text/event-stream")]
)
def test_a_stream_of_something_else_is_no_hub(body: bytes, kind: str) -> None:
    with (
        answering(200, body, kind) as url,
        pytest.raises(CommandError, match="not a hub's admin address"),
    ):
        list(AdminHub(url, TOKEN).events("/v1/tail"))


def test_https_needs_a_trusted_certificate(tmp_path: Path) -> None:
    asyncio.run(_https(tmp_path))


async def _https(folder: Path) -> None:
    made = make_certificate(folder)
    async with (
        running(listeners=["comet"], admin={"tls": made.settings}) as it,
        admin_client(it.hub, made.trusting()) as admin,
    ):
        url = f"https://localhost:{admin.address[1]}"
        trusting = AdminHub(url, admin.token, str(made.certificate))
        assert (await asyncio.to_thread(trusting.json, "/v1/top"))["topics"] == []
        stranger = AdminHub(url, admin.token)
        with pytest.raises(HubUnavailableError, match=r"untrusted certificate .*--ca"):
            await asyncio.to_thread(stranger.json, "/v1/top")

"""URLs, options, waits: what is decided before anything is sent."""

from __future__ import annotations

import asyncio
import ssl

import pytest

import wirelake.client
from wirelake.client import BadCall, CallFailed, ClientError, Result, connect
from wirelake.client.connection import notification_of, pushed, refusal_text
from wirelake.client.dial import connection_class
from wirelake.client.errors import session_error
from wirelake.client.settings import Where, make_settings, parse_addresses, parse_where
from wirelake.protocols.sansio import SessionError


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("esnp://127.0.0.1:9/test/add", Where("esnp", False, "127.0.0.1", 9, "test/add")),
        ("esnp://h/a/b?o=1&to=5", Where("esnp", False, "h", 9600, "a/b?o=1&to=5")),
        ("tny://h/1002", Where("tny", False, "h", 9610, "1002")),
        ("maglines://h", Where("magline", True, "h", 9757, "")),
        ("comets://[::1]:7/", Where("comet", True, "::1", 7, "")),
    ],
)
def test_urls(url: str, where: Where) -> None:
    assert parse_where(url) == where


def test_urls_of_several_servers() -> None:
    several = parse_addresses("comets://a,b:7,[::1]:8,[::2]/x?y=1,2")
    assert several == (
        Where("comet", True, "a", 9620, "x?y=1,2"),
        Where("comet", True, "b", 7, "x?y=1,2"),
        Where("comet", True, "::1", 8, "x?y=1,2"),
        Where("comet", True, "::2", 9620, "x?y=1,2"),
    )
    assert parse_addresses("tny://a/1,2") == (Where("tny", False, "a", 9610, "1,2"),)
    assert len(parse_addresses("tny://a,b,a:9610")) == 2, "each once"
    assert parse_where("tny://a,b").host == "a"
    settings = make_settings("tny://a,b")
    assert settings.addresses == parse_addresses("tny://a,b")
    assert settings.at(settings.addresses[1]).where.host == "b"
    assert settings.at(settings.addresses[0]) is settings


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("esnp://a:1/test/add?o=2", "esnp://a:1/test/add?o=2"),
        ("esnp://a,b/test/add?o=2", "esnp://_/test/add?o=2"),  # no server is meant
        ("tny://a,b/1002", "1002"),
        ("magline://a/0x1002", "0x1002"),
    ],
)
def test_the_target_of_a_url(url: str, target: str) -> None:
    addresses = parse_addresses(url)
    assert connection_class(addresses[0].protocol).url_target(addresses) == target


def test_places_can_be_read() -> None:
    assert parse_where("tny://[::1]:5").place == "[::1]:5"
    assert parse_where("tny://game.example").place == "game.example:9610"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://h", "expected a URL with one of esnp://, esnps://"),
        ("127.0.0.1:9600", "expected a URL"),
        ("esnp://", "missing host"),
        ("tny://h:70000", "70000"),
        ("tny://h:x", "h:x"),
        ("tny://a:b@h", "credentials in a URL"),
        ("tny://[::1", "tny"),
        ("tny://a,,b", "tny://a,,b: missing host"),
        ("tny://a,b,", "tny://a,b,: missing host"),
        ("tny://a,b:0", "invalid port"),
        ("tny://a,b:x/1", "tny://a,b:x/1: invalid port"),
        ("tny://a,x:y@h", "credentials in a URL"),
    ],
)
def test_bad_urls(url: str, words: str) -> None:
    with pytest.raises(BadCall, match=words):
        parse_where(url)


def test_options_are_checked_by_name() -> None:
    with pytest.raises(BadCall, match="unknown option 'nmae'; expected one of id, token"):
        make_settings("tny://h", nmae=1)
    numbers = ("backoff_s", "timeout_s", "heartbeat_s", "max_waiting", "connect_timeout_s")
    for name in (*numbers, "max_calls", "max_queued_calls"):
        with pytest.raises(BadCall, match=name):
            make_settings("tny://h", **{name: 0})
    for key in ("ab", "zz" * 32, b"short"):
        with pytest.raises(BadCall, match="pinned: expected 32 bytes"):
            make_settings("magline://h", pinned=key)
    with pytest.raises(
        BadCall, match=r"^unknown option 'pinned' of esnp; expected one of dialect,"
    ):
        make_settings("esnp://h", pinned=bytes(32))
    with pytest.raises(BadCall, match=r"^pinned conflicts with allow_plaintext$"):
        make_settings("comet://h", pinned=bytes(32), allow_plaintext=True)


def test_secrets_are_not_printed() -> None:
    settings = make_settings("magline://h", token="throw-away", psk="11" * 32)
    assert "throw-away" not in repr(settings)
    assert "\\x11" not in repr(settings)
    assert "obscured" not in repr(make_settings("tny://h", security_keys=["obscured"]))


def test_tls_and_what_it_means_for_comet() -> None:
    plain, tls = make_settings("comet://h"), make_settings("comets://h")
    assert plain.tls is None
    assert isinstance(tls.tls, ssl.SSLContext)
    assert (plain.plaintext, tls.plaintext) == (False, True)
    assert not make_settings("comets://h", allow_plaintext=False).plaintext
    assert not make_settings("comets://h", pinned=bytes(32)).plaintext
    given = ssl.create_default_context()
    assert make_settings("comet://h", tls=given).tls is given


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("esnp://127.0.0.1:1", {"dialect": "nope"}),
        ("tny://127.0.0.1:1", {"dialect": "nope"}),
        ("comet://127.0.0.1:1", {"dialect": "nope"}),
        ("comet://127.0.0.1:1", {"pinned": bytes(32), "allow_plaintext": True}),
        ("comet://127.0.0.1:1", {"psk": bytes(32)}),
        ("esnp://127.0.0.1:1", {"pinned": bytes(32)}),
        ("tny://127.0.0.1:1", {"anonymous": True}),
        ("magline://127.0.0.1:1", {"dialect": "seed", "anonymous": True}),
        ("magline://127.0.0.1:1", {"pinned": bytes(32), "psk": bytes(32)}),
    ],
)
def test_options_that_cannot_work(url: str, options: dict[str, object]) -> None:
    async def story() -> None:
        with pytest.raises(BadCall):
            await connect(url, **options).open()

    asyncio.run(story())


def test_results() -> None:
    assert Result(b'{"a": 1}').data == {"a": 1}
    assert Result(b'{"a": 1}').beside == b""
    assert (Result(b"[1]").data, Result(b"[1]").beside) == ({}, b"[1]")
    assert (Result(b"x", {"a": 1}).data, Result(b"x", {"a": 1}).beside) == ({"a": 1}, b"x")


def test_contents_of_a_push() -> None:
    assert pushed(b"not json") is None
    assert pushed(b"[]") is None
    assert pushed(b'{"id": "1", "content_base64": "?"}') is None
    assert pushed(b'{"id": "1", "content": "x", "ts": "no"}') is None
    found = notification_of({"id": 5, "content": b"\xff", "ts": 3, "type": 2})
    assert (found.id, found.content, found.ts_ms, found.type) == ("5", b"\xff", 3, 2)
    assert found.text == "\\xff"
    assert refusal_text(b'{"text": "no"}') == "no"
    assert refusal_text(b"plain") == "plain"


def test_errors_describe_the_cause() -> None:
    assert str(CallFailed(500, "failed on request")) == "failed on request (500)"
    assert str(CallFailed(205)) == "205"
    busy = session_error(SessionError("too_busy", "1 waits"), closed=False)
    assert isinstance(busy, wirelake.client.Busy)
    assert isinstance(busy, CallFailed)
    assert isinstance(session_error(SessionError("bad_state"), closed=True), ConnectionError)
    for name in wirelake.client.__all__:
        assert getattr(wirelake.client, name).__doc__
    assert issubclass(wirelake.client.Timeout, (ClientError, TimeoutError))


def test_a_client_must_be_opened_first() -> None:
    async def story() -> None:
        with pytest.raises(BadCall, match="open the client first"):
            await connect("tny://127.0.0.1:1").call(1)

    asyncio.run(story())

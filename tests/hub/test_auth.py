"""Tokens, failed sign-ons, and delays for the addresses of failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.hub.stores import database_of

from wirelake.hub.auth import FORGET_S, LONGEST_S, read_key, read_secret
from wirelake.hub.errors import HubError
from wirelake.hub.store import add_client, remove_client, rotate_client

from .certificates import make_certificate
from .pubsub.local_topics import LocalTopics, local_topics
from .running import running


def test_tokens_are_verified_and_changes_take_effect_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        path = database_of(tmp_path)
        async with local_topics(tmp_path) as it:
            assert await it.authority.verify("ann", "t") is None
            token = add_client(path, "ann")
            assert await it.authority.verify("ann", token) is not None
            for id_, wrong in (("ann", token[:-1]), ("bob", token), ("", token), ("\udc80", token)):
                assert await it.authority.verify(id_, wrong) is None
            assert await it.authority.verify("ann", "\udc80") is None
            new = rotate_client(path, "ann")
            assert await it.authority.verify("ann", new) is not None
            assert await it.authority.verify("ann", token) is None
            remove_client(path, "ann")
            assert await it.authority.verify("ann", new) is None

    asyncio.run(run())


@pytest.mark.sqlite_only("reads of PostgreSQL suspend")
def test_signing_on_without_failures_takes_no_turn_of_the_loop(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            token = add_client(database_of(tmp_path), "ann")
            ear: Any = it.ear(None)
            with pytest.raises(StopIteration) as done:
                it.authority.sign_on(ear, "ann", token).send(None)
            assert done.value.value is ear.client
            assert ear.client.id == "ann"
            assert ear.client.durable

    asyncio.run(run())


async def _wrong(it: LocalTopics, ear: Any) -> None:
    """Sign on with a wrong token, without the delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(it.authority, "delay", lambda _: 0.0)
        with pytest.raises(HubError, match="wrong"):
            await it.authority.sign_on(ear, "ann", "wrong")


def test_failures_delay_an_address_and_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            ear: Any = it.ear(None)
            delays = []
            for _ in range(7):
                delays.append(it.authority.delay("192.0.2.1"))
                await _wrong(it, ear)
            assert delays == [0, 0.25, 0.5, 1, 2, 4, LONGEST_S]
            assert it.authority.delay("192.0.2.2") == 0
            assert it.counters.auth_failures == {"comet": 7}
            late = it.loop.time() + FORGET_S + 1
            monkeypatch.setattr(it.loop, "time", lambda: late)
            assert it.authority.delay("192.0.2.1") == 0
            monkeypatch.undo()

    asyncio.run(run())


def test_a_late_answer_to_a_closed_connection_is_dropped(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            token = add_client(database_of(tmp_path), "ann")
            ear: Any = it.ear(None)
            await _wrong(it, ear)
            attempt = asyncio.ensure_future(it.authority.sign_on(ear, "ann", token))
            await asyncio.sleep(0)
            assert not attempt.done()
            ear.open = False
            with pytest.raises(HubError):
                await attempt
            assert ear.client is None

    asyncio.run(run())


def test_the_table_of_addresses_is_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            ear: Any = it.ear(None)
            for number in range(10_050):
                ear.charged_to = str(number)
                await _wrong(it, ear)
            assert it.authority.delay("0") == 0
            assert it.authority.delay("10049") > 0
            assert len(it.authority._failures) == 10_000

    asyncio.run(run())


@pytest.mark.parametrize(("mode", "loose"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_secret_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, loose: bool
) -> None:
    path = tmp_path / "secret"
    path.write_text("ab" * 32)
    path.chmod(mode)
    assert read_secret(path) == b"ab" * 32
    assert read_key(path) == bytes.fromhex("ab" * 32)
    assert caplog.text.count("secret is readable by other users") == loose  # once
    path.chmod(mode)
    assert read_secret(path) == b"ab" * 32
    assert caplog.text.count("secret is readable by other users") == 2 * loose  # changed again


def test_the_key_of_a_certificate_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_certificate(tmp_path)

    async def run() -> None:
        async with running(listeners=["comet"], comet={"tls": made.settings}):
            pass

    asyncio.run(run())
    assert caplog.text == ""
    made.key.chmod(0o644)
    asyncio.run(run())
    assert "localhost.key is readable by other users; run chmod 600" in caplog.text

"""Tokens that expire, and that are rotated with an overlap."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.client.test_clients_with_hub import client_of
from tests.hub.listeners_magline.nodes import connected, node
from tests.hub.pubsub.local_topics import LocalTopics, local_topics
from tests.hub.running import running, until
from tests.hub.stores import database_of

from wirelake.client import AuthFailed
from wirelake.hub.store import (
    StoreError,
    add_client,
    add_user,
    list_clients,
    list_users,
    remove_user,
    rotate_client,
    rotate_user,
)
from wirelake.hub.store.accounts import expiry_of, token_hash
from wirelake.protocols.magline.layout import Reason
from wirelake.protocols.magline.session import Finished

DAY_S = 86_400.0
EVERY = ("esnp", "tny", "magline", "comet")


async def _valid(it: LocalTopics, tokens: Sequence[str]) -> list[bool]:
    return [bool(await it.authority.verify("ann", each)) for each in tokens]


def test_a_token_expires(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path) as it:
            it.now = time.time()
            token = add_client(database_of(tmp_path), "ann", lifetime_s=60)
            assert await it.authority.verify("ann", token) is not None
            it.now += 59
            assert await it.authority.verify("ann", token) is not None
            it.now += 2
            assert await it.authority.verify("ann", token) is None

    asyncio.run(run())


def test_two_tokens_are_valid_during_an_overlap(tmp_path: Path) -> None:
    async def run() -> None:
        path = database_of(tmp_path)
        async with local_topics(tmp_path) as it:
            it.now = time.time()
            first = add_client(path, "ann")
            second = rotate_client(path, "ann", overlap_s=60)
            assert await _valid(it, (first, second)) == [
                1,
                1,
            ]
            it.now += 61
            assert await _valid(it, (first, second)) == [
                0,
                1,
            ]
            third = rotate_client(path, "ann", overlap_s=DAY_S)
            fourth = rotate_client(path, "ann", overlap_s=DAY_S)
            tokens = (first, second, third, fourth)  # two at most, however often it is rotated
            assert await _valid(it, tokens) == [0, 0, 1, 1]
            fifth = rotate_client(path, "ann")
            assert await _valid(it, (fourth, fifth)) == [
                0,
                1,
            ]

    asyncio.run(run())


def test_an_overlap_does_not_extend_a_token(tmp_path: Path) -> None:
    path = database_of(tmp_path)
    add_client(path, "ann", lifetime_s=60)
    expires_ms = list_clients(path)[0].expires_ms
    rotate_client(path, "ann", overlap_s=DAY_S, lifetime_s=2 * DAY_S)
    (row,) = list_clients(path)
    assert row.old_expires_ms == expires_ms
    assert row.expires_ms > expires_ms


@pytest.mark.parametrize("seconds", [-1.0, 1e12, float("nan")])
def test_invalid_times_are_refused(tmp_path: Path, seconds: float) -> None:
    path = database_of(tmp_path)
    add_client(path, "ann")
    before = list_clients(path)
    with pytest.raises(StoreError, match="invalid time"):
        add_client(path, "bob", lifetime_s=seconds)
    with pytest.raises(StoreError, match="invalid time"):
        rotate_client(path, "ann", overlap_s=seconds)
    assert list_clients(path) == before


@pytest.mark.parametrize("protocol", EVERY)
def test_open_connections_end_with_their_token(protocol: str) -> None:
    asyncio.run(_expires(protocol))


async def _expires(protocol: str) -> None:
    async with running(clients=["bob"], listeners=[protocol]) as it:
        it.tokens["alice"] = add_client(it.database, "alice", lifetime_s=DAY_S)
        async with client_of(it, protocol, reconnect=False), client_of(it, protocol, "bob"):
            it.hub.authority.check_deadlines(0.0)
            assert len(it.hub.connections) == 2
            later = time.time() + DAY_S + 1
            it.hub.topics._clock = lambda: later
            it.hub.authority.check_deadlines(0.0)
            closed = it.hub.table.closed_connections
            await until(lambda: closed)
            assert (closed[0].client, closed[0].reason) == ("alice", "token_expired")
            assert [each.client.id for each in it.hub.connections.values() if each.client] == [
                "bob"
            ]
        with pytest.raises(AuthFailed):
            async with client_of(it, protocol):
                pass


def test_a_reload_keeps_connections_of_the_old_token_until_the_overlap_ends() -> None:
    async def run() -> None:
        async with (
            running(clients=["alice"], listeners=["comet"]) as it,
            client_of(it, "comet", reconnect=False),
        ):
            rotate_client(it.database, "alice", overlap_s=DAY_S)
            await it.hub.reload(it.hub.config)
            assert len(it.hub.connections) == 1
            later = time.time() + DAY_S + 1
            it.hub.topics._clock = lambda: later  # the scan for deadlines finds it
            closed = it.hub.table.closed_connections
            await until(lambda: closed)
            assert closed[0].reason == "token_expired"

    asyncio.run(run())


def test_a_magline_ticket_is_as_good_as_its_token() -> None:
    asyncio.run(_tickets())


async def _tickets() -> None:
    async with running(clients=["alice"], listeners=["magline"]) as it:
        path = it.database
        async with node(it, "alice") as old:
            old_ticket = old.session.ticket
        it.tokens["alice"] = rotate_client(path, "alice", overlap_s=DAY_S)
        async with node(it, "alice") as new:
            new_ticket = new.session.ticket
        async with node(it, ticket=old_ticket) as again:  # both tokens are valid
            old_ticket = again.session.ticket
        later = time.time() + DAY_S + 1
        it.hub.topics._clock = lambda: later
        back = await connected(it, ticket=old_ticket)
        assert (await back.next(Finished)).reason_number == Reason.AUTH
        await back.hang_up()
        async with node(it, ticket=new_ticket):
            pass


def test_users(tmp_path: Path) -> None:
    path, now_ms = database_of(tmp_path), time.time_ns() // 1_000_000
    token = add_user(path, "anna", "viewer", lifetime_s=60)
    assert token.startswith("u")
    (row,) = list_users(path)
    assert (row.id, row.role) == ("anna", "viewer")
    assert expiry_of(row, token_hash(token), now_ms) == row.expires_ms
    assert expiry_of(row, token_hash(token), now_ms + 61_000) is None
    new = rotate_user(path, "anna", overlap_s=30)
    (row,) = list_users(path)
    assert expiry_of(row, token_hash(new), now_ms) == 0
    assert expiry_of(row, token_hash(token), now_ms) == row.old_expires_ms
    with pytest.raises(StoreError, match="user 'anna' already exists"):
        add_user(path, "anna", "viewer")
    remove_user(path, "anna")
    assert list_users(path) == []
    for act in (remove_user, rotate_user):
        with pytest.raises(StoreError, match="unknown user 'anna'"):
            act(path, "anna")


def test_a_client_may_have_the_name_of_a_user(tmp_path: Path) -> None:
    path: Any = database_of(tmp_path)
    add_client(path, "anna")
    add_user(path, "anna", "viewer")
    assert [row.id for row in list_clients(path)] == [row.id for row in list_users(path)]

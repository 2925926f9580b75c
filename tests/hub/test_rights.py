"""Rights and rates of clients: the same for every protocol, fast paths included."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.client.test_clients_with_hub import client_of
from tests.hub.pubsub.local_topics import local_topics
from tests.hub.running import Running, running, until

from wirelake.client import CallFailed, Client
from wirelake.hub.config import ClientRights, Config, ConfigError, make_config
from wirelake.hub.errors import HubError
from wirelake.hub.rights import Patterns, Rate, RightsTable
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.protocols import registry
from wirelake.protocols.hub_calls import BUSY_CODES

CALLING = ("esnp", "tny", "magline")
EVERY = (*CALLING, "comet")
SERVICES: dict[str, dict[str, Any]] = {
    "echo": {"esnp": "test/echo", "tny": 1001, "magline": 0x1001},
    "add": {"esnp": "test/add", "tny": 1002, "magline": 0x1002},
    "sleep": {"esnp": "test/sleep", "tny": 1003, "magline": 0x1003},
}
ALICE = {
    "ids": ["ali*"],
    "publish": ["@news/**", "@own"],
    "publish_to": ["bob"],
    "subscribe": ["@news/*"],
    "call": ["test/echo"],
}


@asynccontextmanager
async def hub_with(
    listeners: Iterable[str], *entries: dict[str, Any], **tables: Any
) -> AsyncIterator[Running]:
    """A hub whose clients have these rights."""
    names = ["alice", "bob", "carl"]
    tables = {"rights": {"clients": list(entries)}, **tables}
    async with running(
        clients=names, listeners=listeners, services=demo_services(), **tables
    ) as it:
        yield it


def with_rights(it: Running, *entries: dict[str, Any]) -> Config:
    """The configuration of a hub, with other rights."""
    new = make_config({"rights": {"clients": list(entries)}}).rights
    return msgspec.structs.replace(it.hub.config, rights=new)


def code_of(protocol: str, code: str) -> int | str:
    """What a protocol sends for an error of the hub."""
    if protocol == "esnp":  # it has a text, which names the code of a refusal for now
        return code if code in BUSY_CODES else "error"
    return registry.binding(protocol).error_number(code)


async def refused(protocol: str, code: str, call: Any) -> None:
    with pytest.raises(CallFailed) as failed:
        await call
    assert failed.value.code == code_of(protocol, code)


@pytest.mark.parametrize(
    ("pattern", "matches", "other"),
    [
        ("@news/*", ["@news/a", "@news/"], ["@news", "@news/a/b", "x@news/a"]),
        ("@news/**", ["@news/a", "@news/a/b"], ["@news"]),
        ("**", ["", "a/b", "a\nb"], []),
        ("*", ["a", "sensor-1"], ["a/b"]),
        ("a.b", ["a.b"], ["axb"]),
        ("test/*", ["test/add"], ["test2/add", "test/a/b"]),
        ("a**b*c", ["a/x/bzc", "abc"], ["a/x/bz/c"]),
    ],
)
def test_patterns(pattern: str, matches: list[str], other: list[str]) -> None:
    patterns = Patterns([pattern])
    assert [name for name in (*matches, *other) if patterns.match(name)] == matches
    assert not Patterns([]).match("a")


@pytest.mark.parametrize("pattern", ["a*b", "**a*b", "*/**a", "a**/*", "**", "*", "*a*a*b", "ab"])
def test_patterns_match_what_the_same_expressions_match(pattern: str) -> None:
    wild = {"*": "[^/]*", "**": ".*"}
    parts = [wild.get(part, part) for part in re.split(r"(\*+)", pattern)]
    expression = re.compile("".join(parts))
    names = ["".join(letters) for size in range(6) for letters in product("ab/", repeat=size)]
    patterns = Patterns([pattern])
    for name in names:
        assert patterns.match(name) == (expression.fullmatch(name) is not None), name


def test_a_name_that_almost_matches_takes_no_longer_than_another() -> None:
    # As a regular expression this would try more combinations than there is time for.
    assert not Patterns(["**a" * 20 + "b"]).match("a" * 256)


def test_results_of_patterns_are_bounded() -> None:
    patterns = Patterns(["a*"])
    for number in range(5_000):
        assert patterns.match(f"a{number}")
    assert len(patterns._known) <= 1_024


def test_a_rate_has_a_burst_of_twice_its_value() -> None:
    now = [0.0]
    rate = Rate(2, lambda: now[0])
    assert [rate.take() for _ in range(5)] == [True] * 4 + [False]
    now[0] += 1
    assert [rate.take() for _ in range(3)] == [True, True, False]
    now[0] += 1e6
    assert sum(rate.take() for _ in range(10)) == 4
    slow = Rate(0.1, lambda: now[0])
    assert [slow.take(), slow.take()] == [True, False]


def test_the_first_entry_that_matches_applies() -> None:
    entries = [
        ClientRights(ids=("a*",), call=("test/*",), calls_per_s=1),
        ClientRights(ids=("**",), call=()),
    ]
    table = RightsTable(entries, lambda: 0.0)
    ann, bob = table.of("ann"), table.of("bob")
    assert ann is not None
    assert bob is not None
    assert ann.call("test/x") is None
    assert str(bob.call("test/x")) == "no right to call 'test/x'"
    again = RightsTable(list(entries), lambda: 0.0)
    assert again.of("ann", ann) is ann  # the same entry: the rate goes on
    assert again.of("ann", bob) is not bob
    assert RightsTable((), lambda: 0.0).of("ann", ann) is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "[rights.clients[0]]: missing key 'ids'"),
        ({"ids": [""]}, "rights.clients[0].ids[0]: invalid pattern ''; expected text"),
        ({"ids": ["a"], "publish": ["news.*"]}, "rights.clients[0].publish[0]: invalid pattern"),
        ({"ids": ["a"], "subscribe": [""]}, "rights.clients[0].subscribe[0]: invalid pattern"),
        ({"ids": ["a"], "call": ["add"]}, "rights.clients[0].call[0]: invalid pattern 'add'"),
        ({"ids": ["a"], "calls_per_s": -1}, "rights.clients[0].calls_per_s: invalid value -1"),
        ({"ids": ["a"], "may": []}, "[rights.clients[0]]: unknown key 'may'"),
    ],
)
def test_invalid_rights_are_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config({"rights": {"clients": [entry]}})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("protocol", CALLING)
def test_every_protocol_obeys_the_same_rights(protocol: str) -> None:
    asyncio.run(_obeys(protocol))


async def _obeys(protocol: str) -> None:
    async with (
        hub_with([protocol], ALICE) as it,
        client_of(it, protocol) as alice,
        client_of(it, protocol, "bob") as bob,
    ):
        # More than once: later calls take the fast paths of the listener.
        for _ in range(3):
            await alice.publish("x", topic="@news/a")
            await alice.publish("x", topic="@own", ttl_s=0)
            await alice.publish("x", client="bob")
            await alice.call(SERVICES["echo"][protocol], {})
            for topic in ("@other", "@news"):
                await refused(protocol, "forbidden", alice.publish("x", topic=topic))
                await refused(protocol, "forbidden", alice.publish("x", topic=topic, ttl_s=0))
            await refused(protocol, "forbidden", alice.publish("x", client="carl"))
            for name in ("add", "sleep"):  # a plain function and a task
                target = SERVICES[name][protocol]
                await refused(protocol, "forbidden", alice.call(target, {"a": 1, "b": 2}))
        await subscribes(protocol, alice)
        assert (await bob.call(SERVICES["add"][protocol], {"a": 1, "b": 2})).data == {"c": 3}
        await bob.publish("x", topic="@other")
        assert it.hub.counters.refused_publishes == 15


async def subscribes(protocol: str, client: Client) -> None:
    await client.subscribe("@news/a", "@news/b")
    for topics in (("@own",), ("@news/a/b",), ("@news/c", "@other")):
        await refused(protocol, "forbidden", client.subscribe(*topics))


@pytest.mark.parametrize("ttl_s", [0, None])
@pytest.mark.parametrize("protocol", CALLING)
def test_publishes_that_a_listener_has_learned_are_checked(
    protocol: str, ttl_s: float | None
) -> None:
    asyncio.run(_learned(protocol, ttl_s))


async def _learned(protocol: str, ttl_s: float | None) -> None:
    async with hub_with([protocol], ALICE) as it, client_of(it, protocol) as alice:
        for _ in range(5):  # the same shape again and again: the listener has a template for it
            await alice.publish("hello", topic="@own", ttl_s=ttl_s)
        await it.hub.reload(with_rights(it, {**ALICE, "publish": ["@news/**"]}))
        for _ in range(5):
            await refused(protocol, "forbidden", alice.publish("hello", topic="@own", ttl_s=ttl_s))
        assert it.hub.counters.published == 5


def test_comet_obeys_them_too() -> None:
    async def run() -> None:
        async with hub_with(["comet"], ALICE) as it, client_of(it, "comet") as alice:
            await subscribes("comet", alice)
            client = it.hub.topics.registry.clients["alice"]
            assert list(client.subscriptions) == ["@news/a", "@news/b"]

    asyncio.run(run())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_client_has_a_rate_of_calls_and_publishes(protocol: str) -> None:
    asyncio.run(_rates(protocol))


async def _rates(protocol: str) -> None:
    # One in a thousand seconds: the burst is one, and no time passes that would allow a second.
    slow = {"ids": ["alice"], "calls_per_s": 0.001, "publishes_per_s": 0.001}
    async with (
        hub_with([protocol], slow) as it,
        client_of(it, protocol) as alice,
        client_of(it, protocol) as again,
        client_of(it, protocol, "bob") as bob,
    ):
        echo = SERVICES["echo"][protocol]
        await alice.call(echo, {})
        await alice.publish("x", topic="@news")
        for client in (alice, again):  # all connections of a client share its rate
            await refused(protocol, "too_busy", client.call(echo, {}))
            await refused(protocol, "too_busy", client.call(SERVICES["sleep"][protocol], {"ms": 0}))
            await refused(protocol, "too_busy", client.subscribe("@news"))
            await refused(protocol, "too_busy", client.publish("x", topic="@news"))
            await refused(protocol, "too_busy", client.publish("x", topic="@news", ttl_s=0))
        for _ in range(5):
            await bob.call(echo, {})
            await bob.publish("x", topic="@news")
        await it.hub.reload(with_rights(it, slow))
        await refused(protocol, "too_busy", alice.call(echo, {}))
        await it.hub.reload(with_rights(it))
        await alice.call(echo, {})
        assert it.hub.services.running == 0


def test_clients_without_sign_on_have_rights_too() -> None:
    async def run() -> None:
        nobody = {"ids": ["~**"], "call": ["test/echo"]}
        async with (
            hub_with(["esnp"], nobody, esnp={"auth": "none"}) as it,
            client_of(it, "esnp", id=None, token=None) as client,
        ):
            await client.call("test/echo", {})
            await refused("esnp", "forbidden", client.call("test/add", {"a": 1, "b": 2}))

    asyncio.run(run())


@pytest.mark.parametrize("protocol", EVERY)
def test_subscriptions_that_a_reload_forbids_end(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(_withdrawn(protocol, caplog))


async def _withdrawn(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    async with hub_with([protocol]) as it, client_of(it, protocol) as alice:
        await alice.subscribe("@news/a", "@other")
        with caplog.at_level(logging.WARNING):
            await it.hub.reload(with_rights(it, ALICE))
        assert "client alice: 1 subscriptions ended" in caplog.text
        client = it.hub.topics.registry.clients["alice"]
        await until(lambda: list(client.subscriptions) == ["@news/a"])
        assert (await it.publish("@other")).audience == 0
        assert (await it.publish("@news/a")).audience == 1


def test_stored_subscriptions_are_checked_at_the_sign_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running(clients=["alice"], listeners=["comet"], data=tmp_path) as it,
            client_of(it, "comet") as alice,
        ):
            await alice.subscribe("@news/a", "@other")
            tokens = it.tokens
        tables = {"rights": {"clients": [ALICE]}}
        async with running(listeners=["comet"], data=tmp_path, **tables) as it:
            it.tokens.update(tokens)
            await it.publish("@other", b"not for alice")
            async with client_of(it, "comet") as alice:
                client = it.hub.topics.registry.clients["alice"]
                assert list(client.subscriptions) == ["@news/a"]
                await it.publish("@news/a", b"for alice")
                assert (await anext(alice.notifications())).content == b"for alice"
        async with running(listeners=["comet"], data=tmp_path) as it:
            it.tokens.update(tokens)
            async with client_of(it, "comet") as alice:
                client = it.hub.topics.registry.clients["alice"]
                assert list(client.subscriptions) == ["@news/a"]

    asyncio.run(run())


def test_a_subscribe_that_waits_is_checked_when_it_runs(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_topics(tmp_path, ["alice"]) as it:
            alice = await it.sign_on("alice")
            results: list[Any] = []
            it.topics.subscribe(alice, ["@news/a"], True, results.append)  # type: ignore[arg-type]
            it.topics.subscribe(alice, ["@other"], True, results.append)  # type: ignore[arg-type]
            it.authority.set_rights([msgspec.convert(ALICE, ClientRights)])
            await it.written()
            await it.written()
            assert isinstance(results[1], HubError)
            assert results[1].code == "forbidden"
            assert alice.client is not None
            assert list(alice.client.subscriptions) == ["@news/a"]

    asyncio.run(run())


# -- rights of tokens ----------------------------------------------------------------------------


def test_both_the_configuration_and_the_token_have_to_allow() -> None:
    table = RightsTable((ClientRights(ids=("a*",), publish=("@x/**",), calls_per_s=5),), lambda: 0)
    claimed = ClientRights(ids=("**",), publish=("**/1",), call=("s/*",), calls_per_s=1)
    rights = table.of("ann", None, claimed)
    assert rights is not None
    assert rights.publish("@x/1", None) is None
    for topic in ("@x/2", "@y/1"):
        refusal = rights.publish(topic, None)
        assert refusal is not None
        assert refusal.code == "forbidden"
    outcomes = [rights.call("s/op") for _ in range(3)]
    assert [each and each.text for each in outcomes] == [None, None, "more than 1 calls/s"]
    refusal = rights.call("t/op")
    assert refusal is not None
    assert refusal.code == "forbidden"
    # Without an entry of the configuration, only the token restricts.
    other = table.of("bob", None, claimed)
    assert other is not None
    assert other.publish("@y/1", None) is None


def test_other_tokens_give_no_new_burst() -> None:
    table = RightsTable((ClientRights(ids=("a*",), publishes_per_s=1),), lambda: 0)
    rights = None
    outcomes = []
    for number in range(4):
        claimed = ClientRights(ids=("**",), publish=(f"@{number}", "@x"))
        rights = table.of("ann", rights, claimed if number % 2 else None)
        assert rights is not None
        outcomes.append(rights.publish("@x", None))
    assert [each and each.code for each in outcomes] == [None, None, "too_busy", "too_busy"]


def test_rights_stay_while_entry_and_token_are_the_same() -> None:
    entry = ClientRights(ids=("**",), publish=("@x",))
    table = RightsTable((entry,), lambda: 0)
    first = table.of("ann", None, entry)
    assert table.of("ann", first, entry) is first
    assert table.of("ann", first, None) is not first
    # The same rights from another place: the token says nothing any more.
    alone = RightsTable((), lambda: 0).of("ann", None, entry)
    assert table.of("ann", alone, None) is not alone

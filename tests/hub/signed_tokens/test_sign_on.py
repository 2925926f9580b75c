"""Every protocol's sign-on with signed tokens, on a hub that runs."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.client.session_servers import take
from tests.client.test_clients_with_hub import ADD, CALLING, EVERY, client_of
from tests.hub.listeners_magline.nodes import connected, node
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.relay.gateway_hubs import gateway, links_up, port_of
from tests.hub.running import Running, running, until

from wirelake.client import AuthFailed, CallFailed, ConnectionLost, Refused
from wirelake.hub.config import ConfigError, make_config
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.signed_tokens.parsing import MAX_TOKEN_BYTES
from wirelake.hub.store import add_client, list_clients, remove_client, rotate_client
from wirelake.protocols.hub_calls import MAX_CLIENT_ID_BYTES
from wirelake.protocols.magline.layout import Reason
from wirelake.protocols.magline.session import Established, Finished

from .issuing import Signer


def issued(*signers: Signer, **more: Any) -> dict[str, Any]:
    """The table `auth`."""
    return {"issuers": [{**each.settings, **more} for each in signers]}


@pytest.mark.parametrize("protocol", EVERY)
def test_a_client_that_only_the_issuer_knows(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with running(listeners=[protocol, "esnp"], auth=issued(signer)) as it:
            it.tokens.update({name: signer.token(name) for name in ("alice", "bob")})
            async with client_of(it, protocol) as alice:
                await alice.subscribe("@news")
            await it.publish("@news", b"while away")
            async with client_of(it, protocol) as alice, client_of(it, "esnp", "bob") as bob:
                await alice.subscribe("@news")  # is in the store, with its backlog
                await bob.publish(b"private", client="alice")
                got = [each.content for each in await take(alice, 2)]
                assert got == [b"while away", b"private"]
            rows = list_clients(it.data / "hub.sqlite3")
            assert [row.id for row in rows] == ["alice", "bob"]
            assert it.hub.counters.auth_failures == {}

    asyncio.run(run())


@pytest.mark.parametrize("protocol", EVERY)
def test_refused_tokens(tmp_path: Path, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        signer, stranger = Signer(tmp_path), Signer(tmp_path)
        tokens = (
            stranger.token("alice"),
            signer.token("bob"),
            signer.token("alice", exp=int(time.time()) - 60),
            signer.token("alice", wirelake={"publish": ["no topic"]}),
        )
        async with running(listeners=[protocol], auth=issued(signer)) as it:
            it.hub.authority.delay = lambda _: 0.0
            for token in tokens:
                with pytest.raises(AuthFailed):
                    async with client_of(it, protocol, token=token):
                        pass
                assert token not in caplog.text
                assert token.rpartition(".")[2] not in caplog.text
            assert list_clients(it.data / "hub.sqlite3") == []
            assert it.hub.counters.auth_failures == {protocol: len(tokens)}

    asyncio.run(run())
    for reason in (
        "the signature is of no known key",
        "the claim sub is not the id of the sign-on",
        "expired (claim exp)",
        "the claim wirelake: wirelake.publish[0]: invalid pattern 'no topic'",
    ):
        assert f"signed token refused: issuer https://id.example.com: {reason}" in caplog.text


def _largest(signer: Signer) -> tuple[str, str]:
    """An id and a token that cannot be longer."""
    name = "a" * MAX_CLIENT_ID_BYTES
    short = len(signer.token(name, more=""))
    token = signer.token(name, more="x" * ((MAX_TOKEN_BYTES - short) * 3 // 4))
    assert MAX_TOKEN_BYTES - 4 < len(token) <= MAX_TOKEN_BYTES
    return name, token


@pytest.mark.parametrize("protocol", EVERY)
def test_the_largest_token_and_id_fit_a_sign_on(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        name, token = _largest(signer)
        async with (
            running(listeners=[protocol], auth=issued(signer)) as it,
            client_of(it, protocol, name, token=token),
        ):
            await until(lambda: [each.client.id for each in it.hub.connections.values()] == [name])

    asyncio.run(run())


@pytest.mark.parametrize("protocol", EVERY)
def test_a_connection_ends_with_its_token(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with running(listeners=[protocol], auth=issued(signer)) as it:
            expires = int(time.time()) + 600
            token = signer.token("alice", exp=expires)
            async with client_of(it, protocol, token=token, reconnect=False):
                closed = it.hub.table.closed_connections
                later = expires + 9.0  # ten seconds of leeway
                it.hub.topics._clock = lambda: later
                it.hub.authority.check_deadlines(0.0)
                assert not closed
                later += 2
                it.hub.authority.check_deadlines(0.0)
                await until(lambda: closed)
                assert (closed[0].client, closed[0].reason) == ("alice", "token_expired")
            with pytest.raises(AuthFailed):
                async with client_of(it, protocol, token=token):
                    pass

    asyncio.run(run())


def test_a_user_behind_a_gateway(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with (
            running(relay={"auth": "token"}, auth=issued(signer)) as it,
            gateway(port_of(it)) as gate,
        ):
            await until(lambda: links_up(gate) == 1)
            async with tny_client(gate.address("tny")) as user:
                name, token = _largest(signer)
                assert body_of(await user.call(10, {"id": name, "token": token})) == {"id": name}
            async with tny_client(gate.address("tny")) as user:
                arguments = {"id": "alice", "token": signer.token("alice")}
                assert body_of(await user.call(10, arguments)) == {"id": "alice"}
                later = time.time() + 600
                it.hub.topics._clock = lambda: later
                it.hub.authority.check_deadlines(0.0)
                closed = it.hub.table.closed_connections
                await until(lambda: any(each.reason == "token_expired" for each in closed))

    asyncio.run(run())


@pytest.mark.parametrize("protocol", EVERY)
def test_an_id_may_be_left_out(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with running(listeners=[protocol], auth=issued(signer)) as it:
            connections = it.hub.connections
            if protocol == "comet":  # its document requires an id
                with pytest.raises(Refused, match="message format illegal"):
                    async with client_of(it, protocol, "", token=signer.token("alice")):
                        pass
                return
            async with client_of(it, protocol, "", token=signer.token("alice")):
                await until(lambda: [each.client.id for each in connections.values()] == ["alice"])

    asyncio.run(run())


@pytest.mark.parametrize("protocol", CALLING)
def test_a_token_restricts_the_rights_of_the_configuration(tmp_path: Path, protocol: str) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        claim = {"call": ["test/*"], "subscribe": ["@a/**", "@b/**"], "publish": []}
        token = signer.token("alice", wirelake=claim)
        rights = {"clients": [{"ids": ["alice"], "subscribe": ["@b/**", "@c/**"]}]}
        async with (
            running(
                listeners=[protocol], services=demo_services(), auth=issued(signer), rights=rights
            ) as it,
            client_of(it, protocol, token=token) as client,
        ):
            assert (await client.call(ADD[protocol], {"a": 1, "b": 2})).data == {"c": 3}
            await client.subscribe("@b/x")
            for refused in ("@a/x", "@c/x"):
                with pytest.raises((CallFailed, Refused)):
                    await client.subscribe(refused)
            with pytest.raises((CallFailed, Refused)):
                await client.publish(b"x", topic="@b/x")
            # A reload of the configuration keeps what the token says.
            await it.hub.reload(it.hub.config)
            with pytest.raises((CallFailed, Refused)):
                await client.publish(b"x", topic="@b/x")

    asyncio.run(run())


def test_other_rights_end_the_other_connections_of_a_client(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        wide = signer.token("alice", wirelake={"subscribe": ["@a", "@b"]})
        narrow = signer.token("alice", wirelake={"subscribe": ["@a"]})
        async with (
            running(listeners=["esnp", "tny"], auth=issued(signer)) as it,
            client_of(it, "esnp", token=wide, reconnect=False) as first,
            client_of(it, "tny", token=wide),
        ):
            await first.subscribe("@a", "@b")
            assert len(it.hub.connections) == 2  # the same rights
            async with client_of(it, "tny", token=narrow, reconnect=False):
                closed = it.hub.table.closed_connections
                await until(lambda: len(closed) >= 2)
                assert {each.reason for each in closed} == {"replaced"}
                (alice,) = it.hub.topics.registry.clients.values()
                assert list(alice.subscriptions) == ["@a"]

    asyncio.run(run())


@pytest.mark.parametrize("policy", ["replace", "reject"])
def test_other_rights_on_a_second_comet_connection(tmp_path: Path, policy: str) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        wide = signer.token("alice", wirelake={"subscribe": ["@a", "@b"]})
        narrow = signer.token("alice", wirelake={"subscribe": ["@a"]})
        async with running(
            listeners=["comet"], auth=issued(signer), comet={"on_duplicate": policy}
        ) as it:
            async with client_of(it, "comet", token=wide, reconnect=False) as first:
                await first.subscribe("@a", "@b")
                second = client_of(it, "comet", token=narrow, reconnect=False)
                refused = suppress(AuthFailed, ConnectionLost, Refused)
                with refused if policy == "reject" else nullcontext():
                    async with second:
                        await it.publish("@a", b"x")
                        assert [each.content for each in await take(second, 1)] == [b"x"]
                closed = it.hub.table.closed_connections
                await until(lambda: not it.hub.connections)
                assert closed[0].reason in ("replaced", "elsewhere")
            async with client_of(it, "comet", token=narrow, reconnect=False):
                (alice,) = it.hub.topics.registry.clients.values()
                assert list(alice.subscriptions) == ["@a"]

    asyncio.run(run())


# -- clients of the store ------------------------------------------------------------------------


async def _signs_on(it: Running, protocol: str = "esnp", **options: Any) -> bool:
    try:
        async with client_of(it, protocol, **options):
            return True
    except AuthFailed:
        it.hub.authority.forget_failures("127.0.0.1")
        return False


@pytest.mark.parametrize("allowed", [False, True])
def test_a_client_of_the_store_is_another_one_unless_configured(
    tmp_path: Path, allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        auth = issued(signer, store_clients=allowed)
        async with running(clients=["alice"], listeners=["esnp"], auth=auth) as it:
            assert await _signs_on(it, token=signer.token("alice")) is allowed
            assert await _signs_on(it)  # its own token
            assert ("set store_clients" in caplog.text) is not allowed

    asyncio.run(run())


def test_a_client_belongs_to_one_issuer(tmp_path: Path) -> None:
    async def run() -> None:
        one, two = Signer(tmp_path), Signer(tmp_path, "ES256", iss="https://other.example")
        auth = issued(one, two, store_clients=True)
        async with running(listeners=["esnp"], auth=auth) as it:
            assert await _signs_on(it, token=one.token("alice"))
            assert not await _signs_on(it, token=two.token("alice"))
            assert await _signs_on(it, token=two.token("bob"), name="bob")

    asyncio.run(run())


def test_clients_are_removed_and_get_tokens_like_others(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with running(listeners=["esnp"], auth=issued(signer)) as it:
            path = it.data / "hub.sqlite3"
            assert await _signs_on(it, token=signer.token("alice"))
            (first,) = list_clients(path)
            async with client_of(it, "esnp", token=signer.token("alice"), reconnect=False):
                remove_client(path, "alice")
                await it.hub.reload(it.hub.config)
                closed = it.hub.table.closed_connections
                await until(lambda: any(each.reason == "revoked" for each in closed))
            assert await _signs_on(it, token=signer.token("alice"))
            (again,) = list_clients(path)
            assert again.number > first.number
            token = rotate_client(path, "alice")  # a client of the store from now on
            assert not await _signs_on(it, token=signer.token("alice"))
            assert await _signs_on(it, token=token)

    asyncio.run(run())


def test_the_number_of_clients_is_limited(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        auth = {**issued(signer), "signed_clients": 2}
        async with running(clients=["stored"], listeners=["esnp"], auth=auth) as it:
            for name in ("a", "b", "a"):
                assert await _signs_on(it, name=name, token=signer.token(name))
            with pytest.raises((CallFailed, Refused, AuthFailed), match="2 clients"):
                async with client_of(it, "esnp", "c", token=signer.token("c"), reconnect=False):
                    pass
            remove_client(it.data / "hub.sqlite3", "a")
            later = it.hub.loop.time() + 61  # counted again
            it.hub.authority._signed_clients._clock = lambda: later
            assert await _signs_on(it, name="c", token=signer.token("c"))

    asyncio.run(run())


def test_a_client_that_is_added_twice_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with running(listeners=["esnp"], auth=issued(signer)) as it:
            token = signer.token("alice")
            assert (
                await asyncio.gather(*(_signs_on(it, token=token) for _ in range(8))) == [True] * 8
            )
            assert it.hub.authority._signed_clients._count == 1

    asyncio.run(run())


# -- reload and tickets --------------------------------------------------------------------------


def _config(it: Running, auth: dict[str, Any]) -> Any:
    return msgspec.structs.replace(it.hub.config, auth=make_config({"auth": auth}).auth)


def test_a_reload_ends_connections_of_keys_that_were_removed(tmp_path: Path) -> None:
    async def run() -> None:
        old, new = Signer(tmp_path), Signer(tmp_path)
        async with running(listeners=["esnp"], auth=issued(old)) as it:
            async with client_of(it, "esnp", token=old.token(), reconnect=False):
                await it.hub.reload(_config(it, issued(old, leeway_s=1.0)))
                assert len(it.hub.connections) == 1
                await it.hub.reload(_config(it, issued(new)))
                closed = it.hub.table.closed_connections
                await until(lambda: closed)
                assert closed[0].reason == "revoked"
            assert not await _signs_on(it, token=old.token())
            assert await _signs_on(it, token=new.token())

    asyncio.run(run())


def test_a_reload_with_a_broken_key_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        broken = tmp_path / "broken.pem"
        broken.write_text("no key")
        async with running(listeners=["esnp"], auth=issued(signer)) as it:
            before = it.hub.config
            with pytest.raises(ConfigError, match=r"auth.issuers\[0\].keys: .*neither keys in PEM"):
                await it.hub.reload(_config(it, issued(signer, keys=str(broken))))
            assert it.hub.config == before
            assert await _signs_on(it, token=signer.token())

    asyncio.run(run())


def test_a_magline_ticket_is_as_good_as_its_token(tmp_path: Path) -> None:
    asyncio.run(_tickets(tmp_path))


async def _tickets(folder: Path) -> None:
    signer = Signer(folder)
    async with running(listeners=["magline"], auth=issued(signer)) as it:
        it.tokens["alice"] = signer.token("alice", wirelake={"subscribe": ["@a"]})
        async with node(it, "alice") as first:
            ticket = first.session.ticket
        async with node(it, ticket=ticket) as again:
            ticket = again.session.ticket
            await until(lambda: [c for c in it.hub.connections.values() if c.client is not None])
            (connection,) = (c for c in it.hub.connections.values() if c.client is not None)
            assert connection.client is not None
            assert connection.client.rights is not None
            assert not connection.client.rights.subscribes("@b")
        later = time.time() + 71
        it.hub.topics._clock = lambda: later
        back = await connected(it, ticket=ticket)
        await back.next(Established)
        assert (await back.next(Finished)).reason_number == Reason.AUTH
        await back.hang_up()


def test_other_tokens_are_refused_without_issuers(tmp_path: Path) -> None:
    async def run() -> None:
        signer = Signer(tmp_path)
        async with running(clients=["alice"], listeners=["esnp"]) as it:
            add_client(it.data / "hub.sqlite3", "bob")
            assert not await _signs_on(it, token=signer.token("alice"))
            assert it.hub.counters.auth_failures == {"esnp": 1}

    asyncio.run(run())

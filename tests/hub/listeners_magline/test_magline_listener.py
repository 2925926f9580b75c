"""magline over a real socket: handshakes, signing on, services, topics, resumption, the end."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.listeners_magline.nodes import (
    ACK,
    ANYBODY,
    AUTH,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    connected,
    node,
    pinned,
)
from tests.hub.running import running, until

from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Services
from wirelake.hub.store import remove_client, rotate_client
from wirelake.protocols.magline.codec_seed import decode_frame, encode_frame
from wirelake.protocols.magline.layout import Err, ErrorNumber, Fin, Frame, Pin, Reason
from wirelake.protocols.magline.limits import HALF_OPEN_PER_ADDRESS
from wirelake.protocols.magline.session import (
    ClientKey,
    Established,
    Finished,
    Ponged,
    Pushed,
    Refused,
    RequestFailed,
)

TOPIC = "@news"
ECHO, ADD, SLEEP, FAIL = 0x1001, 0x1002, 0x1003, 0x1004


def test_services_by_business_command() -> None:
    asyncio.run(_services())


async def _services() -> None:
    async with (
        running(clients=["alice"], listeners=["magline"], services=demo_services()) as it,
        node(it) as alice,
    ):
        assert await alice.sign_on(it, "alice") == {"id": "alice"}
        assert await alice.raw(ECHO, b"\x00 any bytes \xff") == b"\x00 any bytes \xff"
        assert await alice.ask(ADD, {"a": 1, "b": 2}) == {"c": 3}
        slow = alice.send(SLEEP, {"ms": 30})
        assert await alice.ask(ADD, {"a": 2, "b": 2}) == {"c": 4}
        assert alice.session.in_flight == 1, "a slow call holds nobody up"
        assert slow
        assert await alice.fail(FAIL, b"") == ErrorNumber.BUSINESS
        assert await alice.fail(ADD, {"a": 1}) == ErrorNumber.BUSINESS
        assert await alice.fail(ADD, b"no JSON") == ErrorNumber.BUSINESS
        assert await alice.fail(0x7777, b"") == ErrorNumber.NO_ROUTE
        largest = bytes((1 << 20) - 20)  # the answer needs six bytes more, for REPLY_TO
        assert await alice.fail(ECHO, largest) == ErrorNumber.TOO_LARGE
        assert await alice.raw(ECHO, largest[6:]) == largest[6:]
        calls = it.hub.counters.calls
        assert calls["magline", "failed"] == 1
        assert calls["magline", "bad_arguments"] == 2
        assert calls["magline", "not_found"] == 1


def test_topics_by_the_hub_s_own_commands() -> None:
    asyncio.run(_topics())


async def _topics() -> None:
    async with (
        running(clients=["alice", "bob"], listeners=["magline"]) as it,
        node(it, "alice") as alice,
        node(it, "bob") as bob,
    ):
        assert await alice.ask(SUBSCRIBE, {"topic": TOPIC, "ack": True}) == {"topics": 1}
        assert await bob.ask(SUBSCRIBE, {"topics": [TOPIC, "@sport"]}) == {"topics": 2}
        published = await bob.ask(PUBLISH, {"topic": TOPIC, "content": "hello", "type": 3})
        assert published["audience"] == 2
        for each in (alice, bob):
            result = await each.pushed()
            assert result.pop("ts") > 0
            assert result == {"id": published["id"], "topic": TOPIC, "content": "hello", "type": 3}
        assert await alice.ask(ACK, {"id": published["id"]}) == {"acked": 1}
        await bob.ask(PUBLISH, {"client": "alice", "content_base64": "/w=="})
        result = await alice.pushed()
        assert result["content_base64"] == "/w=="
        assert "topic" not in result
        assert await alice.ask(UNSUBSCRIBE, {"topic": TOPIC}) == {"topics": 1}
        assert (await bob.ask(PUBLISH, {"topic": TOPIC, "content": "x"}))["audience"] == 1
        assert await alice.fail(SUBSCRIBE, {"topic": "not a topic!"}) == ErrorNumber.BUSINESS


def test_nothing_but_signing_on_is_allowed_before_it() -> None:
    asyncio.run(_order_first())


async def _order_first() -> None:
    async with running(clients=["alice"], listeners=["magline"], services=demo_services()) as it:
        async with node(it) as early:
            early.send(ECHO, b"")
            refused = await early.next(Refused)
            assert refused.error_number == ErrorNumber.ORDER_CMD
            assert (await early.next(Finished)).reason_number == Reason.AUTH
        async with node(it) as wrong:
            wrong.session.ping()
            wrong.write()
            await wrong.next(Ponged)
            wrong.send(AUTH, {"id": "alice", "token": "t-throw-away"})
            assert (await wrong.next(RequestFailed)).error_number == ErrorNumber.AUTH
            assert (await wrong.next(Finished)).reason_number == Reason.AUTH
        await until(lambda: it.hub.counters.close_reasons["magline", "auth_failed"] == 2)
        assert it.hub.counters.auth_failures["magline"] == 1
        async with node(it, "alice") as alice:
            assert await alice.raw(ECHO, b"in") == b"in"
            assert await alice.fail(AUTH, {"id": "alice", "token": "t-throw-away"})
            assert await alice.raw(ECHO, b"still in") == b"still in"


def test_frames_before_sign_on_must_be_small() -> None:
    asyncio.run(_small_frames())


async def _small_frames() -> None:
    async with running(listeners=["magline"]) as it, node(it) as stranger:
        stranger.send(AUTH, bytes(5_000))
        assert (await stranger.next(Refused)).error_number == ErrorNumber.TOO_LARGE


def test_a_slow_call_is_cancelled_when_its_client_disconnects() -> None:
    asyncio.run(_given_up())


async def _given_up() -> None:
    async with running(clients=["alice"], listeners=["magline"], services=demo_services()) as it:
        async with node(it, "alice") as alice:
            alice.send(SLEEP, {"ms": 60_000})
            await until(lambda: it.hub.services.running == 1)
        await until(lambda: it.hub.services.running == 0)


def test_anonymous_clients_connect_only_where_allowed() -> None:
    asyncio.run(_anonymous())


async def _anonymous() -> None:
    async with running(listeners=["magline"]) as it:
        stranger = await connected(it, key=ANYBODY)
        assert (await stranger.next(Refused)).error_number == ErrorNumber.HANDSHAKE
        await stranger.ended()
        await stranger.hang_up()
    settings = {"anonymous": True}
    async with (
        running(clients=["alice"], listeners=["magline"], magline=settings) as it,
        node(it, "alice", key=ANYBODY) as alice,
    ):
        assert await alice.ask(SUBSCRIBE, {"topic": TOPIC}) == {"topics": 1}


def test_shared_keys_and_a_key_that_the_hub_does_not_have(tmp_path: Path) -> None:
    asyncio.run(_shared_keys(tmp_path))


async def _shared_keys(folder: Path) -> None:
    psk = bytes(range(32))  # a throw-away test value
    (folder / "psk").write_text(psk.hex())
    (folder / "psk").chmod(0o600)
    settings = {"psk": [str(folder / "psk")]}
    async with running(clients=["alice"], listeners=["magline"], magline=settings) as it:
        async with node(it, "alice", key=ClientKey(psk=psk)) as alice:
            assert await alice.ask(SUBSCRIBE, {"topic": TOPIC}) == {"topics": 1}
        other = await connected(it, key=ClientKey(psk=bytes(32)))
        assert (await other.next(Refused)).error_number == ErrorNumber.HANDSHAKE
        await other.hang_up()


def test_the_static_key_is_made_once_and_kept(tmp_path: Path) -> None:
    asyncio.run(_static_key(tmp_path))


async def _static_key(folder: Path) -> None:
    keys = []
    for _ in range(2):
        async with running(clients=[], listeners=["magline"], data=folder) as it:
            async with node(it):
                keys.append(pinned(it))
            assert stat.S_IMODE((folder / "magline.key").stat().st_mode) == 0o600
    assert keys[0] == keys[1]


def test_auth_none_allows_everything() -> None:
    asyncio.run(_anybody())


async def _anybody() -> None:
    settings = {"auth": "none"}
    async with (
        running(clients=["alice"], listeners=["magline"], magline=settings) as it,
        node(it) as somebody,
    ):
        assert await somebody.ask(SUBSCRIBE, {"topic": TOPIC}) == {"topics": 1}
        await somebody.ask(PUBLISH, {"topic": TOPIC, "content": "hello"})
        assert (await somebody.pushed())["content"] == "hello"


def test_a_reconnecting_client_resumes_its_session() -> None:
    asyncio.run(_resumes())


async def _resumes() -> None:
    async with running(clients=["alice"], listeners=["magline"], services=demo_services()) as it:
        async with node(it, "alice") as first:
            await first.ask(SUBSCRIBE, {"topic": TOPIC, "ack": True})
            ticket = first.session.ticket
        await until(lambda: not it.hub.connections)
        await it.publish(TOPIC, b"while away")
        async with node(it, ticket=ticket) as second:
            assert await second.raw(ECHO, b"no token needed") == b"no token needed"
            assert (await second.pushed())["content"] == "while away"
            (connection,) = it.hub.connections.values()
            assert connection.client is not None
            assert connection.client.id == "alice"
            async with node(it, ticket=second.session.ticket) as third:
                assert (await second.next(Finished)).reason_number == Reason.REPLACED
                await until(lambda: it.hub.counters.close_reasons["magline", "replaced"] == 1)
                await it.publish(TOPIC, b"to the third")
                result = [(await third.pushed())["content"] for _ in range(2)]
                assert result == ["while away", "to the third"]


def test_a_resumed_session_gets_pushes_only_if_it_had_them() -> None:
    asyncio.run(_resumes_without_pushes())


async def _resumes_without_pushes() -> None:
    async with (
        running(clients=["alice"], listeners=["magline"], services=demo_services()) as it,
        node(it, "alice") as asker,
        node(it, "alice") as reader,
    ):
        await reader.ask(SUBSCRIBE, {"topic": TOPIC})
        async with node(it, ticket=asker.session.ticket) as again:
            await it.publish(TOPIC, b"to the reader")
            assert (await reader.pushed())["content"] == "to the reader"
            assert await again.raw(ECHO, b"x") == b"x"
            assert not [each for each in again.events if isinstance(each, Pushed)]


@pytest.mark.parametrize("change", [remove_client, rotate_client])
def test_a_removed_credential_invalidates_its_tickets(change: object) -> None:
    asyncio.run(_revoked(change))


async def _revoked(change: object) -> None:
    async with running(clients=["alice", "bob"], listeners=["magline"]) as it:
        async with node(it, "alice") as alice:
            ticket = alice.session.ticket
        async with node(it, "bob") as bob:
            bobs = bob.session.ticket
        change(it.database, "alice")  # type: ignore[operator]
        back = await connected(it, ticket=ticket)
        assert (await back.next(Finished)).reason_number in {Reason.AUTH, Reason.RESUME}
        assert back.session.ticket is None
        await back.hang_up()
        async with node(it, ticket=bobs) as bob:
            assert await bob.ask(SUBSCRIBE, {"topic": TOPIC}) == {"topics": 1}


def test_an_address_has_so_many_handshakes_at_a_time() -> None:
    asyncio.run(_half_open())


async def _half_open() -> None:
    async with running(clients=["alice"], listeners=["magline"]) as it:
        address = it.address("magline")
        silent = [await asyncio.open_connection(*address) for _ in range(HALF_OPEN_PER_ADDRESS)]
        await until(lambda: len(it.hub.connections) == HALF_OPEN_PER_ADDRESS)
        one_more = await connected(it)
        assert (await one_more.next(Refused)).error_number == ErrorNumber.BUSY
        assert (await one_more.next(Finished)).reason_number == Reason.BUSY
        await one_more.hang_up()
        assert it.hub.counters.refused["handshakes_per_address"] == 1
        silent.pop()[1].close()
        await until(lambda: len(it.hub.connections) == len(silent))
        async with node(it, "alice") as alice:
            assert await alice.ask(SUBSCRIBE, {"topic": TOPIC}) == {"topics": 1}
        for _, writer in silent:
            writer.close()


def test_the_hub_sends_the_reason_of_a_close() -> None:
    asyncio.run(_goodbye())


async def _goodbye() -> None:
    async with (
        running(clients=["alice"], listeners=["magline"]) as it,
        node(it, "alice") as alice,
        node(it, "alice") as revoked,
    ):
        last = max(it.hub.connections)
        it.hub.connections[last].end("revoked")
        assert (await revoked.next(Finished)).reason_number == Reason.AUTH
        await it.hub.drain()
        finished = await alice.next(Finished)
        assert finished.reason_number == Reason.SHUTDOWN
        assert finished.trusted


def test_a_frame_that_is_repeated_ends_one_connection_and_no_other() -> None:
    asyncio.run(_replayed())


async def _replayed() -> None:
    async with (
        running(clients=["alice", "bob"], listeners=["magline"], services=demo_services()) as it,
        node(it, "alice") as alice,
        node(it, "bob") as bob,
    ):
        alice.writer.write(encode_frame(Frame(seq=1, body=Pin(ping_number=1))))
        assert (await alice.next(Refused)).error_number == ErrorNumber.BAD_RECORD
        await until(lambda: it.hub.counters.close_reasons["magline", "bad_record"] == 1)
        assert await bob.raw(ECHO, b"unhurt") == b"unhurt"


def test_over_ipv6_and_tls(tmp_path: Path) -> None:
    asyncio.run(_over_ipv6_and_tls(tmp_path))


async def _over_ipv6_and_tls(folder: Path) -> None:
    made = make_certificate(folder)
    settings = {"host": ["127.0.0.1", "::1"], "tls": made.settings}
    services = demo_services()
    async with running(
        clients=["alice"], listeners=["magline"], services=services, magline=settings
    ) as it:
        for address in it.hub.listeners["magline"].addresses:
            async with node(it, "alice", tls=made.trusting(), address=address) as alice:
                assert await alice.ask(ADD, {"a": 20, "b": 3}) == {"c": 23}


def test_a_connection_with_only_a_handshake_is_closed() -> None:
    asyncio.run(_never_signs_on())


async def _never_signs_on() -> None:
    async with running(listeners=["magline"], limits={"auth_s": 0.1}) as it:
        silent = await connected(it)
        await silent.next(Established)
        assert (await silent.next(Refused)).error_number == ErrorNumber.TIMEOUT
        assert (await silent.next(Finished)).reason_number == Reason.AUTH
        await silent.hang_up()


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"\x00" * 16, ErrorNumber.BAD_FRAME),
        (b"\x7f\x65" + bytes(14), ErrorNumber.BAD_VERSION),
        (b"\x7f\x66\x00\x63" + bytes(12), ErrorNumber.UNKNOWN_CMD),
        (b"\x7f\x66\x00\x01\x80\x00\x00\x02" + bytes(7) + b"\x42", ErrorNumber.BAD_OPTION),
        (b"\x7f\x66\x00\x04" + bytes(11) + b"\x04", ErrorNumber.BAD_STATE),
    ],
)
def test_error_numbers_of_invalid_frames(data: bytes, number: ErrorNumber) -> None:
    asyncio.run(_invalid_frame(data, number))


async def _invalid_frame(data: bytes, number: ErrorNumber) -> None:
    async with running(listeners=["magline"]) as it:
        reader, writer = await asyncio.open_connection(*it.address("magline"))
        writer.write(data + bytes(80))
        answer = await reader.read()
        frame, stop = decode_frame(answer, 0, len(answer))
        assert frame.body == Err(business_cmd=0, error_number=number)
        frame, _ = decode_frame(answer, stop, len(answer))
        assert frame.body == Fin(reason_number=Reason.PROTOCOL)
        writer.close()


def test_a_service_that_fails_is_an_internal_error() -> None:
    asyncio.run(_internal())


async def _internal() -> None:
    services = Services()

    @services.service("test", "broken", magline=2000)
    def broken() -> None:
        raise RuntimeError("a defect of the service")

    async with (
        running(clients=["alice"], listeners=["magline"], services=services) as it,
        node(it, "alice") as alice,
    ):
        assert await alice.fail(2000, b"") == ErrorNumber.INTERNAL


@pytest.mark.parametrize("wanted", ["prefer", "require"])
def test_bare_control_frames_are_refused_where_tags_are_required(wanted: str) -> None:
    asyncio.run(_bare_control_frame(wanted))


async def _bare_control_frame(wanted: str) -> None:
    table = {"control_auth": wanted}
    async with (
        running(clients=["alice"], listeners=["magline"], magline=table) as it,
        node(it, "alice") as alice,
    ):
        # SYN and the sign-on were frames 1 and 2.
        alice.writer.write(encode_frame(Frame(seq=3, body=Pin(ping_number=9))))
        if wanted == "require":
            assert (await alice.next(Refused)).error_number == ErrorNumber.BAD_RECORD
            assert (await alice.next(Finished)).reason_number == Reason.PROTOCOL
        else:
            while not alice.session.unknown_pons:  # the answer, which this session did not ask for
                assert await alice.read()

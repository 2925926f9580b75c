"""Every field of a document that a caller can send, and a service or client can see, with a hub."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from tests.hub.running import Running, running
from tests.protocols.comet.test_sealing import extra
from tests.protocols.samples import SAMPLES

from wirelake.client import BadCall, CallFailed, ConnectionLost, Push, Timeout, Unsupported, connect
from wirelake.client.settings import make_settings
from wirelake.hub.config import ConfigError
from wirelake.hub.listeners.tny import TnyCall
from wirelake.hub.rpc.call_types import Call, Reply
from wirelake.hub.rpc.services import Services
from wirelake.protocols.comet.layout import Isp, NetworkType
from wirelake.protocols.esnp.layout import (
    Address,
    Data,
    Error,
    Flag,
    FlagType,
    Header,
    Message,
    MessageId,
    OpaqueRow,
    Payload,
    RowType,
    SeqNo,
    SessionInfo,
    SourceAddress,
    SourceMessageId,
    Version,
    XData,
)
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.values import data_rows, values_of, var_of
from wirelake.protocols.tny.layout import (
    AccessPoint,
    Attribute,
    Contact,
    ForwardHeader,
    OriginalMessageIdHeader,
    Point,
    TracingHeader,
)
from wirelake.protocols.tny.message import decode_header
from wirelake.wire import NeedMore
from wirelake.wire.views.json import from_json, to_json

from .session_servers import TOKEN, standing, take, until
from .test_clients_with_hub import client_of, url_of


def watching() -> tuple[Services, list[Any]]:
    """Services that keep the calls they get."""
    services, seen = Services(), []

    @services.service("test", "look", tny=2001, magline=2001)
    def look(call: Call) -> Reply:
        # Not the call itself: it is untracked by the collector and holds its connection.
        names = ("body", "rows", "is_event", "line", "forward_header", "headers")
        kept = {name: getattr(call, name) for name in names if hasattr(call, name)}
        seen.append(SimpleNamespace(kind=type(call), **kept))
        return Reply(
            data={"seen": len(seen)},
            rows=(Header(name="served-by", value=var_of("one")), XData(id=-7, data=b"x")),
        )

    return services, seen


def kinds(rows: tuple[Any, ...], kind: type) -> list[Any]:
    return [row for row in rows if type(row) is kind]


# -- ESNP ------------------------------------------------------------------------------------------


def test_esnp_fields_reach_the_service_and_come_back() -> None:
    async def story() -> None:
        services, seen = watching()
        async with (
            running(clients=["alice"], listeners=["esnp"], services=services) as it,
            client_of(it, "esnp", version=(2, 1, 0, 9)) as c,
        ):
            result = await c.call(
                "esnp://far.example:9/test/look?o=thing&g=blue&a_35=node",
                {"a": 1},
                headers={"trace-id": "t1", "n": 3},
                session_info={"route": b"\x01"},
                xdata=[(1, "as a Var"), (1, b"raw")],
                source="esnp://_/caller/reply?o=me",
                flags=(128, 300),
                rows=[OpaqueRow(type=0x80, data=b"own")],
            )
        rows = seen[0].rows
        assert values_of(rows) == {"a": 1}
        assert values_of(rows, Header) == {"trace-id": "t1", "n": 3}
        assert values_of(rows, SessionInfo) == {"route": b"\x01"}
        assert [row.id for row in kinds(rows, XData)] == [1, 1]
        assert kinds(rows, XData)[1].data == b"raw"
        assert [(row.kind, row.value) for row in kinds(rows, Address)] == [
            (50, "blue"),
            (40, "far.example:9"),
            (35, "node"),
            (30, "test"),
            (20, "look"),
            (10, "thing"),
        ]
        assert [(row.kind, row.value) for row in kinds(rows, SourceAddress)] == [
            (30, "caller"),
            (20, "reply"),
            (10, "me"),
        ]
        assert {128, 300} <= {row.value for row in kinds(rows, Flag)}
        assert kinds(rows, Version) == [Version(major=2, minor=1, branch=0, variant=9)]
        assert kinds(rows, OpaqueRow) == [OpaqueRow(type=0x80, data=b"own")]
        answered = result.message.rows
        assert values_of(answered, Header) == {"served-by": "one"}
        assert kinds(answered, XData) == [XData(id=-7, data=b"x")]
        # A response carries SESSION_INFO back, and goes to the source address.
        assert values_of(answered, SessionInfo) == {"route": b"\x01"}
        assert (30, "caller") in [(row.kind, row.value) for row in kinds(answered, Address)]

    asyncio.run(story())


def test_every_esnp_row_and_value_crosses_the_hub() -> None:
    """Body rows of every type, values of every type, flags and addresses: there and back."""
    (sample,) = next(each for each in SAMPLES if each.id == "esnp-seed-c2s").messages
    made = from_json(PROTOCOL.model(), sample).rows
    # What a request of the client has already, or what would make it something else.
    own = (MessageId, SourceMessageId, SeqNo, Error, Flag, Address, Version)
    # Reserved and cancelled rows are never originated (section 8).
    never = [row for row in made if isinstance(row, OpaqueRow) and row.type < 0x80]
    rows = [row for row in made if not isinstance(row, own) and row not in never]
    back = [row for row in rows if isinstance(row, Header | Data | Payload | XData)]

    async def story() -> None:
        seen: list[tuple[Any, ...]] = []
        services = Services()

        @services.service("test", "all")
        def everything(call: Call) -> Reply:
            seen.append(call.rows)
            return Reply(rows=tuple(back))

        async with (
            running(clients=["alice"], listeners=["esnp"], services=services) as it,
            client_of(it, "esnp") as c,
        ):
            result = await c.call("test/all", rows=rows, flags=(128, 300))
            described = await c.call("test/all", rows=[to_row(row) for row in rows])
            for row in never:
                with pytest.raises(BadCall, match="cannot be sent"):
                    await c.call("test/all", rows=[row])
        assert len(never) == 4
        for got in seen:
            assert [row for row in got if not isinstance(row, own)] == rows
        assert {FlagType.REQUEST, FlagType.ASYNC, 128, 300} <= {
            row.value for row in kinds(seen[0], Flag)
        }
        for answer in (result, described):
            rest = [row for row in answer.message.rows if type(row) in map(type, back)]
            assert rest == back
            assert [(row.kind, row.value) for row in kinds(answer.message.rows, Address)] == [
                (row.kind, row.value) for row in kinds(tuple(rows), SourceAddress)
            ]

    asyncio.run(story())


def to_row(row: Any) -> dict[str, Any]:
    """A row as an object."""
    (found,) = to_json(PROTOCOL.model(), Message(rows=(row,)))["rows"]
    return dict(found)


def test_cancelled_esnp_rows_are_flags_where_that_is_wanted() -> None:
    """An early server reports a trace with the row TRACE_RESP (section 6)."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held = b""
        while data := await reader.read(65_536):
            held += data
            with contextlib.suppress(NeedMore):
                request, stop = PROTOCOL.decode(held)
                held = held[stop:]
                number = SourceMessageId(value=kinds(request.rows, MessageId)[0].value)
                head = (Flag(value=FlagType.RESP), Flag(value=FlagType.REQUEST), number)
                old = OpaqueRow(type=RowType.TRACE_RESP)
                writer.write(PROTOCOL.encode(Message(rows=(*head, old, Payload(data=b"hop")))))
                writer.write(PROTOCOL.encode(Message(rows=(*head, *data_rows({"c": 3})))))
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = "esnp://{}:{}".format(*server.sockets[0].getsockname())
        async with connect(url, revision="frames", legacy_rows=True) as c:
            result = await c.call("test/add")
            assert (result.traces, result.data) == (("hop",), {"c": 3})
        async with connect(url) as c:
            assert (await c.call("test/add")).body == b"hop"
        server.close()
        await server.wait_closed()

    asyncio.run(story())


def test_esnp_containers_of_the_go_programs() -> None:
    """A list of three is counted in another way (section 0): both ends need the dialect."""

    async def story() -> None:
        services, seen = watching()
        values = {"list": [1, 2, 3], "map": {"k": {"deep": [None]}}}
        async with running(
            clients=["alice"], listeners=["esnp"], services=services, esnp={"dialect": "go"}
        ) as it:
            for dialect in ("go", "seed"):
                async with client_of(it, "esnp", dialect=dialect) as c:
                    await c.call("test/look", values)
        same, other = (values_of(call.rows) for call in seen)
        assert same == values
        assert other != values

    asyncio.run(story())


@pytest.mark.parametrize("strict", [True, False])
def test_a_strict_esnp_client_refuses_rows_in_the_wrong_order(strict: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request, _ = PROTOCOL.decode(await reader.read(65_536))
        number = SourceMessageId(value=kinds(request.rows, MessageId)[0].value)
        flags = (Flag(value=FlagType.RESP), Flag(value=FlagType.REQUEST))
        writer.write(PROTOCOL.encode(Message(rows=(*data_rows({"c": 3}), *flags, number))))
        await reader.read()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = "esnp://{}:{}".format(*server.sockets[0].getsockname())
        async with connect(url, strict=strict, reconnect=False) as c:
            if strict:
                with pytest.raises((CallFailed, ConnectionLost, Timeout)):
                    await c.call("test/add", timeout_s=0.5)
            else:
                assert (await c.call("test/add")).data == {"c": 3}
        server.close()
        await server.wait_closed()

    asyncio.run(story())


def test_the_rows_of_repeated_esnp_requests_are_complete() -> None:
    """Repeated requests are matched by their bytes and not decoded row by row."""

    async def story() -> None:
        services, seen = watching()
        async with (
            running(clients=["alice"], listeners=["esnp"], services=services) as it,
            client_of(it, "esnp", version=(2, 1, 0, 9)) as c,
        ):
            for n in range(3):
                await c.call("test/look?o=thing", {"n": n})
        shapes = [[row for row in call.rows if type(row) not in (MessageId, Data)] for call in seen]
        assert shapes[0] == shapes[1] == shapes[2]
        assert Version(major=2, minor=1, branch=0, variant=9) in shapes[2]
        assert Address(kind=10, value="thing") in shapes[2]
        numbers = [kinds(call.rows, MessageId)[0].value for call in seen]
        assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]

    asyncio.run(story())


def test_an_esnp_request_in_parts_is_one_call() -> None:
    async def story() -> None:
        services, seen = watching()
        async with (
            running(clients=["alice"], listeners=["esnp"], services=services) as it,
            client_of(it, "esnp") as c,
        ):
            await c.call("test/look", [{"a": 1}, b"two", ({"b": 3}, b"three")], headers={"h": 1})
        rows = seen[0].rows
        assert len(seen) == 1
        assert [row.current for row in kinds(rows, SeqNo)] == [1, 2, 3]
        assert {row.maximum for row in kinds(rows, SeqNo)} == {3}
        assert seen[0].body == b"twothree"
        assert kinds(rows, Data) == [*data_rows({"a": 1}), *data_rows({"b": 3})]
        assert len(kinds(rows, Header)) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("target", "service", "op"),
    [("a%2Fb/c", "a/b", "c"), ("a%252Fb/c", "a%2Fb", "c"), ("s/x%20y%3Fz", "s", "x y?z")],
)
def test_esnp_targets_are_decoded_once(target: str, service: str, op: str) -> None:
    async def story() -> None:
        async with standing("esnp") as stand:
            where = make_settings(f"{stand.url}/{target}").where
            async with connect(stand.url) as c:
                with pytest.raises(CallFailed):
                    await c.call(where.target)
        (rows,) = stand.requests
        assert [(row.kind, row.value) for row in kinds(rows, Address)] == [(30, service), (20, op)]

    asyncio.run(story())


def test_the_to_of_an_esnp_url_is_the_timeout_and_an_argument_wins() -> None:
    async def story() -> None:
        async with standing("esnp") as stand, connect(stand.url, timeout_s=20) as c:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(Timeout):
                await c.call("test/silence?to=50")
            with pytest.raises(Timeout):
                await c.call("test/silence?to=600000", timeout_s=0.05)
            # Shorter than both the client's own timeout and the larger `to`.
            assert loop.time() - began < 20

    asyncio.run(story())


@pytest.mark.parametrize(
    "options",
    [
        {"headers": [1]},
        {"headers": {"h": object()}},
        {"xdata": {"not a number": 1}},
        {"source": "://"},
        {"line": 1},
    ],
)
def test_bad_esnp_options_are_refused_before_anything_is_sent(options: dict[str, Any]) -> None:
    async def story() -> None:
        services, seen = watching()
        async with (
            running(clients=["alice"], listeners=["esnp"], services=services) as it,
            client_of(it, "esnp") as c,
        ):
            with pytest.raises((BadCall, Unsupported)):
                await c.call("test/look", None, **options)
            assert (await c.call("test/look")).data == {"seen": 1}
        assert len(seen) == 1

    asyncio.run(story())


def test_a_hub_can_require_a_version() -> None:
    async def story() -> None:
        async with running(
            clients=["alice"], listeners=["esnp"], esnp={"require_major": 2, "auth": "none"}
        ) as it:
            async with connect(url_of(it, "esnp"), version="2.0.0.0") as c:
                with pytest.raises(CallFailed, match="unknown service"):
                    await c.call("test/nothing")
            async with connect(url_of(it, "esnp")) as c:
                with pytest.raises(CallFailed, match="version"):
                    await c.call("test/nothing")

    asyncio.run(story())


# -- tny -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
def test_tny_line_and_headers_reach_the_service_and_come_back(dialect: str) -> None:
    async def story() -> None:
        services, seen = watching()
        more = b"\xa8\x06\x01"  # a field that no header has: it is carried
        tracing = TracingHeader(
            attributes=(Attribute(key="k", value="v", unknown=more),), unknown=more
        )
        points = [
            Point(
                service_type_id=n,
                access_id=AccessPoint(id=n * 10**15, unknown=more),
                unknown=more,
            )
            for n in range(1, 5)
        ]
        forward = ForwardHeader(
            from_=points[0],
            sender=Contact(contact_id=33, contact_type_id=1, unknown=more),
            to=points[1],
            receiver=Contact(contact_id=34, contact_type_id=0),
            from_forwarder=points[2],
            to_forwarder=points[3],
            unknown=more,
        )
        headers = (tracing, forward, OriginalMessageIdHeader(message_id=99, unknown=more))
        own = {"headers": headers} if dialect == "upstream" else {"forward_header": b"to me"}
        other = {"forward_header": b"x"} if dialect == "upstream" else {"headers": (tracing,)}
        async with (
            running(
                clients=["alice"], listeners=["tny"], services=services, tny={"dialect": dialect}
            ) as it,
            client_of(it, "tny", dialect=dialect) as c,
        ):
            plain = await c.call(2001, {})
            result = await c.call(2001, {}, line=5, **own)
            with pytest.raises(BadCall, match="dialect"):
                await c.call(2001, {}, **other)
            with pytest.raises(BadCall):
                await c.call(2001, {}, line=8)
            await c.announce(2001, {}, line=2)
            await until(lambda: len(seen) == 3)
        assert (plain.message.line, result.message.line) == (0, 5)
        first, second, third = seen
        assert second.kind is TnyCall
        assert (first.line, second.line, third.line) == (0, 5, 2)
        assert third.is_event
        if dialect == "upstream":
            assert [decode_header(each) for each in second.headers] == list(headers)
            assert result.message.headers == second.headers
            # A forwarded request is answered to the id that its first sender gave it (section 6).
            assert result.message.to_message == 99
        else:
            assert second.forward_header == result.message.forward_header == b"to me"

    asyncio.run(story())


@pytest.mark.parametrize(
    "option",
    [{"verify": True}, {"encrypt": True}, {"waste": True}, {"verify": True, "waste": True}],
)
@pytest.mark.parametrize("dialect", ["seed", "upstream"])
def test_tny_security_options_of_client_and_hub(option: dict[str, Any], dialect: str) -> None:
    async def story() -> None:
        services, _ = watching()
        keys = ["throw-away key 1", "throw-away key 2"]
        table = {"dialect": dialect, "security_keys": keys, **option}
        async with running(
            clients=["alice"], listeners=["tny"], services=services, tny=table
        ) as it:
            async with client_of(it, "tny", dialect=dialect, security_keys=keys, **option) as c:
                for n in range(1, 40):
                    assert (await c.call(2001, {})).data == {"seen": n}
            with pytest.raises(ConnectionLost):
                async with client_of(it, "tny", dialect=dialect):
                    pass

    asyncio.run(story())


def test_tny_encryption_without_a_key_is_refused() -> None:
    async def story() -> None:
        with pytest.raises(BadCall, match="key"):
            async with connect("tny://127.0.0.1:1", encrypt=True):
                pass

    asyncio.run(story())


# -- comet -----------------------------------------------------------------------------------------


def test_comet_topics_and_reports() -> None:
    async def story() -> None:
        async with (
            running(clients=["alice"], listeners=["comet"]) as it,
            client_of(it, "comet") as c,
        ):
            assert await c.topics() == []
            await c.subscribe("@a", "@b")
            assert sorted(await c.topics()) == ["@a", "@b"]
            await c.unsubscribe("@a")
            assert await c.topics() == ["@b"]
            await c.report(network="g4", isp="unicom", phone="X1", app="3.2")
            assert reported(it) == {
                "network": "g4",
                "isp": "unicom",
                "phone": "X1",
                "extra": ["app=3.2"],
            }
            with pytest.raises(CallFailed, match="illegal"):
                await c.report(network=9)
            for wrong in ({}, {"network": "g9"}, {"network": 300}):
                with pytest.raises(BadCall):
                    await c.report(**wrong)

    asyncio.run(story())


@pytest.mark.parametrize("network", NetworkType)
@pytest.mark.parametrize("isp", Isp)
def test_comet_reports_of_every_kind(network: NetworkType, isp: Isp) -> None:
    async def story() -> None:
        async with (
            running(clients=["alice"], listeners=["comet"]) as it,
            client_of(it, "comet") as c,
        ):
            await c.report(network=network.name.lower(), isp=int(isp))
            found = reported(it)
            assert (found["network"], found["isp"]) == (network.name.lower(), isp.name.lower())

    asyncio.run(story())


@pytest.mark.parametrize("dialect", ["seed", "hipush"])
def test_a_comet_client_detects_the_dialect(dialect: str) -> None:
    """One notification tells which layout the server uses (rule 6)."""

    async def story() -> None:
        table = {"dialect": dialect, "key": "none"}
        async with (
            running(clients=["alice"], listeners=["comet"], comet=table) as it,
            client_of(it, "comet", dialect="auto", allow_plaintext=True) as c,
        ):
            await c.subscribe("@a")
            for content in (b"one", b"two"):
                await it.publish("@a", content, type=3)
                (got,) = await take(c, 1)
                assert (got.content, got.type) == (content, 3)

    asyncio.run(story())


def reported(it: Running) -> dict[str, Any]:
    (connection,) = it.hub.connections.values()
    return dict(connection.reported)


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline"])
def test_only_comet_has_topics_and_reports(protocol: str) -> None:
    async def story() -> None:
        async with (
            running(clients=["alice"], listeners=[protocol]) as it,
            client_of(it, protocol) as c,
        ):
            for asked in (c.topics(), c.report(network="wifi")):
                with pytest.raises(Unsupported):
                    await asked

    asyncio.run(story())


@pytest.mark.parametrize(("bits", "legacy"), [(2048, False), (512, True)])
def test_comet_rsa_keys(bits: int, legacy: bool, tmp_path: Any) -> None:
    key = tmp_path / "throw-away.pem"
    key.write_bytes(rsa_pem(bits))
    table = {"key": "rsa", "rsa_key": str(key)}
    options: dict[str, Any] = {"dialect": "hipush"} if legacy else {}
    if legacy:
        table |= {"dialect": "hipush", "legacy_hipush": True}
        options["legacy_hipush"] = True

    async def story() -> None:
        async with (
            running(clients=["alice"], listeners=["comet"], comet=table) as it,
            client_of(it, "comet", **options) as c,
        ):
            await c.subscribe("@a")
            await it.publish("@a", b"sealed")
            (got,) = await take(c, 1)
            assert got.content == b"sealed"
            (connection,) = it.hub.connections.values()
            assert connection.key_log() is not None

    asyncio.run(story())


def rsa_pem(bits: int) -> bytes:
    # `cryptography` makes no keys of 512 bits any more: that one is the vectors', throw-away too.
    name = "legacy_exchange_key_rsa512_des" if bits == 512 else "exchange_key_rsa2048_oaep"
    key = load_der_private_key(extra(name, "rsa_private_pkcs8_hex"), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "table",
    [
        {"key": "rsa"},
        {"rsa_key": "x.pem"},
        {"key": "rsa", "rsa_key": "/nowhere/x.pem"},
        {"legacy_hipush": True},
        {"key": "none", "require_encryption": True},
    ],
)
def test_comet_keys_that_cannot_work_are_refused_at_the_start(table: dict[str, Any]) -> None:
    async def story() -> None:
        with pytest.raises(ConfigError, match=r"^comet\."):
            async with running(listeners=["comet"], comet=table):
                pass

    asyncio.run(story())


# -- messages that the server sends on its own -----------------------------------------------------


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline"])
def test_pushes_of_other_servers_reach_the_application(protocol: str) -> None:
    async def story() -> None:
        async with standing(protocol) as stand:
            options = {"anonymous": True} if protocol == "magline" else {}
            async with connect(stand.url, id="alice", token=TOKEN, **options) as c:
                found: list[Push] = []

                async def read() -> None:
                    async for push in c.pushes():
                        found.append(push)
                        if len(found) == 2:
                            return

                reading = asyncio.create_task(read())
                await asyncio.sleep(0)
                stand.push_own(7, b"one")
                stand.push_own(7, b"two")
                await asyncio.wait_for(reading, 20)
        assert [push.body for push in found] == [b"one", b"two"]
        assert found[0].target == ("test/7" if protocol == "esnp" else 7)

    asyncio.run(story())

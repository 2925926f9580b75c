"""Every field and option of a protocol that a person can use: the command line with a hub."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from tests.cli.hub_in_thread import in_thread
from tests.hub.running import Running, running

from wirelake.cli.main import main
from wirelake.hub.listeners.tny import TnyCall
from wirelake.hub.rpc.call_types import Call, Reply
from wirelake.hub.rpc.services import Services
from wirelake.protocols.esnp.layout import (
    Address,
    Flag,
    Header,
    OpaqueRow,
    SeqNo,
    SessionInfo,
    SourceAddress,
    Version,
    XData,
)
from wirelake.protocols.esnp.values import values_of, var_of
from wirelake.protocols.sansio import SessionError
from wirelake.protocols.tny.layout import (
    Attribute,
    Contact,
    ForwardHeader,
    OriginalMessageIdHeader,
    Point,
    TracingHeader,
)
from wirelake.protocols.tny.message import decode_header

from .session_servers import TOKEN, standing
from .test_protocol_fields import rsa_pem

pytestmark = pytest.mark.slow


class Watched(NamedTuple):
    """A hub that runs, and the calls that its service got."""

    it: Running
    seen: list[Any]

    def url(self, protocol: str) -> str:
        """Where it listens."""
        return "{}://{}:{}".format(protocol, *self.it.address(protocol))

    @property
    def alice(self) -> list[str]:
        """The arguments for signing on."""
        return ["--id", "alice", "--token", self.it.tokens["alice"]]


@contextmanager
def watched(listener: str, **tables: Any) -> Iterator[Watched]:
    """Run a hub with one listener, and a service that keeps what it gets."""
    services, seen = Services(), []

    @services.service("test", "look", tny=2001, magline=2001)
    def look(call: Call) -> Reply:
        names = ("body", "rows", "is_info", "is_event", "line", "forward_header", "headers")
        seen.append(SimpleNamespace(**{n: getattr(call, n) for n in names if hasattr(call, n)}))
        assert listener != "tny" or isinstance(call, TnyCall)
        return Reply(data={"seen": 1}, rows=(Header(name="served-by", value=var_of("one")),))

    with in_thread(
        lambda: running(clients=["alice"], listeners=[listener], services=services, **tables)
    ) as it:
        yield Watched(it, seen)


class Result(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process."""
    monkeypatch.delenv("WIRELAKE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")

    def run_here(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = main(args)
        return Result(code, *capfd.readouterr())

    return run_here


def kinds(rows: tuple[Any, ...], kind: type) -> list[Any]:
    return [row for row in rows if type(row) is kind]


# -- ESNP ------------------------------------------------------------------------------------------


def test_esnp_rows_of_a_call_and_of_its_response(run: Run) -> None:
    with watched("esnp") as hub:
        found = run(
            *("call", f"{hub.url('esnp')}/test/look?o=thing&g=blue&a_35=node&to=20000", "a=1"),
            *("--field", 'headers={"trace-id": "t1"}', "--field", 'session_info={"route": 7}'),
            *("--field", 'xdata={"1": "x"}', "--field", "source=esnp://_/caller/reply?o=me"),
            *("--field", "flags=[128, 300]"),
            *("--field", 'rows=[{"type": "opaque_row", "type_": 128, "data": "0b"}]'),
            *("-o", "version=2.1.0.9", "-o", "revision=frames", "-o", "strict=true"),
            *("--message", *hub.alice),
        )
        assert (found.code, found.err) == (0, "")
        (call,) = hub.seen
        host = hub.url("esnp").removeprefix("esnp://")
    rows = call.rows
    assert values_of(rows) == {"a": 1}
    assert values_of(rows, Header) == {"trace-id": "t1"}
    assert values_of(rows, SessionInfo) == {"route": 7}
    assert [row.id for row in kinds(rows, XData)] == [1]
    kept = {row.kind: row.value for row in kinds(rows, Address)}
    assert kept == {50: "blue", 40: host, 35: "node", 30: "test", 20: "look", 10: "thing"}
    assert {row.kind: row.value for row in kinds(rows, SourceAddress)} == {
        30: "caller",
        20: "reply",
        10: "me",
    }
    assert {128, 300} <= {row.value for row in kinds(rows, Flag)}
    assert kinds(rows, Version) == [Version(major=2, minor=1, branch=0, variant=9)]
    assert kinds(rows, OpaqueRow) == [OpaqueRow(type=0x80, data=b"\x0b")]
    shown = json.loads(found.out)["rows"]
    assert {
        "type": "session_info",
        "name": "route",
        "value": {"type": "int32", "value": 7},
    } in shown
    assert {"type": "address", "kind": 30, "value": "caller"} in shown
    assert [row["name"] for row in shown if row["type"] == "header"] == ["served-by"]
    assert {3, 4} <= {row["value"] for row in shown if row["type"] == "flag"}
    assert "source_message_id" in {row["type"] for row in shown}


def test_esnp_events_infos_and_parts(run: Run, tmp_path: Path) -> None:
    with watched("esnp") as hub:
        url = f"{hub.url('esnp')}/test/look"
        assert run("call", url, "--event", "a=1", *hub.alice) == (0, "", "")
        assert run("call", url, "--field", "info=true", *hub.alice).code == 0
        (tmp_path / "one").write_bytes(b"one")
        (tmp_path / "two").write_bytes(b"two")
        bodies = ["--body", str(tmp_path / "one"), "--body", str(tmp_path / "two")]
        assert run("call", url, "a=2", *bodies, *hub.alice) == (0, "seen = 1\n", "")
        event, info, parts = hub.seen
    assert (event.is_event, values_of(event.rows)) == (True, {"a": 1})
    assert (info.is_info, info.is_event) == (True, False)
    assert [(row.current, row.maximum) for row in kinds(parts.rows, SeqNo)] == [(1, 2), (2, 2)]
    assert (parts.body, values_of(parts.rows)) == (b"onetwo", {"a": 2})


def test_rows_that_cannot_be_are_refused(run: Run) -> None:
    for rows in ('[{"type": "nothing"}]', "7", '[{"type": "header", "name": 1}]'):
        with watched("esnp") as hub:
            url = f"{hub.url('esnp')}/test/look"
            found = run("call", url, "--field", f"rows={rows}", *hub.alice)
            assert (found.code, found.out) == (2, "")
            assert found.err.startswith("wirelake: rows: ")
            assert hub.seen == []


@pytest.mark.parametrize(
    ("url", "option", "name"),
    [
        ("magline://127.0.0.1:1/1", ["--event"], "--event"),
        ("magline://127.0.0.1:1/1", ["--message"], "--message"),
        ("tny://127.0.0.1:1/1", ["--body", "a", "--body", "b"], "more than one --body"),
    ],
)
def test_what_a_protocol_has_not_is_refused_before_dialling(
    run: Run,
    url: str,
    option: list[str],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in ("a", "b"):
        (tmp_path / each).write_bytes(b"")
    more = ["--anonymous"] if url.startswith("magline") else []
    protocol = url.partition(":")[0]
    assert run("call", url, *option, *more) == (2, "", f"wirelake: {protocol} has no {name}\n")


# -- tny -------------------------------------------------------------------------------------------


def test_tny_fields_of_a_call_and_of_its_response(run: Run) -> None:
    with watched("tny", tny={"strict": False}) as hub:
        url = f"{hub.url('tny')}/2001"
        options = ["-o", "access_id=77", "-o", "strict=false", *hub.alice]
        found = run(
            *("call", url, "--message", "--field", "line=5", "--field", "forward_header=01ff"),
            *options,
        )
        assert (found.code, found.err) == (0, "")
        assert run("call", url, "--event", "--field", "line=2", *options) == (0, "", "")
        assert run("call", url, *options).code == 0
        request, event, plain = hub.seen
    shown = json.loads(found.out)
    assert (request.line, request.forward_header) == (5, b"\x01\xff")
    assert (shown["line"], shown["forward_header"], shown["code"]) == (5, "01ff", 100)
    assert (event.is_event, event.line) == (True, 2)
    assert (plain.line, plain.forward_header) == (0, None)


def test_tny_headers_of_the_original(run: Run) -> None:
    headers = [
        {"type": "tracing_header", "attributes": [{"key": "k", "value": "v"}]},
        {"type": "original_message_id_header", "message_id": 99},
        {
            "type": "forward_header",
            "from_": {"service_type_id": 7, "access_id": {"id": 9}},
            "sender": {"contact_id": 33, "contact_type_id": 1},
        },
    ]
    with watched("tny", tny={"dialect": "upstream"}) as hub:
        found = run(
            *("call", f"{hub.url('tny')}/2001", "--dialect", "upstream"),
            *("--field", f"headers={json.dumps(headers)}", "--message"),
            *hub.alice,
        )
        assert (found.code, found.err) == (0, "")
        (call,) = hub.seen
        bad = run(
            *("call", f"{hub.url('tny')}/2001", "--dialect", "upstream"),
            *("--field", 'headers=[{"type": "nothing"}]', *hub.alice),
        )
        assert bad.code == 2
        assert "expected one of forward_header" in bad.err
    tracing, original, forward = (decode_header(each) for each in call.headers)
    assert original == OriginalMessageIdHeader(message_id=99)
    assert tracing == TracingHeader(attributes=(Attribute(key="k", value="v"),))
    assert isinstance(forward, ForwardHeader)
    assert isinstance(forward.from_, Point)
    assert (forward.from_.service_type_id, forward.from_.access_id.id) == (7, 9)
    assert forward.sender == Contact(contact_id=33, contact_type_id=1)
    # The response has the headers of its request.
    assert json.loads(found.out)["headers"] == [each.hex() for each in call.headers]


@pytest.mark.parametrize("option", ["verify", "encrypt", "waste"])
def test_tny_security_options(run: Run, option: str) -> None:
    table = {"security_keys": ["throw-away key"], option: True}
    with watched("tny", tny=table) as hub:
        url = f"{hub.url('tny')}/2001"
        keys = ["-o", 'security_keys=["throw-away key"]']
        assert run("call", url, "-o", f"{option}=true", *keys, *hub.alice).code == 0
        assert run("call", url, *hub.alice).code == 1


# -- magline ---------------------------------------------------------------------------------------


def test_magline_options(run: Run, tmp_path: Path) -> None:
    psk = tmp_path / "psk"
    psk.write_text("11" * 32)  # a throw-away key
    psk.chmod(0o600)
    table = {"control_auth": "require", "anonymous": True, "psk": [str(psk)]}
    with watched("magline", magline=table) as hub:
        url = f"{hub.url('magline')}/2001"
        public = str(hub.it.data / "magline.pub")
        for key in (["--psk", str(psk)], ["--key", public], ["--anonymous"]):
            options = ["-o", "control_auth=require", *key, *hub.alice]
            assert run("call", url, *options) == (0, "seen = 1\n", "")
            assert run("ping", hub.url("magline"), "--count", "1", *options).code == 0


# -- comet -----------------------------------------------------------------------------------------


def test_comet_topics_and_reports(run: Run) -> None:
    with watched("comet") as hub:
        url = hub.url("comet")
        facts = ["--report", "network=g4", "--report", "isp=unicom", "--report", "phone=X1"]
        found = run("subscribe", url, "@a", "@b", "--list", *facts, *hub.alice)
        assert (found.code, sorted(found.out.split())) == (0, ["@a", "@b"])
        found = run("subscribe", url, "@a", "--end", *hub.alice)
        assert (found.code, found.out) == (0, "")
        found = run("subscribe", url, "--list", "--json", *hub.alice)
        assert (found.code, json.loads(found.out)) == (0, {"topic": "@b"})
        bad = run("subscribe", url, "--list", "--report", "network=g9", *hub.alice)
        assert (bad.code, bad.out) == (2, "")


def test_other_protocols_have_no_lists_and_reports(run: Run) -> None:
    with watched("tny") as hub:
        assert run("subscribe", hub.url("tny"), "@a", "--list", *hub.alice).code == 2
        found = run("subscribe", hub.url("tny"), "@a", "--report", "network=wifi", *hub.alice)
        assert (found.code, found.out) == (2, "")
        assert run("subscribe", hub.url("tny"), "@a", "--end", *hub.alice) == (0, "", "")


def test_comet_keys(run: Run, tmp_path: Path) -> None:
    key = tmp_path / "comet.key"
    with watched("comet", comet={"static_key": str(key)}) as hub:
        listing = ["subscribe", hub.url("comet"), "@a", "--list", *hub.alice]
        assert run(*listing, "--key", str(key.with_suffix(".pub"))).out == "@a\n"
        assert run(*listing, "--key", "11" * 32).code == 1
    with watched("comet", comet={"key": "none"}) as hub:
        listing = ["subscribe", hub.url("comet"), "@a", "--list", *hub.alice]
        assert run(*listing).code == 1
        assert run(*listing, "--plaintext").out == "@a\n"


def test_comet_of_the_original(run: Run, tmp_path: Path) -> None:
    key = tmp_path / "throw-away.pem"
    key.write_bytes(rsa_pem(512))
    table = {"dialect": "hipush", "key": "rsa", "rsa_key": str(key), "legacy_hipush": True}
    with watched("comet", comet=table) as hub:
        options = ["--dialect", "hipush", *hub.alice]
        found = run(
            *("subscribe", hub.url("comet"), "@a", "--list", "-o", "legacy_hipush=true", *options)
        )
        assert (found.code, found.out) == (0, "@a\n")
        assert run("subscribe", hub.url("comet"), "@a", "--list", *options).code == 1


# -- messages that a server sends on its own -------------------------------------------------------


@asynccontextmanager
async def pushing(protocol: str) -> AsyncIterator[Any]:
    """Run a server that pushes something to every client, again and again."""
    async with standing(protocol) as stand:

        async def push() -> None:
            while True:
                with suppress(SessionError):  # not before the client has signed on
                    stand.push_own(7, b"one")
                await asyncio.sleep(0.02)

        task = asyncio.create_task(push())
        try:
            yield stand
        finally:
            task.cancel()


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline"])
def test_pushes_of_other_servers(run: Run, protocol: str) -> None:
    with in_thread(lambda: pushing(protocol)) as stand:
        more = ["--id", "alice", "--token", TOKEN]
        more += ["--anonymous"] if protocol == "magline" else []
        found = run("subscribe", stand.url, "--pushes", "--count", "2", *more)
        target = "test/7" if protocol == "esnp" else "7"
        assert (found.code, found.out) == (0, f"{target}  one\n" * 2)
        found = run("subscribe", stand.url, "--pushes", "--count", "1", "--json", *more)
        row = json.loads(found.out)
        assert (str(row["target"]), row["content"]) == (target, "one")
        assert ("message" in row) == (protocol != "magline")

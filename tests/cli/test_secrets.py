"""No output of any command contains a token with which a client of a captured session signed on.

One hub records clients of every registered protocol, with a token of the store and with a signed
one, a client behind a gateway, and one whose sign-on
comes in sequence parts, while `/v1/tail` is read. Then everything that shows traffic is searched,
byte by byte, for each token, also in hexadecimal and base64.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from tests.hub.admin.admin_client import AdminClient, admin_client, tailing
from tests.hub.listeners_tny.tny_client import body_of, tny_client
from tests.hub.relay.gateway_hubs import gateway, links_up, port_of
from tests.hub.running import Running, running, until
from tests.hub.signed_tokens.issuing import Signer
from tests.lake.local_engine import run_here

from wirelake.capture.format.items import Packet, Segment
from wirelake.capture.format.reader import read as read_items
from wirelake.capture.tcp.headers import segment
from wirelake.cli.commands.tail import MessageView
from wirelake.cli.lake.command import SUBCOMMANDS
from wirelake.cli.main import COMMANDS
from wirelake.cli.options import FORMATS
from wirelake.cli.read.options import TABLES
from wirelake.client import connect
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake.datasource.options import parse
from wirelake.lake.datasource.source import CaptureReader
from wirelake.lake.engine.settings import Settings
from wirelake.protocols import registry
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Data,
    Flag,
    FlagType,
    Message,
    MessageId,
    SeqNo,
    Var,
    VarType,
)
from wirelake.records import ENGINES

from .conftest import Run

pytestmark = pytest.mark.slow

OPTIONS: dict[str, dict[str, Any]] = {
    "esnp": {},
    "tny": {},
    "magline": {"anonymous": True},
    "comet": {"allow_plaintext": True},
}
"""Options of a client of each protocol that clients can dial."""
SIGNED = {f"signed-{protocol}": protocol for protocol in OPTIONS}
"""Clients whose tokens an issuer has signed."""
TUNNEL, PARTS = "relay", "parts"
"""The client behind a gateway, and the one whose sign-on comes in parts."""
STORED = (*OPTIONS, TUNNEL, PARTS)
CLIENTS = (*STORED, *SIGNED)
NO_TRAFFIC = {
    *("protocols", "encode", "conform", "dissector", "hub", "top", "client", "call", "publish"),
    *("subscribe", "ping", "doctor", "simulate", "demo", "completion", "context", "user"),
    "serve",
}
"""Commands that show no captured or live messages of other clients."""


class Recorded(NamedTuple):
    """What a hub recorded and sent to readers of `/v1/tail`."""

    folder: Path
    file: Path
    ports: dict[int, str]
    tokens: dict[str, str]
    issuer: dict[str, Any]
    """Who signed some of them."""
    live: str
    """Events of `/v1/tail` and live tables, as JSON and as `wirelake tail` prints them."""

    @property
    def port_options(self) -> list[str]:
        return [text for port, name in self.ports.items() for text in ("--port", f"{port}={name}")]

    def leaks(self, output: str | bytes) -> set[str]:
        """The clients whose token is in an output."""
        data = output.encode() if isinstance(output, str) else output
        return {
            client
            for client, token in self.tokens.items()
            if any(form in data for form in forms(token.encode()))
        }


def forms(secret: bytes) -> Iterator[bytes]:
    """A secret as it might be printed: text, hexadecimal, base64 wherever it begins."""
    yield secret
    # A hexadecimal dump has eight or sixteen bytes in a line.
    yield from (digits.encode() for part in (secret[:6], secret[-6:]) for digits in _hex(part))
    for before in range(3):
        text = base64.b64encode(bytes(before) + secret)
        # The first and the last characters also depend on the bytes around it.
        core = text[4 if before else 0 : -4]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def _hex(data: bytes) -> tuple[str, ...]:
    return data.hex(), data.hex().upper(), data.hex(" "), data.hex(":")


# -- the session -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return asyncio.run(_record(tmp_path_factory.mktemp("sign-ons")))


async def _record(folder: Path) -> Recorded:
    captures = folder / "captures"
    signer = Signer(folder)
    async with (
        running(
            clients=STORED,
            auth={"issuers": [signer.settings]},
            data=folder / "hub",
            record={"folder": str(captures), "keys": True, "tables": True},
            relay={"auth": "token"},
            magline={"anonymous": True},
        ) as it,
        gateway(port_of(it)) as gate,
        admin_client(it.hub) as admin,
    ):
        await until(lambda: links_up(gate) == 1)
        it.tokens.update({name: signer.token(name, exp=2**32) for name in SIGNED})
        live = await _sign_on_all(it, gate, admin)
        ports = {it.address(name)[1]: name for name in it.hub.listeners if name != "admin"}
        tokens = dict(it.tokens)
    (file,) = captures.glob("*.pcapng")
    return Recorded(folder, file, ports, tokens, signer.settings, live)


async def _sign_on_all(it: Running, gate: Running, admin: AdminClient) -> str:
    async with tailing(admin, "?bytes=1") as events:
        for name in (*OPTIONS, *SIGNED):
            protocol = SIGNED.get(name, name)
            host, port = it.address(protocol)
            url, options = f"{protocol}://{host}:{port}", OPTIONS[protocol]
            async with connect(url, id=name, token=it.tokens[name], **options) as client:
                await client.subscribe("@news")
        async with tny_client(gate.address("tny")) as user:
            arguments = {"id": TUNNEL, "token": it.tokens[TUNNEL]}
            assert body_of(await user.call(10, arguments)) == {"id": TUNNEL}
        await _sign_on_in_parts(it)
        rows: list[dict[str, Any]] = []
        while not any(row["signed_on"] == PARTS for row in rows if "signed_on" in row):
            rows.append((await events.next())[1])
    tables = [await admin.get(f"/v1/tables/{name}") for name in ENGINES]
    view = MessageView(None, as_hex=True)
    lines = [line for row in rows for line in view.lines(row)]
    return "\n".join([*map(json.dumps, rows), *map(repr, tables), *lines])


async def _sign_on_in_parts(it: Running) -> None:
    reader, writer = await asyncio.open_connection(*it.address("esnp"))
    for frame in auth_parts(PARTS, it.tokens[PARTS]):
        writer.write(frame)
    await reader.readexactly(8)
    writer.close()
    await writer.wait_closed()


def auth_parts(client: str, token: str) -> list[bytes]:
    """`hub/auth` in two parts: the address in the first, the token in the second."""
    flag, number = Flag(value=FlagType.REQUEST), MessageId(value=7)
    where = [
        Address(kind=kind, value=value)
        for kind, value in ((AddressKind.SERVICE, "hub"), (AddressKind.OP, "auth"))
    ]
    texts = {"id": client, "token": token}
    ident, secret = (Data(name=k, value=Var(VarType.LEN_STRING, v)) for k, v in texts.items())
    first = Message(rows=(flag, number, SeqNo(current=1, maximum=2), *where, ident))
    second = Message(rows=(flag, number, SeqNo(current=2, maximum=2), secret))
    return [registry.find("esnp").encode(each) for each in (first, second)]


def payloads(file: Path) -> Iterator[tuple[int, str, bytes]]:
    """The server port, direction and bytes of each packet."""
    for item in read_items(file):
        found = segment(item) if isinstance(item, Packet) else None
        if isinstance(found, Segment) and found.payload:
            direction = str(found.packet.direction)
            yield found.dst_port if direction == "c2s" else found.src_port, direction, found.payload


# -- the tests -------------------------------------------------------------------------------


def test_the_session_has_every_token(recorded: Recorded) -> None:
    # Otherwise the tests below could not fail. magline's is encrypted on the wire.
    assert recorded.leaks(recorded.file.read_bytes()) == {*CLIENTS} - {"magline", "signed-magline"}
    assert {*recorded.ports.values()} >= {*registry.names()} - {"parcel", "weather"}
    options = ReadOptions(ports=recorded.ports, reveal=True)
    shown = [batch.to_pylist() for batch in read_batches([recorded.file], options)]
    assert recorded.leaks(repr(shown)) == {*CLIENTS}


def test_every_command_is_covered() -> None:
    # `listen` is `read` on a pipe from a capture program.
    searched = {"read", "listen", "follow", "tail", "decode", "capture", "lake", "sql", "report"}
    assert searched | NO_TRAFFIC == {*COMMANDS}


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_a_pipe(recorded: Recorded, run: Run, tmp_path: Path, table: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(recorded.file.read_bytes()))
    writer.start()
    found = run("read", str(pipe), "--table", table, "--json", *recorded.port_options)
    writer.join()
    assert (found.code, recorded.leaks(found.out + found.err)) == (0, set())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("table", TABLES)
def test_tables(recorded: Recorded, run: Run, tmp_path: Path, table: str, form: str) -> None:
    out = tmp_path / f"out.{form}"
    found = run(
        "read", str(recorded.file), "--table", table, "--to", form, "-o", str(out), "--limit", "0",
        "--jobs", "1", *recorded.port_options,
    )  # fmt: skip
    assert (found.code, recorded.leaks(found.out + found.err)) == (0, set())
    assert recorded.leaks(out.read_bytes()) == set()
    if form == "parquet":
        assert recorded.leaks(repr(pq.read_table(out).to_pylist())) == set()


@pytest.mark.parametrize("option", [None, "--fields", "--hex", "--json"])
def test_follow(recorded: Recorded, run: Run, option: str | None) -> None:
    options = ReadOptions(table="messages", ports=recorded.ports, columns=("connection",))
    batches = read_batches([recorded.file], options)
    connections = {each for batch in batches for each in batch.column(0).to_pylist()}
    assert len(connections) >= len(CLIENTS)
    more = [] if option is None else [option]
    for number in connections:
        found = run("follow", str(recorded.file), str(number), *more, *recorded.port_options)
        assert (found.code, recorded.leaks(found.out + found.err)) == (0, set())


@pytest.mark.parametrize("option", [None, "--json"])
def test_decode(recorded: Recorded, run: Run, option: str | None) -> None:
    for port, direction, payload in payloads(recorded.file):
        arguments = ["decode", recorded.ports[port], "--hex", payload.hex()]
        if registry.find(recorded.ports[port]).directed:
            arguments += ["--direction", direction]
        found = run(*arguments, *([] if option is None else [option]))
        assert recorded.leaks(found.out + found.err) == set()


def test_tail_and_live_tables(recorded: Recorded) -> None:
    assert recorded.live.count('"masked": true') >= 5
    assert recorded.leaks(recorded.live) == set()


def test_capture_info(recorded: Recorded, run: Run) -> None:
    for more in ([], ["--json"]):
        found = run("capture", "info", str(recorded.file), *more)
        assert (found.code, recorded.leaks(found.out + found.err)) == (0, set())


@pytest.mark.parametrize("bodies", [[], ["--bodies"]])
def test_redacted_copies(recorded: Recorded, run: Run, tmp_path: Path, bodies: list[str]) -> None:
    copy = tmp_path / "copy.pcapng"
    arguments = ("capture", "redact", str(recorded.file), "-o", str(copy))
    found = run(*arguments, *bodies, *recorded.port_options)
    assert found.code == 0, found.err
    assert recorded.leaks(copy.read_bytes()) == set()
    assert recorded.leaks(found.out + found.err) == set()


def test_a_redacted_copy_signs_nobody_on(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcapng"
    run("capture", "redact", str(recorded.file), "-o", str(copy), *recorded.port_options)
    replayed = {
        name: asyncio.run(_replay(recorded, file, tmp_path / name))
        for name, file in (("original", recorded.file), ("copy", copy))
    }
    signed = {name for name, protocol in SIGNED.items() if protocol != "magline"}
    assert replayed["original"] == {"esnp", "tny", "comet", PARTS, *signed}
    assert replayed["copy"] == set()


async def _replay(recorded: Recorded, file: Path, data: Path) -> set[str]:
    """Send the clients' bytes of a capture to a hub; return the clients that signed on."""
    shutil.copytree(recorded.folder / "hub", data)
    signed_on: set[str] = set()
    by_protocol: dict[str, list[bytes]] = {}
    for port, direction, payload in payloads(file):
        if direction == "c2s" and recorded.ports[port] in ("esnp", "tny", "comet"):
            by_protocol.setdefault(recorded.ports[port], []).append(payload)
    async with running(data=data, auth={"issuers": [recorded.issuer]}) as it:
        for protocol, frames in by_protocol.items():
            # Each packet on a connection of its own, then all parts of the sign-on in parts.
            for sent in (*([frame] for frame in frames), frames[-2:]):
                reader, writer = await asyncio.open_connection(*it.address(protocol))
                writer.writelines(sent)
                writer.write_eof()
                while await reader.read(65_536):
                    signed_on |= {
                        each.client.id
                        for each in it.hub.connections.values()
                        if each.client is not None
                    }
                writer.close()
                await writer.wait_closed()
        signed_on |= {each.client for each in it.hub.table.closed_connections if each.client}
    return signed_on


def test_a_lake_and_its_commands(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    captures.mkdir()
    shutil.copy(recorded.file, captures)
    run_here(lake, captures, settings=Settings(ports=recorded.ports))
    for file in lake.rglob("*"):
        if file.is_file():
            assert recorded.leaks(file.read_bytes()) == set(), file
        if file.suffix == ".parquet":
            rows = pq.ParquetFile(file).read().to_pylist()
            assert recorded.leaks(repr(rows)) == set(), file
    outputs = {
        "status": ["--json"],
        "sql": ["select * from messages", "--json"],
        "report": ["--html", str(tmp_path / "report.html")],
    }
    assert {*outputs} < {*SUBCOMMANDS}
    for name, more in outputs.items():
        found = run("lake", name, str(lake), *more)
        assert (found.code, recorded.leaks(found.out + found.err)) == (0, set()), name
    assert recorded.leaks((tmp_path / "report.html").read_bytes()) == set()


def test_answers_from_captures(recorded: Recorded, run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "tap.pcapng"
    shutil.copy(recorded.file, capture)
    page = tmp_path / "report.html"
    for command in (
        ["sql", str(capture), "select * from messages", "--json", "--keep"],
        ["report", str(capture), "--html", str(page), "--json"],
    ):
        found = run(*command, *recorded.port_options)
        assert (found.code, recorded.leaks(found.out + found.err)) == (0, set()), command[0]
    for file in tmp_path.rglob("*"):
        if file.is_file() and file != capture:
            assert recorded.leaks(file.read_bytes()) == set(), file


@pytest.mark.parametrize("payload", ["full", "hash", "none"])
def test_the_spark_source(recorded: Recorded, payload: str) -> None:
    ports = ",".join(f"{port}={name}" for port, name in recorded.ports.items())
    options = {"path": str(recorded.file), "table": "messages", "ports": ports, "payload": payload}
    reader = CaptureReader(parse(options))
    rows = [batch.to_pylist() for task in reader.partitions() for batch in reader.read(task)]
    assert rows
    assert recorded.leaks(repr(rows)) == set()

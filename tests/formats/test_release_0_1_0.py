"""What release 0.1.0 wrote is opened: tables of a lake, a hub's store, a recording.

`release-0.1.0/README.md` says what the files are and how they were made.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.formats.describe import TABLES, described
from tests.hub.running import DEADLINE_S, Running, running

from wirelake.capture.decode.reference import read_tables
from wirelake.capture.record.recorder import Recorder
from wirelake.cli.main import main
from wirelake.client import AuthFailed, connect
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake.engine.run import run
from wirelake.records.calls import CallsEngine
from wirelake.records.deliveries import DeliveriesEngine
from wirelake.records.engine import Engine, feed_event
from wirelake.records.rows import Fact, in_order, rows_from_batch
from wirelake.records.schema import schema
from wirelake.tables import parquet as reading
from wirelake.tables.inputs import discover
from wirelake.tables.paths import LakeError
from wirelake.tables.query import open_lake

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "release-0.1.0"
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
RECORDING = HERE / "hub-00000000.pcapng"


# -- the lake ----------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    found = tmp_path / "lake"
    shutil.copytree(HERE / "lake", found)
    return found


def test_the_fixture_has_every_public_table() -> None:
    assert set(EXPECTED["lake"]) == set(TABLES)
    assert all(each["rows"] for each in EXPECTED["lake"].values())


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_read_with_pyarrow_and_duckdb(lake: Path, table: str) -> None:
    wanted = EXPECTED["lake"][table]
    assert described(reading.table(lake, table)) == wanted
    with open_lake(lake) as db:
        found = described(db.sql(f"select * from {table}").to_arrow_table())
    assert found["rows"] == wanted["rows"]
    assert {name: found["columns"][name] for name in wanted["columns"]} == wanted["columns"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("sql", "select count(*) as calls from calls"),
        ("report", "--html", "page.html"),
    ],
    ids=lambda given: given[0],
)
def test_commands_that_read_a_lake(
    lake: Path,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    assert main(["lake", command, str(lake), *rest]) == 0
    printed = capsys.readouterr().out
    if command == "sql":
        assert json.loads(printed) == {"calls": EXPECTED["lake"]["calls"]["rows"]}
    elif command == "status":
        assert "edge-a" in printed
    else:
        assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_its_state_is_refused_with_the_command_that_rebuilds_the_lake(
    lake: Path, tmp_path: Path
) -> None:
    captures = tmp_path / "captures"
    recorder = Recorder(captures, source="edge-a", sequence=2)
    recorder.open(1, ("10.0.0.1", 50_000), ("10.0.0.2", 80), "comet", 0)
    recorder.stop()
    [capture] = discover(captures)
    assert (capture.source, capture.sequence) == ("edge-a", 2)  # the next one of the lake's source
    before = {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}

    def no_spark() -> SparkSession:
        raise AssertionError("the state is refused before Spark starts")

    with pytest.raises(LakeError) as raised:
        run(lake, captures, spark=no_spark, settle_s=0)
    [state] = (lake / "_fold").rglob("*.state")
    assert str(raised.value) == (
        f"{state}: state of release 0.1.0, which this version cannot continue from; "
        "rebuild the lake from its captures: wirelake lake run --from CAPTURES --to NEW_LAKE"
    )
    assert (
        before.items()
        <= {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}.items()
    )
    assert described(reading.table(lake, "calls")) == EXPECTED["lake"]["calls"]


# -- the hub's store ---------------------------------------------------------------------------

TOKENS = EXPECTED["hub"]["tokens"]
TTL_S = 1_000_000_000
"""As in the configuration of the hub that wrote the store: what waits does not expire."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found = tmp_path / "hub-data"
    shutil.copytree(HERE / "hub", found)
    return found


def url(hub: Running, listener: str) -> str:
    host, port = hub.address(listener)
    return f"{listener}://{host}:{port}"


@pytest.mark.parametrize("listener", ["esnp", "tny", "magline", "comet"])
def test_clients_sign_on_with_their_old_tokens(data: Path, listener: str) -> None:
    name = f"{listener}-1"
    key = {"pinned": (data / "magline.pub").read_text()} if listener == "magline" else {}

    async def story() -> None:
        async with running(data=data, listeners=[listener], limits={"ttl_s": TTL_S}) as hub:
            async with connect(url(hub, listener), id=name, token=TOKENS[name], **key) as client:
                await client.ping()
            with pytest.raises(AuthFailed):
                async with connect(url(hub, listener), id=name, token="wrong", **key):
                    pass

    asyncio.run(story())


@pytest.mark.parametrize("name", ["comet-1", "comet-2", "esnp-1"])
def test_what_waited_is_delivered_once(data: Path, name: str) -> None:
    listener = name.partition("-")[0]

    async def delivered(count: int, publish: bytes | None = None) -> list[str]:
        found: list[str] = []
        async with running(data=data, listeners=[listener], limits={"ttl_s": TTL_S}) as hub:
            if publish is not None:
                await hub.publish(EXPECTED["hub"]["topic"], publish)
            async with connect(url(hub, listener), id=name, token=TOKENS[name]) as client:
                if listener == "esnp":  # comet fetches what waits without being asked
                    await client.subscribe(EXPECTED["hub"]["topic"])
                async with asyncio.timeout(DEADLINE_S):
                    async for notification in client.notifications():
                        found.append(notification.content.decode())
                        await client.ack(notification)
                        if len(found) == count:
                            break
        return found

    assert asyncio.run(delivered(2)) == EXPECTED["hub"]["waiting"]
    assert asyncio.run(delivered(1, b"published now")) == ["published now"]


# -- the recording -----------------------------------------------------------------------------


def expected_rows(table: str) -> Counter[str]:
    return Counter(json.dumps(row) for row in EXPECTED["recording"][table]["rows"])


def chosen(table: str, rows: Iterable[dict[str, Any]]) -> Counter[str]:
    names = EXPECTED["recording"][table]["columns"]
    return Counter(json.dumps([row[name] for name in names]) for row in rows)


@pytest.mark.parametrize("table", ["messages", "calls", "deliveries", "connections"])
def test_the_columnar_reader_reads_the_recording(table: str) -> None:
    found = [
        row
        for batch in read_batches([RECORDING], ReadOptions(table=table))
        for row in batch.to_pylist()
    ]
    assert chosen(table, found) == expected_rows(table)
    if table == "messages":
        check_opened(found)


def test_the_scalar_reader_reads_the_recording() -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for table, row in read_tables([RECORDING], tables=("messages", "faults", "coverage", "facts")):
        found.setdefault(table, []).append(row)
    assert "faults" not in found
    assert chosen("messages", found["messages"]) == expected_rows("messages")
    check_opened(found["messages"])
    connections = {row["connection"] for row in found["coverage"]}
    at = EXPECTED["recording"]["connections"]["columns"].index("connection")
    assert connections == {row[at] for row in EXPECTED["recording"]["connections"]["rows"]}
    columns = schema("messages")
    messages = rows_from_batch(pa.RecordBatch.from_pylist(found["messages"], columns))
    facts = [
        Fact(row["ts_ns"], row["kind"], row["connection"], row["data"]) for row in found["facts"]
    ]
    engines: dict[str, Engine[Any]] = {"calls": CallsEngine(), "deliveries": DeliveriesEngine()}
    for table, engine in engines.items():
        for event in in_order([*messages, *facts]):
            feed_event(engine, event)
        engine.finish()
        rows = map(msgspec.structs.asdict, engine.take())
        assert chosen(table, rows) == expected_rows(table)


def check_opened(messages: Iterable[dict[str, Any]]) -> None:
    """The keys in the recording open what was sealed."""
    bodies = Counter((row["protocol"], row["body"]) for row in messages if row["body"])
    assert bodies["comet", b"delivered and acknowledged"] == 2
    assert any(protocol == "magline" and b"11" in body for protocol, body in bodies)

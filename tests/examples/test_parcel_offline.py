"""A complete protocol of another package, offline: `examples/parcel` in every reader.

Decoding, the dissector, simulated captures and their truth, all tables by both readers, Spark rows
and a lake. `test_parcel.py` has the live half.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from parcel_courier import PROTOCOL
from parcel_courier.protocol import Answer, Ask, Bye, Frame, Hello, Notice, Ping, Pong, Welcome
from pyspark.sql import SparkSession
from tests.lake.cut_examples import unread
from tests.lake.lakes import counted, differing, untrue
from tests.traffic.readers import differences, found_in, truth_of

from wirelake.capture import Recorder
from wirelake.cli.main import main
from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake.engine.run import run as run_lake
from wirelake.lake.verify.verify import verify
from wirelake.protocols import registry
from wirelake.traffic import simulate
from wirelake.traffic.scenes import provider

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))

from dissector_calls import call_differences, info_shown, messages_shown
from dissector_pcap import capture
from dissector_streams import compare
from dissector_tshark import assert_hidden, run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "parcel"
TOKEN = "t-0123456789"
SAMPLES: list[tuple[Any, Any]] = [
    ("c2s", Hello(courier="anna", token=TOKEN)),
    ("s2c", Welcome(to=1)),
    ("c2s", Ask(target="parcels/scan", body=b'{"parcel":7}')),
    ("s2c", Answer(to=2, status=4, body=b"later")),
    ("s2c", Notice(id="n1", topic="@depot", sent_ms=1_767_621_600_000, type=3, content=b"late")),
    ("c2s", Ping()),
    ("s2c", Pong(to=3)),
    ("c2s", Bye(reason="normal")),
]
PAYLOADS = [
    (way, PROTOCOL.encode(Frame(number=n, body=body))) for n, (way, body) in enumerate(SAMPLES, 1)
]
TABLES = ("calls", "connections", "coverage", "faults")


# -- one message -----------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [data for _, data in PAYLOADS])
def test_decode_and_encode_are_inverse(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, payload: bytes
) -> None:
    assert main(["decode", "parcel", "--json", "--reveal", "--hex", payload.hex()]) == 0
    file = tmp_path / "message.json"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["encode", "parcel", "--hex", str(file)]) == 0
    assert capsys.readouterr().out.strip() == payload.hex()


def test_decode_names_the_status_and_masks_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "parcel", "--hex", PAYLOADS[3][1].hex()]) == 0
    assert "4 (TRY_LATER)" in capsys.readouterr().out
    assert main(["decode", "parcel", "--hex", PAYLOADS[0][1].hex()]) == 0
    shown = capsys.readouterr().out
    assert "anna" in shown
    assert TOKEN not in shown


# -- Wireshark -------------------------------------------------------------------------------------


def test_the_dissector_shows_its_fields_and_masks_the_token(tmp_path: Path) -> None:
    script = tmp_path / "parcel.lua"
    assert main(["dissector", "parcel", "-o", str(script)]) == 0
    assert PROTOCOL.port is not None
    file = capture(tmp_path, PROTOCOL.port, PAYLOADS)
    shown = run(script, "-r", str(file), "-V")
    for words in ("anna", "parcels/scan", "TRY_LATER", "@depot", "normal"):
        assert words in shown
    assert_hidden(script, file, "parcel", TOKEN.encode())


def test_the_dissector_agrees_with_the_decoder(tmp_path: Path) -> None:
    streams: list[Any] = [PAYLOADS, [("c2s", PAYLOADS[2][1][:-3] + b"\0\0\0")]]
    assert compare(tmp_path, PROTOCOL, PROTOCOL.dialects[0], streams) == []


def test_calls_in_tshark_are_those_of_the_table(tmp_path: Path) -> None:
    """Info column, links and response times of simulated couriers."""
    simulate(tmp_path / "sim", size="100KB", protocols=["parcel"], style="tcpdump", jobs=1)
    script = tmp_path / "parcel.lua"
    assert main(["dissector", "parcel", "-o", str(script)]) == 0
    for file in sorted((tmp_path / "sim").glob("*.pcap")):
        shown, info = messages_shown(script, file), info_shown(script, file)
        assert any(message.latency is not None for message in shown)
        assert call_differences(tmp_path, file, shown) == []
        assert any(text.startswith("request parcels/scan") for text in info)
        assert any("response parcels/scan: ok" in text for text in info)
        assert any("response parcels/weigh: unknown_service" in text for text in info)


# -- tables ----------------------------------------------------------------------------------------


def test_calls_and_connections_of_one_courier(tmp_path: Path) -> None:
    """Responses out of order, a failure, and a request that is never answered."""
    frames: list[tuple[Any, int, Any]] = [
        ("c2s", 1, Hello(courier="anna", token=TOKEN)),
        ("s2c", 1, Welcome(to=1)),
        ("c2s", 2, Ask(target="parcels/scan", body=b"1")),
        ("c2s", 3, Ask(target="parcels/weigh", body=b"2")),
        ("c2s", 4, Ask(target="parcels/lose", body=b"3")),
        ("s2c", 2, Answer(to=3, status=2, body=b"unknown")),
        ("s2c", 3, Answer(to=2, status=0, body=b"done")),
        ("c2s", 5, Ping()),
        ("s2c", 4, Pong(to=5)),
        ("s2c", 5, Notice(id="n1", topic="@depot", sent_ms=0, type=0, content=b"late")),
        ("c2s", 6, Bye(reason="normal")),
    ]
    recorder = Recorder(tmp_path, source="depot")
    recorder.open(1, ("10.0.0.9", 51000), ("10.0.0.1", 9640), "parcel", 0)
    for at, (way, number, body) in enumerate(frames):
        recorder.record(1, way, PROTOCOL.encode(Frame(number=number, body=body)), at * 1000)
    recorder.close(1, 99_000, "eof")
    recorder.stop()
    files = sorted(tmp_path.glob("*.pcapng"))
    (calls,) = read_batches(files, ReadOptions(table="calls"))
    columns = ("target", "client", "outcome", "status", "latency_ns")
    assert {tuple(row[name] for name in columns) for row in calls.to_pylist()} == {
        ("hello", "anna", "answered", "ok", 1_000),
        ("parcels/scan", "anna", "answered", "ok", 4_000),
        ("parcels/weigh", "anna", "failed", "unknown_service", 2_000),
        ("parcels/lose", "anna", "lost", None, None),
    }
    (connections,) = read_batches(files, ReadOptions(table="connections"))
    (row,) = connections.to_pylist()
    found = {name: row[name] for name in ("client", "requests", "failures", "pushes", "heartbeats")}
    assert found == {"client": "anna", "requests": 4, "failures": 1, "pushes": 1, "heartbeats": 1}


# -- simulated captures ----------------------------------------------------------------------------


def declared(group: str) -> tuple[EntryPoint, ...]:
    """The entry points that the example's `pyproject.toml` declares."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    found = project["entry-points"][group]
    return tuple(EntryPoint(name, value, group) for name, value in found.items())


@pytest.fixture(scope="module", params=[0.0, 0.01], ids=["clean", "faulty"])
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated couriers in both styles."""
    folder = tmp_path_factory.mktemp("parcel") / "captures"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "_points", lambda: declared(provider.GROUP))
        assert provider.names()[-1] == "parcel"
        simulate(folder, size="250KB", seed=3, protocols=["parcel"], faults=request.param, jobs=1)
    return folder


def test_the_package_declares_protocol_and_scenes() -> None:
    (protocol,) = declared(registry.GROUP)
    assert protocol.load() is PROTOCOL
    (scenes,) = declared(provider.GROUP)
    assert scenes.load().protocol == protocol.name == PROTOCOL.name


def test_the_simulation_has_everything_that_the_protocol_has(simulated: Path) -> None:
    counts = truth_of(simulated, "message_counts")
    names = {row["name"] for row in counts}
    assert names == {type(body).__name__.lower() for _, body in SAMPLES}
    calls = truth_of(simulated, "calls")
    assert {"answered", "failed"} <= {row["outcome"] for row in calls}
    targets = {row["target"] for row in calls} - {None}  # None: the request was lost
    assert targets == {"hello", "parcels/scan", "parcels/weigh"}
    assert {"ok", "unknown_service"} <= {row["status"] for row in calls}
    connections = truth_of(simulated, "connections")
    clients = {row["client"] for row in connections}
    assert None not in clients
    assert len(clients) == len(connections) > 10
    assert sum(row["heartbeats"] for row in connections) > 10


def test_the_reference_reader_finds_the_truth(simulated: Path) -> None:
    found = found_in(simulated)
    for table in TABLES:
        assert differences(truth_of(simulated, table), found[table]) == ([], [])


@pytest.mark.parametrize("table", TABLES)
def test_read_finds_the_truth(simulated: Path, table: str) -> None:
    rows: Counter[str] = Counter()
    for style in ("*.pcapng", "*.pcap"):
        for batch in read_batches(sorted(simulated.glob(style)), ReadOptions(table=table)):
            rows += counted(batch)
    true = counted(pq.read_table(simulated / "truth" / f"{table}.parquet"))
    assert differing(rows, true, table) == []
    assert bool(true) or table == "faults"


@pytest.mark.parametrize("simulated", [0.01], indirect=True)
def test_a_lake_is_true_and_verified(spark: SparkSession, simulated: Path, tmp_path: Path) -> None:
    outcome = run_lake(tmp_path / "lake", simulated, spark=lambda: spark)
    assert unread(outcome) == []
    assert untrue(tmp_path / "lake", simulated) == []
    assert verify(tmp_path / "lake", shares=1).findings() == []


@pytest.mark.parametrize("simulated", [0.01], indirect=True)
def test_spark_reads_its_fields(spark: SparkSession, simulated: Path) -> None:
    messages = spark.read.format("wirelake").option("protocol", "parcel").load(str(simulated))
    messages.createOrReplaceTempView("parcel_messages")
    rows = spark.sql(
        "select name, count(*) as n, count(parcel.ask.target) as targets,"
        " count(parcel.hello.courier) as couriers, max(parcel.hello.token) as token"
        " from parcel_messages group by name"
    ).collect()
    true: Counter[str] = Counter()
    for row in truth_of(simulated, "message_counts"):
        true[row["name"]] += row["messages"]
    assert {row["name"]: row["n"] for row in rows} == dict(true)
    assert {row["name"]: row["targets"] for row in rows if row["targets"]} == {"ask": true["ask"]}
    (hello,) = (row for row in rows if row["name"] == "hello")
    assert hello["couriers"] == true["hello"]
    assert hello["token"] is None


def test_simulate_as_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provider, "_points", lambda: declared(provider.GROUP))
    options = ["--protocols", "parcel", "--size", "60KB", "--out", str(tmp_path / "run")]
    assert main(["simulate", *options]) == 0
    assert " calls" in capsys.readouterr().out
    assert {row["protocol"] for row in truth_of(tmp_path / "run", "calls")} == {"parcel"}

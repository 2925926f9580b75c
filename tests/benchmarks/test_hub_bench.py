"""The load generator says what it means in every protocol, and notices what is wrong.

No assertion here is about time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.hub_load import Generator, Load, LoadError, build
from benchmarks.hub_plan import NOTHING, Contender, Plan, turns
from benchmarks.hub_report import Findings, ratio_rules, record, table
from benchmarks.hub_servers import PEERS, peer, peer_versions
from tests.benchmarks.hub_listeners import Heard, listening

from wirelake.protocols.comet import layout as comet

pytestmark = pytest.mark.soak
"""A benchmark that breaks is seen when it is run; no user depends on it."""

HEAD = 32
"""Bytes at the beginning of a payload that are numbers."""


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    """The compiled load generator, on any core."""
    return build(tmp_path_factory.mktemp("load"), -1)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ids and tokens; throw-away values."""
    path = tmp_path_factory.mktemp("clients") / "clients"
    path.write_text("".join(f"id-{n} throw-away-{n}\n" for n in range(10)), encoding="utf-8")
    return path


def run(generator: Generator, protocol: str, heard: Heard, mode: str, **options: Any) -> Load:
    """A short run that has to be without a fault."""
    given = {"protocol": protocol, "port": heard.port, "seconds": 5, "warm": 0, **options}
    load = generator.run(mode, **given)
    assert (load.lost, load.faults, load.fault) == (0, 0, "")
    assert heard.failed == []
    return load


def payloads(bodies: list[bytes], size: int) -> list[int]:
    """The numbers of payloads, which must be of that size."""
    for body in bodies:
        assert len(body) == size
        assert body[HEAD:] == b"x" * (size - HEAD)
    return sorted(
        int(body[:8].translate(bytes.maketrans(b"ABCDEFGHIJKLMNOP", b"0123456789abcdef")), 16)
        for body in bodies
    )


# -- protocols ---------------------------------------------------------------------------------


def test_esnp_calls(generator: Generator, clients: Path) -> None:
    with listening("esnp") as heard:
        load = run(
            generator, "esnp", heard, "rpc", connections=2, count=6, clients=clients, first=3
        )
    assert load.sent == 6
    signed_on = [each for each in heard.asked if each[1] == "auth"]
    assert signed_on == [
        ("hub", "auth", {4}, {"id": f"id-{n}", "token": f"throw-away-{n}"}) for n in (3, 4)
    ]
    echoed = [each for each in heard.asked if each[1] == "echo"]
    assert echoed == [("test", "echo", {4}, {})] * 6
    assert (load.frames_out, load.frames_in) == (8, 8)


def test_esnp_sums_and_publishes(generator: Generator, clients: Path) -> None:
    with listening("esnp") as heard:
        run(generator, "esnp", heard, "rpc", count=3, op="add", clients=clients)
        run(generator, "esnp", heard, "rpc", count=3, op="publish", clients=clients, topic="@t")
    added = [values for _, op, _, values in heard.asked if op == "add"]
    assert added == [{"a": n, "b": 1} for n in range(3)]
    published = [(flags, values) for _, op, flags, values in heard.asked if op == "publish"]
    assert [flags for flags, _ in published] == [{4, 7}] * 3
    assert [values["topic"] for _, values in published] == ["@t"] * 3
    assert payloads([values["content"].encode() for _, values in published], 64) == [0, 1, 2]


def test_esnp_publishes_that_are_not_stored(generator: Generator, clients: Path) -> None:
    with listening("esnp") as heard:
        load = run(
            generator, "esnp", heard, "fanout", connections=3, count=4, depth=2, clients=clients
        )
    subscribed = [values for _, op, _, values in heard.asked if op == "subscribe"]
    assert subscribed == [{"topic": "@bench"}] * 3
    published = [values for _, op, _, values in heard.asked if op == "publish"]
    assert [(each["topic"], each["ttl_s"]) for each in published] == [("@bench", 0)] * 4
    assert load.sent == 4


def test_tny_calls(generator: Generator, clients: Path) -> None:
    with listening("tny") as heard:
        run(generator, "tny", heard, "rpc", count=4, size=1024, clients=clients)
        run(generator, "tny", heard, "rpc", count=3, op="add", clients=clients)
        run(generator, "tny", heard, "rpc", count=2, op="publish", topic="@t", clients=clients)
    said = [json.loads(body) for call, body in heard.asked if call == 10]
    assert said == [{"id": "id-0", "token": "throw-away-0"}] * 3
    assert payloads([body for call, body in heard.asked if call == 1001], 1024) == [0, 1, 2, 3]
    added = [json.loads(body) for call, body in heard.asked if call == 1002]
    assert added == [{"a": n, "b": 1} for n in range(3)]
    published = [json.loads(body) for call, body in heard.asked if call == 13]
    assert [set(each) for each in published] == [{"topic", "content"}] * 2
    assert payloads([each["content"].encode() for each in published], 64) == [0, 1]


def test_comet_subscribers(generator: Generator, clients: Path) -> None:
    options = {"protocol": "comet", "connections": 3, "subscribe": True, "topic": "@t"}
    with listening("comet") as heard, generator.held(port=heard.port, clients=clients, **options):
        pass
    signed_on = [each for each in heard.asked if isinstance(each, tuple)]
    assert signed_on == [("auth", f"id-{n}", f"throw-away-{n}") for n in range(3)]
    assert [each for each in heard.asked if each not in signed_on] == [
        comet.Subscribe(topics=("@t",))
    ] * 3
    assert heard.failed == []


def test_magline_calls(generator: Generator, clients: Path) -> None:
    assert generator.can_seal, "libssl-dev is missing: make system"
    with listening("magline") as heard:
        run(generator, "magline", heard, "rpc", count=4, connections=2, clients=clients)
        run(generator, "magline", heard, "rpc", count=3, op="add", clients=clients)
    # Two connections sign on side by side, and one later; which of the two is first is not fixed.
    tokens = [json.loads(data)["token"] for call, data in heard.asked if call == 10]
    assert sorted(tokens[:2]) == ["throw-away-0", "throw-away-1"]
    assert tokens[2:] == ["throw-away-0"]
    bodies = [data for call, data in heard.asked if call == 0x1001]
    assert len(payloads(bodies, 64)) == 4
    added = [json.loads(data) for call, data in heard.asked if call == 0x1002]
    assert added == [{"a": n, "b": 1} for n in range(3)]


def test_a_fixed_rate_gives_latencies(generator: Generator, clients: Path) -> None:
    with listening("tny") as heard:
        load = run(generator, "tny", heard, "rpc", rate=500, seconds=0.2, clients=clients)
    assert 0 < load.p50_us <= load.p99_us <= load.p999_us


# -- what goes wrong ---------------------------------------------------------------------------


def test_a_server_that_is_not_there(generator: Generator) -> None:
    with listening("tny") as heard:
        gone = heard.port
    with pytest.raises(LoadError, match="refused"):
        generator.run("rpc", protocol="tny", port=gone)


def test_wrong_answers_and_deliveries_are_noticed(generator: Generator, clients: Path) -> None:
    with listening("esnp") as heard:
        heard.wrong = True
        options = {"protocol": "esnp", "port": heard.port, "clients": clients, "warm": 0}
        asked = generator.run("rpc", count=3, op="add", **options)
        result = generator.run("fanout", connections=2, count=3, **options)
    assert (asked.faults, asked.fault) == (3, "a wrong sum")
    assert result.faults > 0
    assert result.fault == "a delivery out of order"


def test_too_few_clients(generator: Generator, clients: Path) -> None:
    with listening("tny") as heard, pytest.raises(LoadError, match="too few clients"):
        generator.run("rpc", protocol="tny", port=heard.port, clients=clients, first=10)


def test_a_peer_that_fails_counts_as_nothing(
    generator: Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(tmp_path, generator, 0)
    assert plan.run(Contender("nobody", {"protocol": "smtp"}), "rpc") == NOTHING
    assert "no such protocol" in capsys.readouterr().err


def test_the_generator_is_built_without_openssl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.hub_load.has_openssl", lambda: False)
    plain = build(tmp_path, -1)
    assert not plain.can_seal
    with pytest.raises(LoadError, match="no such protocol"):
        plain.run("rpc", protocol="magline")


# -- peers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PEERS)
def test_peers_deliver_and_answer(name: str, generator: Generator, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with peer(name, tmp_path, 0) as server:
        ((protocol, port),) = server.ports.items()
        options = {"protocol": protocol, "port": port, "seconds": 5, "warm": 0, "size": 1024}
        result = generator.run("fanout", connections=3, count=20, depth=4, **options)
        asked = generator.run("rpc", connections=3, count=20, depth=4, **options)
        with generator.held(connections=2, **options):
            assert server.rss_kb > 1_000
    assert (result.sent, result.lost, result.faults) == (20, 0, 0)
    assert (asked.sent, asked.lost, asked.faults) == (20, 0, 0)
    assert server.process.poll() is not None


def test_peers_report_their_versions() -> None:
    assert all(found[0].isdigit() for found in peer_versions().values())


# -- report ------------------------------------------------------------------------------------


def test_contenders_take_turns_in_changing_order() -> None:
    asked: list[str] = []

    def take(name: str) -> Load:
        asked.append(name)
        return NOTHING

    found = turns({"row": {"a": lambda: take("a"), "b": lambda: take("b")}}, 2)
    assert asked == ["a", "b", "b", "a"]
    assert found == {"row": {"a": [NOTHING] * 2, "b": [NOTHING] * 2}}


def test_the_worst_row_is_judged() -> None:
    found = Findings("fan-out", "deliveries/s")
    for row, ours, nats in (("to 10", 50.0, 100.0), ("to 100", 300.0, 100.0)):
        found.add(row, "comet", ours)
        found.add(row, "nats", nats)
    found.rules += ratio_rules("fan-out", found.rows, "comet", "nats", required=0.8, target=1.0)
    assert [(rule.found, rule.holds) for rule in found.rules] == [(0.5, False)] * 2
    assert all("to 10)" in rule.what for rule in found.rules)
    assert ratio_rules("fan-out", found.rows, "comet", "amqtt", required=3.0) == []
    text = table([found])
    assert [word in text for word in ("0.50x", "3.00x", "MISSED", "not yet")] == [True] * 4
    written = json.loads(json.dumps(record({"fanout": found}, {"rounds": 1}, {"nats": "2"})))
    assert written["results"]["fanout"]["rows"]["to 100"]["comet"] == 300.0
    assert written["versions"]["nats"] == "2"


def test_help_names_every_part() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.hub", "--help"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    for name in ("fanout", "rpc", "latency", "idle", "durable", "recording", "sealed"):
        assert f"\n    {name} " in done.stdout

"""The truth beside simulated captures is what the reference reader and the engines find."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.traffic.readers import Row, differences, found_in, truth_of

from wirelake.traffic import simulate

pytestmark = pytest.mark.slow

TABLES = ("calls", "deliveries", "connections", "tunnels", "coverage", "faults")
Run = tuple[Path, dict[str, list[Row]]]


@pytest.fixture(scope="module", params=["recorder", "tcpdump"])
def clean(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run without faults, and what is found in it."""
    folder = tmp_path_factory.mktemp("clean")
    simulate(folder, size="500KB", seed=11, style=request.param, jobs=1)
    return folder, found_in(folder)


@pytest.fixture(scope="module", params=["recorder", "tcpdump"])
def faulty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with many faults, and what is found in it."""
    folder = tmp_path_factory.mktemp("faulty")
    simulate(folder, size="900KB", seed=5, style=request.param, jobs=1, faults=0.01)
    return folder, found_in(folder)


@pytest.mark.parametrize("table", TABLES)
def test_a_reader_finds_the_truth(clean: Run, table: str) -> None:
    folder, found = clean
    truth = truth_of(folder, table)
    assert differences(truth, found[table]) == ([], [])
    assert bool(truth) == (table != "faults")


@pytest.mark.parametrize("table", TABLES)
def test_a_reader_finds_the_truth_among_faults(faulty: Run, table: str) -> None:
    folder, found = faulty
    truth = truth_of(folder, table)
    assert differences(truth, found[table]) == ([], [])
    assert truth


def test_every_kind_of_fault_occurs(faulty: Run) -> None:
    folder, found = faulty
    codes = Counter(row["code"] for row in truth_of(folder, "faults"))
    assert {"gap", "bad_block", "truncated_stream"} <= codes.keys()
    assert ("conflict" in codes) == any(row["file"].endswith(".pcap") for row in found["faults"])
    decoding = codes.keys() - {"gap", "bad_block", "truncated_stream", "conflict"}
    assert len(decoding) >= 3
    outcomes = {row["outcome"] for row in truth_of(folder, "calls")}
    assert {"answered", "failed", "lost", "unknown", "orphan"} <= outcomes


def test_messages_are_counted(clean: Run) -> None:
    folder, found = clean
    columns = ("protocol", "kind", "name", "direction")
    counted = Counter(tuple(row[name] for name in columns) for row in found["messages"])
    truth = truth_of(folder, "message_counts")
    assert {tuple(row[name] for name in columns): row["messages"] for row in truth} == counted


def test_messages_are_counted_among_faults(faulty: Run) -> None:
    folder, found = faulty
    assert sum(row["messages"] for row in truth_of(folder, "message_counts")) == len(
        found["messages"]
    )


def test_all_protocols_send_short_frames(clean: Run) -> None:
    _, found = clean
    protocols = {row["protocol"] for row in found["messages"]}
    assert protocols == {"comet", "esnp", "magline", "relay", "tny"}
    assert statistics.median(row["size_bytes"] for row in found["messages"]) <= 200


def test_ids_are_distinct(clean: Run) -> None:
    _, found = clean
    connections = [row["connection"] for row in found["connections"]]
    assert len(set(connections)) == len(connections)
    ends = [(row["client_address"], row["client_port"]) for row in found["connections"]]
    assert len(set(ends)) == len(ends)
    tunnels = [row["tunnel_id"] for row in found["tunnels"]]
    assert len(set(tunnels)) == len(tunnels)
    deliveries = [row["notification"] for row in found["deliveries"]]
    assert len(set(deliveries)) == len(deliveries)
    for protocol in ("esnp", "tny"):
        calls = [row for row in found["calls"] if row["protocol"] == protocol]
        ids = [row["message_id"] for row in calls if row["tunnel_link"] is None]
        assert ids
        assert len(set(ids)) == len(ids)
    randoms = [_random(row) for row in found["messages"] if row["name"] in {"syn", "ack"}]
    assert len(set(randoms)) == len(randoms) > 0


def _random(row: dict[str, Any]) -> bytes:
    """The Random of a SYN or an ACK."""
    random: bytes = row["magline"][row["name"]]["random"]
    return random


def test_latencies_differ_from_instance_to_instance(clean: Run) -> None:
    folder, _ = clean
    latencies = [row["latency_ns"] for row in truth_of(folder, "calls")]
    known = [each for each in latencies if each is not None]
    assert min(known) > 0
    assert len(set(known)) > 0.9 * len(known)


def test_the_summary_has_the_figures_of_the_tables(faulty: Run) -> None:
    folder, found = faulty
    summary = json.loads((folder / "truth.json").read_text("utf-8"))
    assert summary["messages"] == len(found["messages"])
    assert summary["connections"] == len(found["connections"])
    for table, column in (("calls", "outcome"), ("deliveries", "outcome"), ("faults", "code")):
        assert summary[table] == dict(Counter(row[column] for row in found[table]))
    for target in summary["targets"]:
        calls = [row for row in found["calls"] if row["target"] == target["target"]]
        calls = [row for row in calls if row["protocol"] == target["protocol"]]
        known = sorted(row["latency_ns"] for row in calls if row["latency_ns"] is not None)
        assert (target["calls"], target["answered"]) == (len(calls), len(known))
        assert target["p50_ns"] == (known[-(-len(known) * 50 // 100) - 1] if known else None)
        assert target["p99_ns"] == (known[-(-len(known) * 99 // 100) - 1] if known else None)

"""A short round; `make soak` runs a hundred longer ones."""

from __future__ import annotations

from pathlib import Path

from tests.hub.cluster.checker.one_round import run_round
from tests.postgres_server import started_server

from wirelake.hub.store.postgres import PostgresDatabase


def test_a_round_violates_nothing(tmp_path: Path) -> None:
    # A server of its own: the round kills it. The history stays in `tmp_path` on failure.
    with started_server() as server:
        server.execute("CREATE DATABASE prepared")
        PostgresDatabase(server.url("prepared")).close()
        outcome = run_round(tmp_path, server, seed=5, seconds=8.0)
    assert outcome.violations == []
    assert outcome.counts["confirm"] > 30
    assert outcome.counts["deliver"] > 100
    assert outcome.counts["stored"] > 20

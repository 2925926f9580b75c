"""Spark Connect: everything that is read through a server is what is read without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wirelake.columnar.read.reader import ReadOptions, read_batches
from wirelake.lake import session
from wirelake.lake.spark.session import SessionError

from . import connect_client
from .connecting import connect_server


def direct(captures: Path, **options: Any) -> list[list[Any]]:
    """The rows of each source, without Spark."""
    return sorted(
        list(row.values())
        for style in ("edge-a-*.pcapng", "tap-a-*.pcap")
        for batch in read_batches(sorted(captures.glob(style)), ReadOptions(**options))
        for row in batch.to_pylist()
    )


def test_a_client_reads_batches_and_streams(captures: Path, tmp_path: Path) -> None:
    with connect_server(tmp_path) as address:
        program = [sys.executable, connect_client.__file__, address, str(captures), str(tmp_path)]
        done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = direct(captures, columns=connect_client.COLUMNS)
    assert len(wanted) > 100
    assert found["batch"] == wanted
    assert found["stream"] == wanted
    assert found["calls"] == len(
        [
            row
            for batch in read_batches(sorted(captures.glob("*.pcap*")), ReadOptions(table="calls"))
            for row in batch.to_pylist()
        ]
    )
    assert found["auths"] == len([row for row in wanted if row[-1] == "auth"]) > 0
    assert found["steps"] == [{"edge-a": 1}, {"edge-a": 1, "tap-a": 1}]
    assert found["zone"] == "UTC"


def test_a_session_is_here_or_there() -> None:
    with pytest.raises(SessionError, match="a master or a remote, not both"):
        session(master="local[2]", remote="sc://127.0.0.1:1")


def test_what_connect_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(SessionError, match=r"needs grpc, .*pip install 'wirelake\[connect\]'"):
        session(remote="sc://127.0.0.1:1")

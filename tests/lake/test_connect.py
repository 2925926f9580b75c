"""Spark Connect: errors before connecting; see also test_lake_masters.py."""

from __future__ import annotations

import sys

import pytest

from wirelake.lake import session
from wirelake.lake.spark.session import SessionError


def test_connect_and_master_conflict() -> None:
    with pytest.raises(SessionError, match="master conflicts with remote"):
        session(master="local[2]", remote="sc://127.0.0.1:1")


def test_what_connect_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(
        SessionError, match=r"missing optional dependency grpc: pip install 'wirelake\[connect\]'"
    ):
        session(remote="sc://127.0.0.1:1")

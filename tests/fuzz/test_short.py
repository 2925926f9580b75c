"""The fuzz targets, briefly; `make soak` runs them for a million executions each."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from tests.fuzz import soak

from wirehouse.protocols.esnp import codec_seed
from wirehouse.protocols.esnp.layout import Data, Message, Var, VarType

EXECUTIONS = 15_000


@pytest.mark.parametrize("protocol", soak.PROTOCOLS)
def test_only_documented_errors(protocol: str, tmp_path: Path) -> None:
    """Coverage-guided, from the vectors: nothing crashes, and most inputs get past the head."""
    record = soak.run(protocol, EXECUTIONS, tmp_path, seed=1)
    assert record["crashes"] == [], record
    assert record["ok"], record
    assert record["executions"] >= EXECUTIONS
    assert record["share_past_head"] >= soak.LEAST_PAST_HEAD
    assert record["codes"], "no input was refused: the fuzzer did not do its work"


@pytest.mark.parametrize("nodes", [1_000, 60_000])
def test_memory_is_bounded_by_the_input(nodes: int) -> None:
    """The densest message, a list of one-byte values, costs a fixed number of bytes per byte."""
    inner = tuple(Var(type=VarType.NULL) for _ in range(nodes))
    value = Var(type=VarType.LIST, value=inner)
    data = codec_seed.encode_message(Message(rows=(Data(name="k", value=value),)))
    tracemalloc.start()
    codec_seed.decode_message(data, 0, len(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * len(data) + 100_000

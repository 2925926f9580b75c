"""The kernels read what the reference reads: vectors, good messages and spoilt ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.columnar.differential import PROTOCOLS, differences, write_capture

pytestmark = pytest.mark.slow

COUNT = 3_000
"""Messages of each protocol; `make soak` reads 200,000."""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_both_readers_agree_on_every_row(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.pcap"
    write_capture(path, name, COUNT, seed=1)
    assert differences([str(path)]) == []


@pytest.mark.parametrize("name", PROTOCOLS)
def test_both_readers_agree_with_any_window_size(name: str, tmp_path: Path) -> None:
    from wirelake.columnar.pipeline.pipeline import CapturePipeline

    path = tmp_path / f"{name}.pcap"
    write_capture(path, name, 600, seed=2)

    def rows(window_bytes: int) -> list[str]:
        found = CapturePipeline([str(path)], window_bytes=window_bytes).batches()
        return sorted(
            f"{table} {row!r}"
            for table, batch in found
            for row in batch.to_pylist()  # type: ignore[union-attr]
        )

    whole = rows(1 << 25)
    assert rows(777) == whole
    assert rows(40_000) == whole


@pytest.mark.parametrize("name", PROTOCOLS)
def test_both_readers_agree_when_a_port_has_another_protocol(name: str, tmp_path: Path) -> None:
    """What comes to the port of comet, and to one that nobody knows, whose bytes must tell."""
    for port in (9620, 12_345):
        path = tmp_path / f"{port}.pcap"
        write_capture(path, name, 900, seed=3, port=port)
        assert differences([str(path)]) == []

"""The Python API of lakes and captures takes no address of an object store for a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wirelake.capture import Recorder
from wirelake.columnar.read.reader import read_batches
from wirelake.lake.engine.run import run
from wirelake.tables.export.export import export
from wirelake.tables.inputs import Watch
from wirelake.tables.log import Log
from wirelake.tables.query import open_lake
from wirelake.tables.status import status
from wirelake.tables.writer import Writer
from wirelake.traffic import simulate

ADDRESS = "s3a://bucket/folder"


def no_session() -> object:
    raise AssertionError("started Spark")


@pytest.mark.parametrize(
    "call",
    [
        lambda: Writer(ADDRESS, create={}),
        lambda: Log(ADDRESS).snapshot(),
        lambda: open_lake(ADDRESS),
        lambda: status("lake", ADDRESS),
        lambda: status(ADDRESS),
        lambda: Watch(ADDRESS).look(),
        lambda: export("lake", ADDRESS),
        lambda: run("lake", ADDRESS, spark=no_session),  # type: ignore[arg-type]
        lambda: run(ADDRESS, ".", spark=no_session),  # type: ignore[arg-type]
        lambda: Recorder(ADDRESS, source="edge"),
        lambda: simulate(ADDRESS, size=1_000),
        lambda: list(read_batches([ADDRESS])),
    ],
)
def test_an_address_is_refused(
    call: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Writer("lake", create={}):
        pass
    with pytest.raises(ValueError, match="unsupported scheme 's3a'"):
        call()
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]

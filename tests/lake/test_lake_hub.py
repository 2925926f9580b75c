"""The tables of a hub equal those of a lake over its recording."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.hub.observe.recorded_run import TABLES, recorded_run

from wirelake.lake.engine.run import run
from wirelake.lake.engine.settings import Settings
from wirelake.tables.query import open_lake


def test_live_is_what_a_lake_finds(spark: SparkSession, tmp_path: Path) -> None:
    recorded = asyncio.run(recorded_run(tmp_path / "hub"))
    captures, lake = Path(recorded.files[0]).parent, tmp_path / "lake"
    done = run(
        str(lake),
        str(captures),
        spark=lambda: spark,
        settings=Settings(ports=recorded.ports),
        settle_s=0,
    )
    assert not done.refused
    with open_lake(lake) as db:
        for table in TABLES:
            found = db.sql(f'select * from "{table}"').to_arrow_table().to_pylist()
            assert _texts(found) == _texts(recorded.rows[table]), table


def _texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)

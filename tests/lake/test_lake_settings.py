"""Settings of a lake: its tables, and what never changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.lake.engine.decoding import DecodeTask, decode
from wirelake.lake.engine.settings import DECODED, TABLES, Settings, tables_of
from wirelake.tables.paths import LakeError


def test_tables_come_with_what_they_are_made_of() -> None:
    assert tables_of([]) == DECODED
    assert tables_of(["latency_minutes"]) == (*DECODED, "calls", "latency_minutes")
    assert tables_of(TABLES) == TABLES
    with pytest.raises(LakeError, match="unknown table 'call'; expected one of messages, faults"):
        tables_of(["call"])


def test_settings_survive_the_log() -> None:
    made = Settings(ports={7300: "tny"}, dialects={"tny": "upstream"}, tables=tables_of(["calls"]))
    assert Settings.of_record(made.to_record()) == made
    assert made.agreed(made.to_record()) == made


def test_a_lake_keeps_its_settings() -> None:
    before = Settings().to_record()
    with pytest.raises(
        LakeError, match="created with force_protocol = default, not tny; use the same"
    ):
        Settings(force_protocol="tny").agreed(before)
    with pytest.raises(LakeError, match=r"created with tables = .*, not messages,faults,coverage"):
        Settings(tables=DECODED).agreed(before)


@pytest.mark.parametrize(
    ("wanted", "written"),
    [
        ([], set(DECODED)),
        (["connections"], {*DECODED, "_connections", "_sign_ons"}),
        (["calls"], {*DECODED, "calls", "_tunnel_events"}),
        (["deliveries"], {*DECODED, "_delivery_parts", "_publications", "_tunnel_events"}),
    ],
)
def test_tasks_write_no_more_than_is_wanted(
    captures: Path, tmp_path: Path, wanted: list[str], written: set[str]
) -> None:
    done = decode(
        DecodeTask(
            sequences=(),
            source="edge-a",
            files=tuple(str(path) for path in sorted(captures.glob("edge-a-*"))),
            share=0,
            shares=1,
            states=(),
            work=str(tmp_path),
            settings=Settings(tables=tables_of(wanted)),
        )
    )
    assert {each.table for each in done.written} == written - {"faults"} | {"_fold"}

"""Exports as Delta and Iceberg: others read the same rows; again, only what changed is done."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from wirelake.records.schema import schema
from wirelake.tables.export.export import ExportedTable, Format, export
from wirelake.tables.maintenance import compact
from wirelake.tables.parquet import conform, table
from wirelake.tables.paths import PUBLIC_TABLES, LakeError
from wirelake.tables.writer import Writer

from .made_lakes import add_rows, call, commit_calls
from .test_tables_query import message, no_rows, older_columns, older_lake

pytestmark = pytest.mark.slow

FORMATS: list[Format] = ["delta", "iceberg"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with rows in a few tables."""
    root = tmp_path / "lake"
    with Writer(root, create={}) as writer:
        commit_calls(writer, range(5))
        with writer.begin() as step:
            add_rows(step, "calls", [call(90)], "open", provisional=True, source="edge")
            comet = {"auth": {"client_id": "c1"}}
            row = message(1, "comet", comet=comet, ids=["a", "b"], body=b"\x00")
            add_rows(step, "messages", [row], protocol="comet")
            add_rows(step, "messages", [message(2, "tny")], "tny", protocol="tny")
            add_rows(step, "traffic_minutes", [{"minute_ns": 0, "messages": 7}])
            step.commit("advance")
    return root


def exported(out: Path, format_: Format, name: str) -> pa.Table:
    """A table of an export, as the readers of its format see it."""
    if format_ == "delta":
        return DeltaTable(out / name).to_pyarrow_table()
    catalog = SqlCatalog("wirelake", uri=f"sqlite:///{out}/catalog.db")
    try:
        return catalog.load_table(f"wirelake.{name}").scan().to_arrow()
    finally:
        catalog.close()


def rows(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=repr)


def changes(found: list[ExportedTable]) -> dict[str, tuple[int, int]]:
    """Files added and removed, by table, where there were any."""
    return {each.table: (each.added, each.removed) for each in found if each.added or each.removed}


@pytest.mark.parametrize("format_", FORMATS)
def test_others_read_the_same_rows(format_: Format, lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "an out"
    found = export(lake, out, format_)
    assert [each.table for each in found] == list(PUBLIC_TABLES)
    assert changes(found) == {"messages": (2, 0), "calls": (2, 0), "traffic_minutes": (1, 0)}
    for name in ("messages", "calls", "traffic_minutes", "tunnels"):
        there = exported(out, format_, name)
        assert there.schema.names == schema(name).names
        assert rows(there) == rows(table(lake, name))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_second_export_does_what_changed(format_: Format, lake: Path, tmp_path: Path) -> None:
    out, two = tmp_path / "out", ["calls", "tunnels"]
    export(lake, out, format_, two)
    assert changes(export(lake, out, format_, two)) == {}
    with Writer(lake) as writer:
        (old,) = [each for each in writer.snapshot.files("calls") if each.provisional]
        with writer.begin() as step:
            step.remove(old.path)
            add_rows(step, "calls", [call(6), call(7)])
            add_rows(step, "tunnels", [{"connection": 1, "first_ns": 1, "last_ns": 1}])
            step.commit("advance")
    assert changes(export(lake, out, format_, two)) == {
        "calls": (1, 1),
        "tunnels": (1, 0),
    }
    assert rows(exported(out, format_, "calls")) == rows(table(lake, "calls"))
    assert compact(lake, tables=["calls"]) is not None
    assert changes(export(lake, out, format_, two)) == {"calls": (1, 2)}
    assert rows(exported(out, format_, "calls")) == rows(table(lake, "calls"))
    assert exported(out, format_, "tunnels").num_rows == 1


@pytest.mark.parametrize("format_", FORMATS)
def test_an_export_gets_the_columns_of_a_newer_version(
    format_: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, out = tmp_path / "lake", tmp_path / "out"
    with Writer(lake, create={}):
        pass
    older_lake(lake)
    with monkeypatch.context() as patch:
        patch.setattr("wirelake.tables.export.export.schema", lambda _: older_columns())
        export(lake, out, format_, ["messages"])
    assert exported(out, format_, "messages").schema.names == older_columns().names
    with Writer(lake) as writer, writer.begin() as step:
        row = message(9, "esnp", sealed=True, esnp={"rows_by_kind": no_rows()})
        add_rows(step, "messages", [row], protocol="esnp")
        step.commit("advance")
    export(lake, out, format_, ["messages"])
    there = exported(out, format_, "messages")
    assert sorted(there.schema.names) == sorted(schema("messages").names)
    wanted = rows(table(lake, "messages"))
    assert rows(_same_order(there)) == wanted
    assert [each["sealed"] for each in wanted].count(True) == 1


def _same_order(found: pa.Table) -> pa.Table:
    """Rows with columns, and fields, in the order of today: a table gets new ones at the end."""
    batches = [conform(each, schema("messages")) for each in found.to_batches()]
    return pa.Table.from_batches(batches)


def test_each_table_names_its_commit(lake: Path, tmp_path: Path) -> None:
    export(lake, tmp_path / "delta", "delta", ["calls", "tunnels"])
    export(lake, tmp_path / "iceberg", "iceberg", ["calls", "tunnels"])
    for name in ("calls", "tunnels"):
        delta = DeltaTable(tmp_path / "delta" / name)
        assert delta.transaction_version("wirelake") == 2
        assert delta.history(1)[0]["wirelake.commit"] == "2"
        catalog = SqlCatalog("wirelake", uri=f"sqlite:///{tmp_path}/iceberg/catalog.db")
        found = catalog.load_table(f"wirelake.{name}")
        assert found.properties["wirelake.commit"] == "2"
        catalog.close()


def test_readers_of_delta_can_pass_files_over(lake: Path, tmp_path: Path) -> None:
    export(lake, tmp_path / "out", "delta", ["messages"])
    log = (tmp_path / "out/messages/_delta_log/00000000000000000001.json").read_text()
    actions = [json.loads(line) for line in log.splitlines()]
    said = [json.loads(each["add"]["stats"]) for each in actions if "add" in each]
    assert sorted((each["numRecords"], each["minValues"]["ts_ns"]) for each in said) == [
        (1, 1_000_000_000), (1, 2_000_000_000),
    ]  # fmt: skip


@pytest.mark.parametrize("format_", FORMATS)
def test_another_lake_is_not_mixed_in(format_: Format, lake: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Writer(other, create={}) as writer:
        commit_calls(writer, range(50, 55))
    export(lake, tmp_path / "out", format_, ["calls"])
    export(other, tmp_path / "out", format_, ["calls"])
    assert rows(exported(tmp_path / "out", format_, "calls")) == rows(table(other, "calls"))


def test_files_are_copied_where_they_cannot_be_linked(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refused)
    export(lake, tmp_path / "out", "delta", ["calls"])
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "out/calls").glob("*.parquet"))
    assert exported(tmp_path / "out", "delta", "calls").num_rows == 6


def test_the_lake_may_delete_its_files(lake: Path, tmp_path: Path) -> None:
    export(lake, tmp_path / "out", "delta", ["calls"])
    for path in (lake / "calls").rglob("*.parquet"):
        assert path.stat().st_nlink == 2
        path.unlink()
    assert exported(tmp_path / "out", "delta", "calls").num_rows == 6


@pytest.mark.parametrize("format_", FORMATS)
def test_what_was_removed_long_ago_is_deleted(
    format_: Format, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def linked() -> int:
        return len(list((out / "calls").glob("*.parquet")))

    export(lake, out, format_, ["calls"])
    compact(lake)
    with Writer(lake) as writer, writer.begin() as step:
        for each in writer.snapshot.files("calls"):
            step.remove(each.path)
        step.commit("expire")
    export(lake, out, format_, ["calls"])
    assert linked() == 2  # a reader may still need them
    monkeypatch.setattr(f"wirelake.tables.export.{format_}.KEPT_DAYS", -1)
    if format_ == "delta":
        from deltalake import DeltaTable as Delta

        original = Delta.vacuum
        monkeypatch.setattr(
            Delta,
            "vacuum",
            lambda self, _, dry_run: original(
                self, 0, dry_run=dry_run, enforce_retention_duration=False
            ),
        )
    export(lake, out, format_, ["calls"])
    assert linked() == 0


def test_what_cannot_be_exported(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LakeError, match="unknown format 'hudi'; expected one of delta, iceberg"):
        export(lake, tmp_path / "out", "hudi")  # type: ignore[arg-type]
    with pytest.raises(LakeError, match="unknown table '_fold'; expected one of messages, "):
        export(lake, tmp_path / "out", "delta", ["_fold"])
    with pytest.raises(LakeError, match="inside the lake; use another folder"):
        export(lake, lake / "out", "delta")
    with pytest.raises(LakeError, match="no lake in this folder"):
        export(tmp_path / "nothing", tmp_path / "out", "delta")
    export(lake, tmp_path / "out", "delta", ["calls"])
    with pytest.raises(LakeError, match="is a Delta table; use another folder"):
        export(lake, tmp_path / "out", "iceberg", ["calls"])
    export(lake, tmp_path / "ice", "iceberg", ["calls"])
    with pytest.raises(LakeError, match="Iceberg tables; use another folder"):
        export(lake, tmp_path / "ice", "delta", ["calls"])
    original = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "delta":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(LakeError, match=r"pip install 'wirelake\[delta\]'"):
        export(lake, tmp_path / "out", "delta")


def test_columns_without_statistics_are_no_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Writer(tmp_path / "lake", create={}) as writer, writer.begin() as step:
        row = message(1, "comet", comet={"auth": {"client_id": "c1"}}, ids=["a"], body=b"")
        add_rows(step, "messages", [row], protocol="comet")
        step.commit("advance")
    export(tmp_path / "lake", tmp_path / "out", "iceberg", ["messages"])
    assert caplog.messages == []

"""A lake in DuckDB and as Arrow: all tables, older files, files in staging, helpers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wirelake.protocols import registry
from wirelake.protocols.esnp.layout import Var, VarType
from wirelake.records.schema import schema
from wirelake.records.structs import messages_schema
from wirelake.tables.log import Log
from wirelake.tables.parquet import batches, conform, table
from wirelake.tables.paths import PUBLIC_TABLES, LakeError
from wirelake.tables.query import open_lake, var_text
from wirelake.tables.writer import Writer
from wirelake.wire.views._reader import to_var_rows
from wirelake.wire.walk import dynamics

from .made_lakes import SECOND, add_rows, call, capture, commit_calls


def message(number: int, protocol: str, **columns: Any) -> dict[str, Any]:
    """A row of `messages`."""
    return {"ts_ns": number * SECOND, "protocol": protocol, "name": "auth", **columns}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake in a folder with a name that is hard to quote."""
    root = tmp_path / "it's [a] lake*?"
    with Writer(root, create={}) as writer:
        commit_calls(writer, range(4))
        with writer.begin() as step:
            comet = {"auth": {"client_id": "c1"}}
            add_rows(step, "messages", [message(1, "comet", comet=comet)], protocol="comet")
            add_rows(step, "messages", [message(2, "tny")], "tny", protocol="tny")
            step.consume(capture(1))
            step.consume(capture(0, "late", fault="late_file"))
            step.commit("advance")
    return root


def test_every_table_is_there_with_all_its_columns(lake: Path) -> None:
    with open_lake(lake) as db:
        for name in PUBLIC_TABLES:
            assert [each[0] for each in db.sql(f"describe {name}").fetchall()] == schema(name).names
        assert db.sql("select count(*), max(connection) from calls").fetchall() == [(4, 3)]
        assert db.sql("from tunnels").fetchall() == []
        found = db.sql("select comet.auth.client_id, tny is null from messages order by ts_ns")
        assert found.fetchall() == [("c1", True), (None, True)]


def test_an_empty_lake(tmp_path: Path) -> None:
    with Writer(tmp_path / "lake", create={}):
        pass
    with open_lake(tmp_path / "lake") as db:
        assert db.sql("select count(*) from messages").fetchall() == [(0,)]
        assert db.sql("from lake_files").fetchall() == []
    assert table(tmp_path / "lake", "faults").schema == schema("faults")


def test_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no lake in this folder"):
        open_lake(tmp_path)


def test_a_lake_as_it_was(lake: Path) -> None:
    with open_lake(lake, commit=1) as db:
        assert db.sql("select count(*) from calls").fetchall() == [(4,)]
        assert db.sql("select count(*) from messages").fetchall() == [(0,)]
    assert table(lake, "messages", commit=1).num_rows == 0


def older_columns() -> pa.Schema:
    """The columns of `messages` without one, and without some fields of ESNP."""
    whole = messages_schema(["esnp"])
    esnp = whole.field("esnp").type
    fields = [_poorer(esnp.field(at)) for at in range(esnp.num_fields)]
    old = [each for each in whole if each.name not in ("esnp", "sealed")]
    return pa.schema([*old, pa.field("esnp", pa.struct(fields))])


def no_rows() -> dict[str, list[Any]]:
    """What a message of ESNP without rows has."""
    kinds = messages_schema(["esnp"]).field("esnp").type.field("rows_by_kind").type
    return {each.name: [] for each in kinds}


def older_lake(lake: Path) -> None:
    """Adds a file that lacks a column, and fields in a struct and in a list of structs."""
    columns = older_columns()
    said = {**no_rows(), "types": [21], "data": [{"name": "a"}]}
    rows = [message(5, "esnp", esnp={"rows_by_kind": said}), message(6, "esnp")]
    with Writer(lake) as writer, writer.begin() as step:
        path = step.work("old") / "old.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=columns), path)
        step.add("messages", path, protocol="esnp")
        step.commit("advance")


def test_rows_of_version_2_are_not_in_the_way(lake: Path) -> None:
    """There, the rows of an ESNP message were one list of structs."""
    row = pa.struct([("type", pa.int16()), ("flag", pa.struct([("value", pa.int32())]))])
    old = [each for each in messages_schema(["esnp"]) if each.name != "esnp"]
    columns = pa.schema([*old, ("esnp", pa.struct([("rows", pa.list_(row))]))])
    said = {"rows": [{"type": 16, "flag": {"value": 4}}]}
    with Writer(lake) as writer, writer.begin() as step:
        path = step.work("old") / "old.parquet"
        rows = [message(5, "esnp", esnp=said)]
        pq.write_table(pa.Table.from_pylist(rows, schema=columns), path)
        step.add("messages", path, protocol="esnp")
        new = {**no_rows(), "types": [16], "flag": [{"value": 4}]}
        fresh = [message(6, "esnp", esnp={"rows_by_kind": new})]
        add_rows(step, "messages", fresh, "new", protocol="esnp")
        step.commit("advance")
    flags = "select esnp.rows_by_kind.flag[1].value from messages where protocol = 'esnp'"
    with open_lake(lake) as db:
        assert db.sql(f"{flags} order by ts_ns").fetchall() == [(None,), (4,)]
    found = table(lake, "messages").column("esnp").to_pylist()[-2:]
    assert found == [{"rows_by_kind": None}, {"rows_by_kind": new}]


def _poorer(field: pa.Field) -> pa.Field:
    """The same without the last field of its structs."""
    kind = field.type
    if pa.types.is_struct(kind) and kind.num_fields > 1:
        kept = [_poorer(kind.field(at)) for at in range(kind.num_fields - 1)]
        return field.with_type(pa.struct(kept))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_poorer(kind.value_field)))
    return field


def test_an_older_file_lacks_columns(lake: Path) -> None:
    older_lake(lake)
    with open_lake(lake) as db:
        found = db.sql("select ts_ns, sealed, esnp is null from messages where protocol = 'esnp'")
        assert sorted(found.fetchall()) == [(5 * SECOND, None, False), (6 * SECOND, None, True)]
        assert [each[0] for each in db.sql("describe messages").fetchall()] == (
            schema("messages").names
        )
    read = table(lake, "messages")
    assert read.schema == schema("messages")
    assert read.column("ts_ns").to_pylist() == [SECOND, 2 * SECOND, 5 * SECOND, 6 * SECOND]
    assert [each is None for each in read.column("esnp").to_pylist()] == [True, True, False, True]


def test_fields_that_are_not_there_are_null() -> None:
    inner = pa.struct([("a", pa.int64())])
    old = pa.schema([("s", inner), ("l", pa.list_(pa.field("item", inner))), ("n", pa.int32())])
    rows = [
        {"s": {"a": 1}, "l": [{"a": 2}, None, {"a": 3}], "n": 1},
        {"s": None, "l": None, "n": 2},
        {"s": {"a": None}, "l": [], "n": 3},
    ]
    wide = pa.struct([("b", pa.string()), ("a", pa.int64())])
    new = pa.schema(
        [
            ("x", pa.string()),
            ("l", pa.list_(pa.field("item", wide))),
            ("s", wide),
            ("n", pa.int64()),
        ]
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=old)
    two, three = {"b": None, "a": 2}, {"b": None, "a": 3}
    wanted = [
        {"x": None, "l": [two, None, three], "s": {"b": None, "a": 1}},
        {"x": None, "l": None, "s": None},
        {"x": None, "l": [], "s": {"b": None, "a": None}},
    ]
    for at in range(3):  # slices have offsets of their own
        found = conform(batch.slice(at), new)
        assert found.schema == new
        assert found.drop_columns("n").to_pylist() == wanted[at:]
        assert found.column("n").to_pylist() == [1, 2, 3][at:]


def test_columns_are_chosen(lake: Path) -> None:
    (found,) = batches(lake, "calls", columns=["latency_ns", "connection"])
    assert found.schema.names == ["latency_ns", "connection"]
    assert found.column("connection").to_pylist() == [0, 1, 2, 3]
    with pytest.raises(
        LakeError, match="unknown column 'nope' of calls; expected one of connection, "
    ):
        table(lake, "calls", columns=["nope"])
    with pytest.raises(LakeError, match="unknown table '_fold'; expected one of messages, "):
        table(lake, "_fold")


def test_files_that_are_still_in_staging_are_read(lake: Path) -> None:
    class Killed(BaseException):
        pass

    def on_step(name: str) -> None:
        if name == "forward:calls":
            raise Killed

    with Writer(lake) as writer:
        step = writer.begin()
        add_rows(step, "calls", [call(77)])
        with pytest.raises(Killed):
            step.commit("advance", on_step=on_step)
    assert not (lake / "calls/3").exists()
    with open_lake(lake) as db:
        assert db.sql("select max(connection) from calls").fetchall() == [(77,)]
    assert table(lake, "calls").num_rows == 5


def test_a_file_that_is_gone(lake: Path) -> None:
    (lake / Log(lake).snapshot().files("calls")[0].path).unlink()
    with pytest.raises(LakeError, match="missing; the log lists this file"):
        table(lake, "calls")


def test_the_content_of_the_log(lake: Path) -> None:
    with open_lake(lake) as db:
        tables = db.sql('select "table", files, rows, min_ns, max_ns from lake_tables').fetchall()
        assert tables == [
            ("calls", 1, 4, 0, 3 * SECOND + 5_000_000),
            ("messages", 2, 2, SECOND, 2 * SECOND),
        ]
        assert db.sql("select protocol from lake_files order by 1").fetchall() == [
            ("comet",), ("tny",), (None,),
        ]  # fmt: skip
        found = db.sql("select source, sequence, fault from lake_inputs order by all").fetchall()
        assert found == [("edge", 0, None), ("edge", 1, None), ("late", 0, "late_file")]


def test_helpers(lake: Path) -> None:
    with open_lake(lake) as db:
        shown = db.sql("select ns(1700000000123456789)::varchar, ms(1500000), masked('hunter2')")
        assert shown.fetchall() == [("2023-11-14 22:13:20.123456789", 1.5, "*** (7)")]
        assert db.sql("select ns(null), ms(null), masked(null), var_text(null)").fetchall() == [
            (None, None, None, None)
        ]


def test_nothing_is_loaded_by_itself(lake: Path) -> None:
    with open_lake(lake) as db:
        settings = db.sql(
            "select name, value from duckdb_settings() where name like 'auto%_known_extensions'"
        )
        assert dict(settings.fetchall()) == {
            "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
        }  # fmt: skip


# -- values that say their own type ------------------------------------------------------------


def nodes(value: Var) -> list[dict[str, Any]]:
    """The rows of a value, as a table has them."""
    (kind,) = dynamics(registry.find("esnp").layouts(None))
    return to_var_rows(kind, value)


def var(kind: VarType, value: object = None) -> Var:
    return Var(type=int(kind), value=value)


TREE = var(
    VarType.MAP,
    (
        ("name", var(VarType.LEN_STRING, 'a "b"\n')),
        (
            "list",
            var(VarType.LIST, (var(VarType.INT32, -3), var(VarType.LIST, ()), var(VarType.NULL))),
        ),
        ("flag", var(VarType.BOOL, True)),
        ("wide", var(VarType.UINT64, (1 << 64) - 1)),
        ("half", var(VarType.FLOAT64, 0.5)),
        ("nan", var(VarType.FLOAT64, float("nan"))),
        ("text", var(VarType.LEN_BYTES, b"hi")),
        ("raw", var(VarType.LEN_BYTES, b"\x00\xff")),
        ("map", var(VarType.MAP, (("k", var(VarType.INT8, 1)), ("k", var(VarType.INT8, 2))))),
    ),
)
TEXT = (
    '{"name": "a \\"b\\"\\n", "list": [-3, [], null], "flag": true, "wide": 18446744073709551615,'
    ' "half": 0.5, "nan": {"float": "nan"}, "text": "hi", "raw": {"hex": "00ff"},'
    ' "map": {"k": 1, "k": 2}}'
)


def test_a_value_as_text() -> None:
    assert var_text(nodes(TREE)) == TEXT
    assert var_text(nodes(var(VarType.INT, 7))) == "7"
    assert var_text([]) == "null"


def test_a_value_as_text_in_a_query(lake: Path, tmp_path: Path) -> None:
    node = pa.struct(
        [
            ("parent", pa.int32()), ("name", pa.string()), ("type", pa.int16()),
            ("int", pa.int64()), ("float", pa.float64()), ("text", pa.string()),
            ("bytes", pa.binary()),
        ]
    )  # fmt: skip
    values = pa.array([nodes(TREE), None, nodes(var(VarType.BOOL, False))], pa.list_(node))
    pq.write_table(pa.table({"v": values}), tmp_path / "vars.parquet")
    with open_lake(lake) as db:
        found = db.sql(f"select var_text(v) from '{tmp_path}/vars.parquet'").fetchall()
    assert found == [(TEXT,), (None,), ("false",)]


def test_values_that_contradict_themselves_raise_nothing() -> None:
    empty = {"name": None, "int": None, "float": None, "text": None, "bytes": None}
    assert var_text([{"parent": 5, "type": 99, **empty}]) == "null"
    assert var_text([{"parent": None, "type": None, **empty}, {"parent": 7, "type": 1, **empty}])

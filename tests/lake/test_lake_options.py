"""Options of the data source: what each means, and that nothing wrong is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.columnar.read.reader import (
    TABLES,
    ReadOptions,
    table_schema,
)
from wirelake.lake.datasource.options import (
    FILES,
    OPTIONS,
    OptionError,
    Pace,
    Request,
    parse,
)
from wirelake.protocols import registry

KNOWN = {*map(str.lower, OPTIONS), "paths"}


def refused(**options: str) -> str:
    with pytest.raises(OptionError) as found:
        parse(options)
    return str(found.value)


def test_without_options_it_is_messages() -> None:
    assert parse({}) == Request((), ReadOptions())


def test_every_option_arrives(tmp_path: Path) -> None:
    keys = tmp_path / "edge.keys"
    keys.write_text("")
    found = parse(
        {
            "path": "captures",
            "table": "messages",
            "protocol": "comet",
            "speaks": "tny",
            "ports": "9620=comet, 80 = tny",
            "dialects": "tny=upstream",
            "keys": str(keys),
            "columns": "ts_ns,comet.auth.client_id",
            "filter": "ts_ns > 5",
            "reveal": "TRUE",
            "partitions": "7",
            "pushdown": "true",
            "payload": "hash",
            "mode": "FAILFAST",
            "maxFilesPerTrigger": "5",
            "maxBytesPerTrigger": "2MB",
            "settle": "1.5",
            "lateness": "2m",
            "after": '{"tap": 7, "edge": [9, [3, 4]]}',
        }
    )
    assert found.paths == ("captures",)
    assert (found.partitions, found.pushdown) == (7, True)
    assert (found.hashed, found.failfast, found.files) == (True, True, False)
    assert found.pace == Pace(5, 2_000_000, 1.5, 120.0, {"tap": 7, "edge": [9, [3, 4]]})
    assert found.read == ReadOptions(
        table="messages",
        protocol="comet",
        speaks="tny",
        ports={9620: "comet", 80: "tny"},
        dialects={"tny": "upstream"},
        keys=(str(keys),),
        columns=("ts_ns", "comet.auth.client_id"),
        filter="ts_ns > 5",
        reveal=True,
    )


def test_names_have_no_case() -> None:
    assert parse({"TABLE": "calls"}).read.table == "calls"


def test_several_paths_as_spark_hands_them_over() -> None:
    assert parse({"paths": '["a", "b,c"]'}).paths == ("a", "b,c")


def test_payload_none_leaves_the_bytes_out() -> None:
    assert "body" not in table_schema(parse({"payload": "none"}).read).names
    assert "bytes" not in table_schema(parse({"payload": "none", "table": "faults"}).read).names
    assert parse({"payload": "none", "table": "calls"}).read.columns is None
    assert parse({"payload": "hash"}).read.columns is None


def test_the_table_of_files_has_few_options() -> None:
    found = parse({"table": "files", "path": "captures"})
    assert found == Request(("captures",), ReadOptions(), files=True)
    for option, value in (("columns", "path"), ("filter", "bytes > 5"), ("protocol", "comet")):
        said = refused(**{"table": "files", option: value})
        assert said == f"{option}: not for the table files; use select and where"


def test_key_logs_are_found_by_glob_and_named_absolutely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.keys", "a.keys"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    wanted = (str(tmp_path / "a.keys"), str(tmp_path / "b.keys"))
    assert parse({"keys": "*.keys"}).read.keys == wanted


@given(st.text(min_size=1).filter(lambda name: name.lower() not in KNOWN))
def test_an_unknown_option_is_refused(name: str) -> None:
    said = refused(**{name: "x"})
    assert all(known in said for known in OPTIONS)


@pytest.mark.parametrize("option", ["table", "protocol", "speaks"])
def test_an_unknown_name_is_refused_with_the_known_ones(option: str) -> None:
    said = refused(**{option: "nothing"})
    known = (*TABLES, FILES) if option == "table" else registry.names()
    assert said == f"{option}: there is no 'nothing'; there are {', '.join(known)}"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("ports", "comet", "ports: wanted something like 9620=comet,7300=tny, not 'comet'"),
        ("ports", "0=comet", "ports: '0' is no port; wanted 1 to 65535"),
        ("ports", "70000=comet", "ports: '70000' is no port; wanted 1 to 65535"),
        ("ports", "80=nothing", "ports: there is no 'nothing'; there are esnp"),
        ("dialects", "tny=nothing", "dialects: tny: there is no 'nothing'; there are seed"),
        ("keys", "nowhere.keys", "keys: there is no file nowhere.keys"),
        ("columns", "ts_ns,nothing", "columns: no column 'nothing'; there are ts_ns"),
        ("columns", "comet.nothing", "columns: no column 'nothing' in comet; there are"),
        ("filter", "nothing > 5", "filter: no column is called 'nothing'"),
        ("payload", "some", "payload: there is no 'some'; there are full, hash, none"),
        ("mode", "drop", "mode: there is no 'drop'; there are permissive, failfast"),
        ("maxFilesPerTrigger", "0", "maxFilesPerTrigger: wanted a number such as 100, not '0'"),
        ("maxFilesPerTrigger", "5s", "maxFilesPerTrigger: wanted a number such as 100, not '5s'"),
        ("maxBytesPerTrigger", "1 GB", "maxBytesPerTrigger: wanted a number such as 200MB, not"),
        ("maxBytesPerTrigger", "1XB", "maxBytesPerTrigger: wanted a number such as 200MB, not"),
        ("settle", "-1", "settle: wanted seconds, or a time such as 10m, not '-1'"),
        ("settle", "soon", "settle: wanted seconds, or a time such as 10m, not 'soon'"),
        ("lateness", "1MB", "lateness: wanted seconds, or a time such as 10m, not '1MB'"),
        ("after", "7", 'after: wanted sequences by source, as {"tap-a": 7}, not'),
        ("after", '{"tap": "x"}', 'after: wanted sequences by source, as {"tap-a": 7}, not'),
        ("reveal", "yes", "reveal: wanted true or false, not 'yes'"),
        ("pushdown", "1", "pushdown: wanted true or false, not '1'"),
        ("partitions", "0", "partitions: wanted a number from 1 to 10000, not '0'"),
        ("partitions", "many", "partitions: wanted a number from 1 to 10000, not 'many'"),
    ],
)
def test_a_bad_value_is_refused(option: str, value: str, said: str) -> None:
    assert refused(**{option: value}).startswith(said)


def test_columns_and_payload_may_not_contradict() -> None:
    assert "payload=none" in refused(payload="none", columns="ts_ns,body")

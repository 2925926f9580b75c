"""Options of the data source: their meaning, and errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.columnar.read.reader import TABLES, ReadOptions, table_schema
from wirelake.lake.datasource.options import (
    FILES,
    OPTIONS,
    AdmissionSettings,
    OptionError,
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
            "force_protocol": "tny",
            "ports": "9620=comet, 80 = tny",
            "dialects": "tny=upstream",
            "keys": str(keys),
            "columns": "ts_ns,comet.auth.client_id",
            "filter": "ts_ns > 5",
            "reveal": "TRUE",
            "include_open": "True",
            "partitions": "7",
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
    assert found.partitions == 7
    assert found.include_open
    assert (found.hashed, found.failfast, found.files) == (True, True, False)
    assert found.admission == AdmissionSettings(
        5, 2_000_000, 1.5, 120.0, {"tap": 7, "edge": [9, [3, 4]]}
    )
    assert found.read == ReadOptions(
        table="messages",
        protocol="comet",
        force_protocol="tny",
        ports={9620: "comet", 80: "tny"},
        dialects={"tny": "upstream"},
        keys=(str(keys),),
        columns=("ts_ns", "comet.auth.client_id"),
        filter="ts_ns > 5",
        reveal=True,
    )


def test_names_have_no_case() -> None:
    assert parse({"TABLE": "calls"}).read.table == "calls"


def test_several_paths_as_spark_passes_them() -> None:
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
        assert said == f"option {option!r} does not apply to table files; use select and where"


def test_key_logs_are_found_by_glob_and_named_absolutely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.keys", "a.keys"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    wanted = (str(tmp_path / "a.keys"), str(tmp_path / "b.keys"))
    assert parse({"keys": "*.keys"}).read.keys == wanted


def test_the_old_name_of_force_protocol_is_unknown() -> None:
    assert refused(speaks="tny").startswith("unknown option 'speaks'; expected one of path, table")


@given(st.text(min_size=1).filter(lambda name: name.lower() not in KNOWN))
def test_an_unknown_option_is_refused(name: str) -> None:
    said = refused(**{name: "x"})
    assert all(known in said for known in OPTIONS)


@pytest.mark.parametrize("option", ["table", "protocol", "force_protocol"])
def test_an_unknown_name_is_refused_with_the_known_ones(option: str) -> None:
    said = refused(**{option: "nothing"})
    known = (*TABLES, FILES) if option == "table" else registry.names()
    assert said == f"unknown {option} 'nothing'; expected one of {', '.join(known)}"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("ports", "comet", "invalid ports 'comet'; expected a list such as 9620=comet,7300=tny"),
        ("ports", "0=comet", "invalid port '0'; expected 1-65535"),
        ("ports", "70000=comet", "invalid port '70000'; expected 1-65535"),
        ("ports", "80=nothing", "unknown protocol 'nothing'; expected one of esnp"),
        ("dialects", "nothing=seed", "unknown protocol 'nothing'; expected one of esnp"),
        ("dialects", "tny=nothing", "unknown dialect 'nothing' of tny; expected one of seed"),
        ("keys", "nowhere.keys", "keys: no such file: nowhere.keys"),
        ("columns", "ts_ns,nothing", "columns: "),
        ("columns", "comet.nothing", "columns: "),
        ("filter", "nothing > 5", "filter: "),
        ("payload", "some", "unknown payload 'some'; expected one of full, hash, none"),
        ("mode", "drop", "unknown mode 'drop'; expected one of permissive, failfast"),
        (
            "maxFilesPerTrigger",
            "0",
            "invalid maxFilesPerTrigger '0'; expected a number such as 100",
        ),
        ("maxFilesPerTrigger", "5s", "invalid maxFilesPerTrigger '5s'; expected a number"),
        ("maxBytesPerTrigger", "1 GB", "invalid maxBytesPerTrigger '1 GB'; expected a number"),
        ("maxBytesPerTrigger", "1XB", "invalid maxBytesPerTrigger '1XB'; expected a number"),
        ("settle", "-1", "invalid settle '-1'; expected seconds or a duration such as 10m"),
        ("settle", "soon", "invalid settle 'soon'; expected seconds or a duration such as 10m"),
        ("lateness", "1MB", "invalid lateness '1MB'; expected seconds or a duration such as 10m"),
        ("after", "7", "invalid after '7'; expected sequences by source such as "),
        ("after", '{"tap": "x"}', "invalid after "),
        ("reveal", "yes", "invalid reveal 'yes'; expected true or false"),
        ("pushdown", "true", "unsupported option 'pushdown': Spark applies a filter"),
        ("partitions", "0", "invalid partitions '0'; expected 1-10000"),
        ("partitions", "many", "invalid partitions 'many'; expected 1-10000"),
    ],
)
def test_a_bad_value_is_refused(option: str, value: str, said: str) -> None:
    assert refused(**{option: value}).startswith(said)


def test_columns_and_payload_may_not_contradict() -> None:
    assert "payload=none" in refused(payload="none", columns="ts_ns,body")

"""`wirelake lake sql`: every form, what SQL has and JSON has not, and what can go wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.simulated_lake import captures, lake

from wirelake.tables.query import open_lake
from wirelake.tables.writer import Writer

from .conftest import Run
from .test_read_terminal import ESCAPES, on_terminal

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]

CALLS = "select protocol, count(*) as calls from calls group by protocol order by protocol"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A lake that has nothing in it."""
    with Writer(tmp_path / "empty", create={}):
        return tmp_path / "empty"


def counts(lake: Path) -> list[tuple[str, int]]:
    with open_lake(lake) as db:
        return db.sql(CALLS).fetchall()


def values(run: Run, lake: Path, query: str) -> list[dict[str, Any]]:
    found = run("lake", "sql", str(lake), query)
    assert (found.code, found.err) == (0, "")
    return [json.loads(line) for line in found.lines]


# -- forms -----------------------------------------------------------------------------------


def test_a_pipe_gets_json(run: Run, lake: Path) -> None:
    found = values(run, lake, CALLS)
    assert found == [{"protocol": name, "calls": count} for name, count in counts(lake)]
    assert found == [
        json.loads(line) for line in run("lake", "sql", str(lake), CALLS, "--json").lines
    ]


def test_csv(run: Run, lake: Path) -> None:
    found = run("lake", "sql", str(lake), CALLS, "--format", "csv")
    header, *rows = csv.reader(io.StringIO(found.out))
    assert header == ["protocol", "calls"]
    assert rows == [[name, str(count)] for name, count in counts(lake)]


def test_files_by_their_names(run: Run, lake: Path, tmp_path: Path) -> None:
    for name in ("out.parquet", "out.arrow", "out.csv", "out.jsonl", "out.txt"):
        path = tmp_path / name
        found = run("lake", "sql", str(lake), CALLS, "--out", str(path))
        assert (found.code, found.out) == (0, "")
        assert f"{len(counts(lake))} rows" in found.err
    assert pq.read_table(tmp_path / "out.parquet")["calls"].to_pylist() == [
        count for _, count in counts(lake)
    ]
    with pa.ipc.open_file(tmp_path / "out.arrow") as file:
        assert file.read_all()["protocol"].to_pylist() == [name for name, _ in counts(lake)]
    assert (tmp_path / "out.txt").read_text().splitlines()[0].split() == ["protocol", "calls"]


def test_a_whole_table_as_parquet(run: Run, lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "messages.parquet"
    assert run("lake", "sql", str(lake), "from messages", "-o", str(path)).code == 0
    with open_lake(lake) as db:
        (count,) = db.sql("select count(*) from messages").fetchall()[0]
        (same,) = db.sql(
            f"select count(*) from (from messages intersect all by name from '{path}')"
            .replace(" by name", "")
        ).fetchall()[0]  # fmt: skip
    assert count == same > 0


def test_a_table_shows_the_first_rows(run: Run, lake: Path) -> None:
    found = run("lake", "sql", str(lake), "from range(200)", "--format", "table")
    assert found.lines[0] == "range"
    assert [line.strip() for line in found.lines[2:]] == [str(each) for each in range(50)]
    assert found.err == "50 of 200 rows; --limit 0 shows all\n"
    found = run("lake", "sql", str(lake), "from range(200)", "--format", "table", "--limit", "0")
    assert len(found.lines) == 202
    assert found.err == "200 rows\n"


def test_a_limit(run: Run, lake: Path) -> None:
    query = "select range from range(100000)"
    assert len(run("lake", "sql", str(lake), query, "--limit", "3").lines) == 3
    assert len(run("lake", "sql", str(lake), query, "--limit", "0").lines) == 100_000


def test_the_query_comes_from_standard_input(run: Run, lake: Path) -> None:
    found = run("lake", "sql", str(lake), "-", stdin=b"select 42 as answer")
    assert found.lines == ['{"answer":42}']


def test_as_the_lake_was(run: Run, lake: Path) -> None:
    query = "select count(*) as n from calls"
    assert run("lake", "sql", str(lake), query, "--commit", "0").lines == ['{"n":0}']
    now = sum(count for _, count in counts(lake))
    assert run("lake", "sql", str(lake), query, "--commit", "1").lines == [f'{{"n":{now}}}']


# -- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("sum(i) from (select 5 as i)", 5),
        ("170141183460469231731687303715884105727::hugeint", 1.7014118346046923e38),
        ("1.25::decimal(5, 2)", 1.25),
        ("ns(1767621600000000001)", "2026-01-05 14:00:00.000000001"),
        ("date '2024-02-29'", "2024-02-29"),
        ("time '10:30'", "10:30:00.000000"),
        ("interval '14 months 3 days 1.5 seconds'", "14 months 3 days 1.5 seconds"),
        ("interval 0 day", "0 seconds"),
        ("'b'::enum('a', 'b')", "b"),
        ("[date '2024-01-01', null]", ["2024-01-01", None]),
        ("[[1.5::decimal(3, 1)], null, []]", [[1.5], None, []]),
        ("{'t': ns(1), 'n': 2}", {"t": "1970-01-01 00:00:00.000000001", "n": 2}),
        ("'\\x00\\xff'::blob", {"hex": "00ff"}),
        ("'nan'::double", {"float": "nan"}),
        ("null", None),
        ("ms(1500000)", 1.5),
        ("masked('secret')", "*** (6)"),
    ],
)
def test_what_sql_has_and_json_has_not(run: Run, lake: Path, sql: str, value: Any) -> None:
    column, _, rest = sql.partition(" from (")
    query = f"select {column} as v" + (f" from ({rest}" if rest else "")
    assert values(run, lake, query) == [{"v": value}]


def test_columns_of_the_same_name(run: Run, lake: Path) -> None:
    (found,) = values(run, lake, "select 1 as a, 2 as a, 3 as a")
    assert list(found.values()) == [1, 2, 3]


def test_times_and_durations_in_a_table(run: Run, lake: Path) -> None:
    query = (
        "select 1767621600000000000 as ts_ns, 1767621600000000000 as worst_ns, 1500000 as p99_ns,"
        " 2500000.4 as mean_ns, null as client, 'a' || chr(27) as name, 123456789 as id"
    )
    found = run("lake", "sql", str(lake), query, "--format", "table")
    time = "2026-01-05 14:00:00.000000"
    wanted = [time, time, "1.5 ms", "2.5 ms", "null", "a\\x1b", "123456789"]
    assert " ".join(found.lines[2].split()) == " ".join(wanted)


def test_lake_inputs_lists_the_captures(run: Run, lake: Path, captures: Path) -> None:
    found = values(run, lake, "select path from lake_inputs order by path")
    assert [Path(each["path"]).name for each in found] == sorted(
        path.name for path in captures.glob("*.pcap*")
    )


# -- a terminal ------------------------------------------------------------------------------


def test_a_terminal_gets_what_fits(lake: Path) -> None:
    code, seen = on_terminal(70, "lake", "sql", str(lake), "from connections", "--limit", "3")
    lines = ESCAPES.sub("", seen).replace("\r", "").splitlines()
    assert code == 0
    assert lines[0].split()[:2] == ["connection", "protocol"]
    assert all(len(line) <= 70 for line in lines[:5])
    assert lines[5].startswith("3 of ")
    assert lines[6].startswith("hidden columns: ")
    assert "missing_bytes; --json shows all" in lines[6]


def test_bytes_are_not_for_a_terminal(lake: Path) -> None:
    code, seen = on_terminal(70, "lake", "sql", str(lake), CALLS, "--format", "parquet")
    assert code == 2
    assert "parquet cannot be written to a terminal: add --out FILE" in " ".join(seen.split())


# -- what can go wrong -----------------------------------------------------------------------


def test_an_error_shows_where(run: Run, lake: Path) -> None:
    found = run("lake", "sql", str(lake), "selec 1")
    assert (found.code, found.out) == (2, "")
    first, line, caret = found.err.splitlines()
    assert first.startswith("wirelake: Parser Error: ")
    assert line == "LINE 1: selec 1"
    assert caret.strip() == "^" * len(caret.strip())


@pytest.mark.parametrize(
    ("query", "said", "code"),
    [
        ("select nope from calls", "nope", 2),
        ("from no_such_table", "no_such_table", 2),
        ("select error('bo' || chr(27) || 'om')", "bo?om", 1),  # the query is right
        (" ", "empty query", 2),
        ("/* nothing */", "empty query", 2),
    ],
)
def test_bad_queries(run: Run, lake: Path, query: str, said: str, code: int) -> None:
    found = run("lake", "sql", str(lake), query)
    assert (found.code, found.out) == (code, "")
    assert found.err.startswith("wirelake: ")
    assert said in found.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "rows.xls"], "rows.xls: cannot infer the format"),
        (["--json", "--format", "csv"], "--json conflicts with --format csv"),
        (["--out", "no/such/folder/x.csv"], "no/such/folder: no such folder"),
        (["--commit", "99"], "99"),
    ],
)
def test_bad_usage(run: Run, lake: Path, arguments: list[str], said: str) -> None:
    found = run("lake", "sql", str(lake), "select 1", *arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1


def test_a_type_that_parquet_has_not(run: Run, lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    found = run("lake", "sql", str(lake), "select interval 1 day", "--out", str(path))
    assert (found.code, path.exists()) == (2, False)
    assert "parquet does not support a type of the result" in found.err


def test_an_empty_lake_has_all_tables(run: Run, empty: Path) -> None:
    assert values(run, empty, "from calls") == []
    assert values(run, empty, "select count(*) as n from traffic_minutes") == [{"n": 0}]
    found = run("lake", "sql", str(empty), "from messages", "--format", "table")
    assert found.err == "0 rows\n"


def test_a_secret_stays_masked(run: Run, lake: Path) -> None:
    query = "select comet.auth.token as token from messages where comet.auth is not null"
    shown = [row["token"] for row in values(run, lake, query)]
    assert shown
    assert not any(shown)

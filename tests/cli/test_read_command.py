"""`wirelake read`: every table in every form, what is chosen of it, and what can go wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from wirelake.cli.output.rows import ORDERS
from wirelake.cli.read import options as read_options
from wirelake.columnar.read.reader import TABLES, ReadOptions, table_schema
from wirelake.records.exact_json import ID_NAMES, exact

from .conftest import SOURCES, Run
from .simulated import captures_of, rows, traffic

pytestmark = pytest.mark.slow

__all__ = ["traffic"]


def key(row: dict[str, Any]) -> str:
    """For comparing rows without regard to their order."""
    return json.dumps(row, sort_keys=True, default=str)


def read_json(run: Run, *args: str) -> list[dict[str, Any]]:
    found = run("read", *args, "--json")
    assert found.code == 0
    return [json.loads(line) for line in found.lines]


def start(*args: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "wirelake.cli", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
        **more,
    )


# -- forms -----------------------------------------------------------------------------------


def test_the_tables_are_those_that_can_be_read() -> None:
    assert set(read_options.TABLES) == set(TABLES)


@pytest.mark.parametrize("table", read_options.TABLES)
def test_every_table_as_json(run: Run, traffic: Path, table: str) -> None:
    fields = table_schema(ReadOptions(table=table))  # a struct for each installed protocol
    plain = [each.name for each in fields if not pa.types.is_struct(each.type)]
    plain = [name for name in plain if name not in ("body", "bytes")]
    columns = ",".join(plain)
    found = read_json(run, str(traffic), "--table", table, "--columns", columns)
    assert found
    wanted = [exact(row) for row in rows(traffic, table=table, columns=plain)]
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    ids = ID_NAMES.intersection(plain)
    assert all(isinstance(row[name], str | None) for row in found for name in ids)


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("table", read_options.TABLES)
def test_every_table_is_in_order_of_time(run: Run, traffic: Path, table: str, form: str) -> None:
    """Over all files, and whatever is decoded late because of a gap."""
    column = ORDERS[table].column
    times = numbers(run, traffic, column, form, "--table", table)
    known = [each for each in times if each is not None]
    assert len(known) > 3
    assert times == sorted(known) + [None] * (len(times) - len(known))


def numbers(
    run: Run, traffic: Path, column: str, form: str, *more: str, shown: bool = True
) -> list[int | None]:
    """A column of the rows that are printed, in their order."""
    columns = ["--columns", column] if shown else []
    found = run("read", str(traffic), "--to", form, *columns, *more)
    assert found.code == 0
    given = csv.DictReader(found.lines) if form == "csv" else map(json.loads, found.lines)
    return [None if row[column] in ("", None) else int(row[column]) for row in given]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_are_sorted_by_any_column(run: Run, traffic: Path, form: str) -> None:
    wanted = numbers(run, traffic, "latency_ns", form, "--table", "calls")
    missing = [None] * wanted.count(None)
    known = sorted(each for each in wanted if each is not None)
    assert missing
    for more, order in (
        (["--sort", "latency_ns"], known + missing),
        (["--sort", "latency_ns:desc"], known[::-1] + missing),
        (["--sort", "latency_ns:desc", "--limit", "7"], known[::-1][:7]),
    ):
        assert numbers(run, traffic, "latency_ns", form, "--table", "calls", *more) == order
    # A column that is not shown orders the rows as well.
    both = read_json(run, str(traffic), "--table", "calls", "--sort", "latency_ns:desc")
    one = read_json(
        run, str(traffic), "--table", "calls", "--sort", "latency_ns:desc", "--columns", "target"
    )
    assert one == [{"target": row["target"]} for row in both]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_are_sorted_on_request(run: Run, traffic: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"calls.{form}"
    more = ["--table", "calls", "-o", str(out), "--columns", "connection,target"]
    assert run("read", str(traffic), *more, "--sort", "latency_ns:desc").code == 0
    found = pq.read_table(out) if form == "parquet" else pa.ipc.open_file(out).read_all()
    wanted = read_json(run, str(traffic), "--table", "calls", "--sort", "latency_ns:desc")
    assert found.column_names == ["connection", "target"]
    assert found.to_pylist() == [
        {"connection": int(row["connection"]), "target": row["target"]} for row in wanted
    ]


def test_a_table_is_sorted(run: Run, traffic: Path) -> None:
    more = ("--table", "calls", "--columns", "target,latency_ns", "--sort", "target:desc")
    wanted = [row["target"] for row in read_json(run, str(traffic), *more, "--limit", "9")]
    found = run("read", str(traffic), "--to", "table", *more, "--limit", "9")
    assert [line.split()[0] for line in found.lines[1:]] == wanted
    assert "by target; --limit 0 shows all" in found.err


def test_a_field_of_a_struct_sorts(run: Run, traffic: Path) -> None:
    more = ("--protocol", "comet", "--filter", 'name == "auth" and kind == "request"')
    found = read_json(run, str(traffic), *more, "--sort", "comet.auth.client_id:desc")
    ids = [row["comet"]["auth"]["client_id"] for row in found]
    assert ids == sorted(ids, reverse=True)
    assert len({*ids}) > 3


def test_rows_can_come_as_they_are_decoded(run: Run, traffic: Path) -> None:
    def names(*more: str) -> list[str]:
        return [row["name"] for row in read_json(run, str(traffic), *more)]

    assert sorted(names("--sort", "none")) == sorted(names())
    assert names("--sort", "none", "--limit", "5") == names("--sort", "none")[:5]


def test_a_pipe_gets_json(run: Run, traffic: Path) -> None:
    found = run("read", str(traffic), "--table", "connections")
    assert found.lines == run("read", str(traffic), "--table", "connections", "--to", "json").lines
    assert int(json.loads(found.lines[0])["connection"]) > 0


def test_messages_of_all_protocols_come_as_they_were_captured(run: Run, traffic: Path) -> None:
    found = read_json(run, captures_of(traffic)[0])
    times: dict[tuple[int, str], int] = {}
    for row in found:
        stream = (row["connection"], row["direction"])
        assert times.get(stream, 0) <= row["ts_ns"]
        times[stream] = row["ts_ns"]
    changes = sum(one["protocol"] != other["protocol"] for one, other in pairwise(found))
    assert changes > 8


def test_the_order_needs_no_column(run: Run, traffic: Path) -> None:
    one = captures_of(traffic)[0]
    names = [row["name"] for row in read_json(run, one)]
    found = read_json(run, one, "--columns", "name")
    assert found == [{"name": name} for name in names]


def test_a_struct_holds_what_is_there(run: Run, traffic: Path) -> None:
    found = read_json(run, str(traffic), "--filter", 'protocol == "comet" and name == "subscribe"')
    assert found
    for row in found:
        assert row["comet"].keys() == {"subscribe"}
        assert row["comet"]["subscribe"]["topics"]
        assert not {"esnp", "tny", "relay", "magline"} & row.keys()
        assert row["reply_to"] is None


def test_csv(run: Run, traffic: Path) -> None:
    found = run("read", str(traffic), "--to", "csv")
    assert found.code == 0
    table = list(csv.DictReader(io.StringIO(found.out)))
    plain = read_json(run, str(traffic))
    assert len(table) == len(plain)
    for cells, row in zip(table, plain, strict=True):
        assert cells["ts_ns"] == str(row["ts_ns"])
        assert cells["status"] == (row["status"] or "")
        assert cells["sealed"] == json.dumps(row["sealed"])
        struct = cells[row["protocol"]]
        assert json.loads(struct) == row[row["protocol"]]
        body = row["body"]
        assert cells["body"] == ("" if body is None else body) or json.loads(cells["body"]) == body


@pytest.mark.parametrize("table", ["messages", "calls", "faults"])
def test_parquet(run: Run, traffic: Path, tmp_path: Path, table: str) -> None:
    out = tmp_path / "out.parquet"
    found = run("read", str(traffic), "--table", table, "-o", str(out))
    assert (found.code, found.out) == (0, "")
    written = pq.read_table(out)
    assert written.schema.equals(table_schema(ReadOptions(table=table)))
    assert written.to_pylist() == rows(traffic, table=table)
    assert f"{out}: {written.num_rows:,} rows\n" in found.err
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_parquet_of_one_protocol_has_its_struct_alone(
    run: Run, traffic: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.parquet"
    assert run("read", str(traffic), "--protocol", "tny", "-o", str(out)).code == 0
    written = pq.read_table(out)
    assert written.column("protocol").unique().to_pylist() == ["tny"]
    assert "tny" in written.column_names
    assert "comet" not in written.column_names


def test_row_groups_are_not_as_small_as_windows(
    run: Run, traffic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.parquet"
    assert run("read", str(traffic), "-o", str(out)).code == 0
    assert pq.ParquetFile(out).num_row_groups == 1
    monkeypatch.setattr("wirelake.tables.parquet._ROW_GROUP", 200)
    assert run("read", str(traffic), "-o", str(out)).code == 0
    assert pq.ParquetFile(out).num_row_groups > 3


def test_arrow_to_a_file_can_be_opened_anywhere(run: Run, traffic: Path, tmp_path: Path) -> None:
    out = tmp_path / "calls.arrow"
    assert run("read", str(traffic), "--table", "calls", "-o", str(out)).code == 0
    with pa.ipc.open_file(str(out)) as opened:
        assert opened.read_all().to_pylist() == rows(traffic, table="calls")


def test_parquet_to_a_pipe(traffic: Path) -> None:
    for jobs in ("1", "2"):
        file = captures_of(traffic)[-1]
        process = start("read", file, "--to", "parquet", "--jobs", jobs)
        out, err = process.communicate()
        assert (process.returncode, b"closed file" in err) == (0, False)
        assert pq.read_table(io.BytesIO(out)).num_rows > 0


def test_arrow_to_a_pipe(traffic: Path) -> None:
    with start("read", str(traffic), "--table", "calls", "--to", "arrow") as process:
        assert process.stdout is not None
        found = pa.ipc.open_stream(process.stdout).read_all()
    assert found.to_pylist() == rows(traffic, table="calls")


def test_a_table_for_people(run: Run, traffic: Path) -> None:
    found = run("read", str(traffic), "--table", "calls", "--to", "table", "--limit", "3")
    assert found.code == 0
    assert found.lines[0].split() == [
        "request_ns", "connection", "protocol", "target", "outcome", "status", "latency_ns",
        "client", "cause",
    ]  # fmt: skip
    assert len(found.lines) == 4
    calls = rows(traffic, table="calls")
    first = min(calls, key=lambda row: row["request_ns"] or 1 << 63)  # type: ignore[operator,return-value]
    assert str(first["connection"]) in found.lines[1]
    assert f"first 3 of {len(calls):,} rows by request_ns; --limit 0 shows all" in found.err


def test_a_table_of_all_rows(run: Run, traffic: Path) -> None:
    for limit in ("0", "100000"):
        found = run("read", str(traffic), "--to", "table", "--limit", limit, "--table", "calls")
        count = len(rows(traffic, table="calls"))
        assert len(found.lines) == count + 1
        assert f"{count:,} rows\n" in found.err


def test_a_table_without_rows(run: Run, traffic: Path) -> None:
    found = run("read", str(traffic), "--to", "table", "--filter", "size_bytes < 0")
    assert found.code == 0
    assert "0 rows" in found.err


# -- choices ---------------------------------------------------------------------------------


def test_columns_and_paths_into_structs(run: Run, traffic: Path) -> None:
    columns = "comet.auth.client_id,client"
    found = read_json(run, str(traffic), "--columns", columns, "--filter", 'name == "auth"')
    assert found
    assert all(row["comet.auth.client_id"] == row["client"] for row in found)
    assert found[0].keys() == {"comet.auth.client_id", "client"}


def test_filters(run: Run, traffic: Path) -> None:
    found = read_json(run, str(traffic), "--table", "calls", "--filter", "latency_ns > 50ms")
    wanted = [row for row in rows(traffic, table="calls") if (row["latency_ns"] or 0) > 50_000_000]  # type: ignore[operator]
    assert sorted(map(key, found)) == sorted(key(exact(row)) for row in wanted)
    assert wanted


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_limits(run: Run, traffic: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    found = run("read", str(traffic), "--limit", "7", "--to", form, "-o", str(out))
    assert found.code == 0
    assert f"{out}: 7 rows\n" in found.err


@pytest.mark.parametrize("form", ["table", "json", "csv", "parquet", "arrow"])
def test_a_limit_of_any_size(run: Run, traffic: Path, tmp_path: Path, form: str) -> None:
    file = captures_of(traffic)[-1]
    for name, command in (("read", ("read", file)), ("sql", ("sql", file, "from messages"))):
        form_option = "--to" if name == "read" else "--format"
        outs = [tmp_path / f"{name}-{limit}" for limit in (0, 10**30)]
        for limit, out in zip((0, 10**30), outs, strict=True):
            assert run(*command, form_option, form, "-o", str(out), "--limit", str(limit)).code == 0
        assert outs[0].stat().st_size == outs[1].stat().st_size > 0


def test_a_fault_that_was_read_before_the_limit_is_noted(run: Run, traffic: Path) -> None:
    most = str(len(rows(traffic)) - 1)
    assert " so far (" in run("read", str(traffic), "--limit", most, "--sort", "none").err
    assert " so far (" not in run("read", str(traffic), "--limit", "7").err  # all rows are sorted
    assert " so far (" not in run("read", str(traffic)).err


def test_several_files_are_one_capture(run: Run, traffic: Path) -> None:
    files = captures_of(traffic)
    together = read_json(run, *files, "--table", "connections")
    assert together == read_json(run, str(traffic), "--table", "connections")
    apart = [len(read_json(run, file, "--table", "connections")) for file in files]
    assert len(together) < sum(apart)


def test_a_capture_with_several_names_is_read_once(run: Run, traffic: Path, tmp_path: Path) -> None:
    file = captures_of(traffic)[-1]
    wanted = run("read", file)
    link = tmp_path / "link.pcap"
    link.symlink_to(file)
    again = f"{traffic}/../{traffic.name}/{Path(file).name}"
    found = run("read", file, again, str(link))
    assert (found.code, found.out) == (0, wanted.out)


def test_keys_open_what_is_sealed(run: Run, traffic: Path) -> None:
    taps = [file for file in captures_of(traffic) if "tap" in file]
    sealed = [row["sealed"] for row in read_json(run, *taps)]
    assert any(sealed)
    [log] = traffic.glob("*.keys")
    opened = [row["sealed"] for row in read_json(run, *taps, "--keys", str(log))]
    assert len(opened) == len(sealed)
    assert sum(opened) < sum(sealed)


def test_secrets_are_masked_until_revealed(run: Run, traffic: Path) -> None:
    args = (str(traffic), "--filter", 'name == "auth"', "--columns", "comet.auth.token")
    assert not any(row["comet.auth.token"] for row in read_json(run, *args))
    assert any(row["comet.auth.token"] for row in read_json(run, *args, "--reveal"))


def test_ports_and_names_choose_protocols(run: Run, traffic: Path) -> None:
    args = (str(traffic), "--table", "coverage", "--columns", "protocol")

    def protocols(*more: str) -> set[str]:
        return {row["protocol"] for row in read_json(run, *args, *more)}

    assert protocols() == {"comet", "esnp", "tny", "relay", "magline"}
    assert protocols("--as", "comet") == {"comet"}
    assert "comet" not in protocols("--port", "9620=tny")
    assert "esnp" in protocols("--port", "9620=tny")


def test_dialects(run: Run, traffic: Path) -> None:
    args = (captures_of(traffic)[2], "--table", "faults", "--filter", 'protocol == "tny"')
    assert len(read_json(run, *args, "--dialect", "tny=upstream")) > len(read_json(run, *args))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_captures(run: Run, traffic: Path, tmp_path: Path, suffix: str) -> None:
    plain = Path(captures_of(traffic)[0])
    squeeze = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[suffix]
    packed = tmp_path / (plain.name + suffix)
    packed.write_bytes(squeeze(plain.read_bytes()))
    for found in (read_json(run, str(packed)), read_json(run, str(tmp_path))):
        assert [{**row, "file": ""} for row in found] == [
            {**row, "file": ""} for row in read_json(run, str(plain))
        ]


def test_what_is_not_sealed_is_left_out_of_a_folder(
    run: Run, traffic: Path, tmp_path: Path
) -> None:
    for at, name in enumerate(("a.pcapng", "b.pcapng.open", "c.txt")):
        (tmp_path / name).write_bytes(Path(captures_of(traffic)[at]).read_bytes())
    found = run("read", str(tmp_path))
    assert {json.loads(line)["file"] for line in found.lines} == {str(tmp_path / "a.pcapng")}
    size = (tmp_path / "b.pcapng.open").stat().st_size
    assert (
        f"skipping 1 unfinished recording in {tmp_path}, {size:,} bytes;"
        " add --include-open to read it\n"
    ) in found.err
    every = run("read", str(tmp_path), "--include-open")
    assert {json.loads(line)["file"] for line in every.lines} == {
        str(tmp_path / "a.pcapng"),
        str(tmp_path / "b.pcapng.open"),
    }
    assert "skipping" not in every.err
    # A repaired copy has everything: the recording is not read a second time.
    (tmp_path / "b.pcapng").write_bytes((tmp_path / "b.pcapng.open").read_bytes())
    repaired = run("read", str(tmp_path), "--include-open")
    assert len(repaired.lines) == len(every.lines)
    assert "skipping" not in run("read", str(tmp_path)).err
    named = run("read", str(tmp_path / "b.pcapng.open"))
    assert named.lines
    assert "skipping" not in named.err


# -- notes and errors ------------------------------------------------------------------------


def test_faults_are_counted_in_a_note(run: Run, traffic: Path) -> None:
    faults = rows(traffic, table="faults")
    for table in read_options.TABLES:
        found = run("read", str(traffic), "--table", table)
        assert found.code == 0
        note = f"wirelake: {len(faults)} faults ("
        assert (note in found.err) == (table != "faults")
        if table != "faults":
            assert f"; for details: wirelake read {traffic} --table faults\n" in found.err


def test_a_filter_error_points_at_the_place(run: Run, traffic: Path) -> None:
    code, out, err = run("read", str(traffic), "--filter", 'kind == "push" and nam == "x"')
    assert (code, out) == (2, "")
    first, line, caret = err.splitlines()
    assert first.startswith("wirelake: --filter: unknown column 'nam'")
    assert line.strip() == 'kind == "push" and nam == "x"'
    assert caret.strip() == "^^^"
    assert caret.index("^") == line.index("nam")


BAD_USAGE = {
    ("--table", "nope"): "unknown value 'nope'; expected one of messages",
    ("--columns", "nope"): "--columns: unknown column 'nope'; expected one of ts_ns",
    ("--columns", "comet.nope"): "unknown column 'nope' in comet; expected one of auth",
    ("--columns", ","): "--columns: empty list of columns",
    ("--protocol", "nope"): "unknown protocol 'nope'",
    ("--sort", "nope"): "--sort: unknown column 'nope'",
    ("--sort", "comet"): "--sort: comet has several values; expected one of its fields",
    ("--sort", "latency_ns:asc"): "--sort: unknown column 'latency_ns:asc'",
    ("--as", "nope"): "unknown protocol 'nope'",
    ("--port", "9999"): "invalid --port '9999'; expected PORT=PROTOCOL",
    ("--port", "99999=comet"): "invalid --port '99999=comet'; expected PORT=PROTOCOL",
    ("--port", "1=nope"): "unknown protocol 'nope'",
    ("--dialect", "tny"): "invalid --dialect 'tny'; expected PROTOCOL=NAME",
    ("--dialect", "tny=nope"): "unknown dialect 'nope' of tny; expected one of seed, upstream",
    ("--keys", "no/such.keys"): "no/such.keys: No such file or directory",
    ("--to", "nope"): "unknown value 'nope'; expected one of table, json",
    ("--json", "--to", "csv"): "--json conflicts with --to csv",
    ("--jobs", "0"): "invalid --jobs '0'; expected an integer, at least 1",
    ("--limit", "-1"): "invalid --limit '-1'; expected an integer, at least 0",
    ("-o", "rows.nope"): "rows.nope: cannot infer the format",
    ("-o", "no/such/rows.csv"): "no/such: no such folder",
    ("no/such.pcap",): "no/such.pcap: No such file or directory",
    ("\udcff.pcap",): "expected printable characters",
}


@pytest.mark.parametrize("args", BAD_USAGE, ids=" ".join)
def test_bad_usage(run: Run, traffic: Path, args: tuple[str, ...]) -> None:
    code, out, err = run("read", str(traffic), *args)
    assert (code, out) == (2, "")
    assert BAD_USAGE[args] in err
    assert err.startswith("wirelake: ")
    assert err.count("\n") == 1


def test_live_inputs_cannot_be_sorted(run: Run, traffic: Path) -> None:
    path = next(traffic.glob("*.pcap"))
    code, out, err = run("read", "--follow", str(path), "--sort", "ts_ns")
    assert (code, out) == (2, "")
    assert err.startswith("wirelake: --sort needs captures that have ended; leave it out")
    assert err.count("\n") == 1


def test_bad_keys_are_bad_data(run: Run, traffic: Path, tmp_path: Path) -> None:
    keys = tmp_path / "some.keys"
    keys.write_text('{"protocol": "tny"}\n', encoding="utf-8")
    code, out, err = run("read", str(traffic), "--keys", str(keys))
    assert (code, out) == (1, "")
    assert err == f"wirelake: {keys}, line 1: missing keys\n"


def test_a_folder_without_captures(run: Run, tmp_path: Path) -> None:
    code, out, err = run("read", str(tmp_path))
    assert (code, out) == (2, "")
    assert "no captures in this folder" in err


@pytest.mark.parametrize("data", [b"", bytes(range(256)) * 20], ids=["empty", "rubbish"])
def test_no_capture_at_all(run: Run, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "some.pcap"
    path.write_bytes(data)
    found = run("read", str(path))
    assert (found.code, found.out) == (1, "")
    faults = run("read", str(path), "--table", "faults")
    assert faults.code == 1
    [fault] = map(json.loads, faults.lines)
    assert (fault["code"], fault["present_bytes"]) == ("unknown_file", len(data))


def test_a_file_that_is_cut_off(run: Run, traffic: Path, tmp_path: Path) -> None:
    whole = Path(captures_of(traffic)[-1]).read_bytes()
    path = tmp_path / "cut.pcap"
    path.write_bytes(whole[: len(whole) // 2 + 5])
    found = run("read", str(path))
    assert found.code == 0
    assert found.lines
    assert "truncated_file" in found.err


def test_an_output_that_fails_leaves_nothing(run: Run, traffic: Path, tmp_path: Path) -> None:
    keys = tmp_path / "some.keys"
    keys.write_text("{}\n", encoding="utf-8")
    out = tmp_path / "out.csv"
    out.write_text("as it was", encoding="utf-8")
    assert run("read", str(traffic), "--keys", str(keys), "-o", str(out)).code == 1
    assert out.read_text(encoding="utf-8") == "as it was"
    assert {path.name for path in tmp_path.iterdir()} == {"some.keys", "out.csv"}
    assert run("read", str(traffic), "-o", str(out)).code == 0
    assert out.read_text(encoding="utf-8").startswith("ts_ns,first_ns,")


def test_what_is_read_is_not_written_over(run: Run, traffic: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.pcap"
    path.write_bytes(data := Path(captures_of(traffic)[0]).read_bytes())
    other = tmp_path / "other.csv"
    other.symlink_to(path)
    code, out, err = run("read", str(tmp_path), "-o", str(other))
    assert (code, out) == (2, "")
    assert err == f"wirelake: output {other} is also an input\n"
    assert path.read_bytes() == data


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_a_full_disk(run: Run, traffic: Path, form: str) -> None:
    code, _, err = run("read", str(traffic), "--to", form, "-o", "/dev/full")
    assert (code, err) == (2, "wirelake: No space left on device\n")


# -- as its users run it ---------------------------------------------------------------------


def test_a_closed_pipe_ends_the_output(traffic: Path) -> None:
    with start("read", str(traffic), "--table", "packets") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"ts_ns":')
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == b""


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("command", [("read", "-o", "out.csv"), ("read",), ("follow", "1")])
def test_an_interrupt(tmp_path: Path, command: tuple[str, ...]) -> None:
    fifo = tmp_path / "slow.pcap"
    os.mkfifo(fifo)
    name, *options = command
    words = (name, str(fifo), *options)
    # Tests that run in the background inherit an ignored SIGINT; a person's shell does not.
    with start(*words, cwd=tmp_path, preexec_fn=heed_interrupts) as process:
        assert process.stderr is not None
        with fifo.open("wb"):  # returns once the command has opened it, and waits for its bytes
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        assert process.stderr.read().strip() == b""
    assert [path.name for path in tmp_path.iterdir()] == ["slow.pcap"]

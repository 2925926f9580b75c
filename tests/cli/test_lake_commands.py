"""`wirelake lake`: its commands, how they look at a lake and after it, and lakes that are none."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tables.simulated_lake import captures, lake

from wirelake.cli.lake.command import SUBCOMMANDS
from wirelake.lake.verify.rows import Difference, Report
from wirelake.tables.log import Log
from wirelake.tables.paths import PUBLIC_TABLES
from wirelake.tables.query import open_lake
from wirelake.tables.writer import Writer

from .conftest import Run

pytestmark = pytest.mark.slow

__all__ = ["captures", "lake"]

READERS = (["status"], ["sql", "select 1"], ["report"], ["verify"], ["compact"])


def arguments(command: list[str], lake: Path) -> list[str]:
    name, *more = command
    return ["lake", name, str(lake), *more]


@pytest.fixture
def copy(lake: Path, tmp_path: Path) -> Path:
    """A lake to change."""
    return shutil.copytree(lake, tmp_path / "copy")


# -- the group -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_help_has_examples(run: Run, command: str) -> None:
    found = run("lake", command, "--help")
    assert (found.code, found.err) == (0, "")
    assert f"  wirelake lake {command} " in found.out
    assert "--json" in found.out


def test_the_commands_are_listed(run: Run) -> None:
    found = run("lake", "--help")
    listed = found.out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed if line.strip()] == list(SUBCOMMANDS)


def test_an_unknown_command(run: Run) -> None:
    found = run("lake", "drain")
    assert found.code == 2
    assert found.err.startswith(
        "wirelake: unknown subcommand 'drain'; expected one of run, status, sql,"
    )


# -- lakes that are none ---------------------------------------------------------------------


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_no_lake(run: Run, tmp_path: Path, command: list[str]) -> None:
    for place in (tmp_path, tmp_path / "nothing"):
        found = run(*arguments(command, place))
        assert (found.code, found.out) == (2, "")
        assert found.err == (
            f"wirelake: {place}: no lake in this folder; `wirelake lake run` creates one\n"
        )


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
@pytest.mark.parametrize(("field", "word"), [("format", "format"), ("schema", "version")])
def test_a_newer_lake(run: Run, copy: Path, command: list[str], field: str, word: str) -> None:
    record = Log(copy).layout.record(1)
    entry = {**json.loads(record.read_text()), field: 99}
    del entry["checksum"]
    record.write_text(json.dumps(entry))
    found = run(*arguments(command, copy))
    assert (found.code, found.out) == (2, "")
    assert f"{word} 99" in found.err
    assert "update wirelake" in found.err
    assert found.err.count("\n") == 1


def test_a_damaged_log(run: Run, copy: Path) -> None:
    Log(copy).layout.record(1).write_text("{")
    found = run("lake", "status", str(copy))
    assert (found.code, found.out) == (1, "")
    assert "damaged" in found.err
    assert found.err.count("\n") == 1


def test_another_writer_is_active(run: Run, copy: Path) -> None:
    with Writer(copy):
        found = run("lake", "compact", str(copy))
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1


def test_something_is_not_installed(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "wirelake.tables.query", raising=False)
    found = run("lake", "report", str(lake))
    assert found.code == 2
    assert (
        found.err
        == "wirelake: missing optional dependency duckdb: pip install 'wirelake[cli,report]'\n"
    )


# -- status ----------------------------------------------------------------------------------


def test_status(run: Run, lake: Path, captures: Path) -> None:
    found = run("lake", "status", str(lake), "--from", str(captures))
    assert (found.code, found.err) == (0, "")
    assert found.lines[0].startswith(f"{lake}: commit 1, ")
    with open_lake(lake) as db:
        counts = {
            name: db.sql(f"select count(*) from {name}").fetchall()[0][0] for name in PUBLIC_TABLES
        }
    cells = [line.split() for line in found.lines]
    shown = {line[0]: line[1] for line in cells if len(line) > 1}
    for name, count in counts.items():
        assert shown[name] == f"{count:,}"
    assert shown["edge-a"] == shown["tap-a"] != "0"
    ordered = {line.split()[0]: line for line in found.lines if line[:6] in ("edge-a", "tap-a ")}
    assert "recorder" in ordered["edge-a"]
    assert "number in name" in ordered["tap-a"]
    assert found.lines[-1] == "no captures waiting"


def test_status_lists_pending_captures(
    run: Run, lake: Path, captures: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(captures, tmp_path / "captures")
    shutil.copy(next(folder.glob("*.pcap")), folder / "tap-x-00000007.pcap")
    (folder / "edge-a-00000099.pcapng.open").write_bytes(b"x" * 70)
    args = ("lake", "status", str(lake), "--from", str(folder))
    found = run(*args)
    assert found.code == 0
    assert "1 recording still open, 70 B; `lake run --include-open` reads them" in found.out
    assert "1 capture waiting," in found.out
    assert "may still be growing" in found.out
    data = json.loads(run(*args, "--settle", "0", "--json").out)
    (waiting,) = data["waiting"]
    assert (waiting["source"], waiting["why"]) == ("tap-x", "sequence 6 is missing")
    assert data["backlog_files"] == 1
    found = run(*args, "--settle", "0", "--lateness", "0")
    assert "next run" in found.out


def test_status_without_captures(run: Run, lake: Path, tmp_path: Path) -> None:
    found = run("lake", "status", str(lake), "--from", str(tmp_path / "nothing"))
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1


# -- care ------------------------------------------------------------------------------------


def rows(lake: Path, table: str) -> Any:
    with open_lake(lake) as db:
        return sorted(db.sql(f"select * from {table}").fetchall(), key=str)


def test_expire(run: Run, copy: Path) -> None:
    found = run("lake", "expire", str(copy), "--older", "36500d")
    assert (found.code, found.out) == (0, f"{copy}: no data is that old\n")
    assert json.loads(run("lake", "expire", str(copy), "--older", "36500d", "--json").out) is None
    assert rows(copy, "calls")
    found = run("lake", "expire", str(copy), "--older", "1s")
    assert found.code == 0
    assert found.out == f"{copy}: commit 2; {len(PUBLIC_TABLES)} files removed\n"
    assert rows(copy, "calls") == []


def test_expire_one_table(run: Run, copy: Path) -> None:
    found = run("lake", "expire", str(copy), "--older", "calls=1s", "--older", "36500d")
    assert found.code == 0
    assert rows(copy, "calls") == []
    assert rows(copy, "messages")
    for text, said in (
        ("nope=1d", "unknown table 'nope'"), ("calls=0", "invalid age 0 s"),
        ("calls=soon", "invalid --older 'soon'; expected seconds"),
    ):  # fmt: skip
        found = run("lake", "expire", str(copy), "--older", text)
        assert (found.code, found.err.count("\n")) == (2, 1)
        assert said in found.err


@pytest.mark.parametrize("command", [["sql", "select 1"], ["report"], ["compact"]])
def test_a_file_was_deleted(run: Run, copy: Path, command: list[str]) -> None:
    with Writer(copy) as writer, writer.begin() as step:  # two small files of a table
        path = next((copy / "calls").rglob("*.parquet"))
        shutil.copy(path, step.work("again") / "calls.parquet")
        step.add("calls", step.work("again") / "calls.parquet")
        step.commit("advance")
    path.unlink()
    found = run("lake", command[0], str(copy), *command[1:])
    assert (found.code, found.out) == (2, "")
    assert found.err == f"wirelake: {path}: missing; the log lists this file\n"


def test_expire_needs_an_age(run: Run, copy: Path) -> None:
    assert "missing option --older" in run("lake", "expire", str(copy)).err
    found = run("lake", "expire", str(copy), "--older", "0")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert Log(copy).last() == 1


def test_compact(run: Run, copy: Path) -> None:
    before = rows(copy, "calls")
    files = sorted((copy / "calls").rglob("*.parquet"))
    with Writer(copy) as writer, writer.begin() as step:
        work = step.work("again") / "calls.parquet"
        shutil.copy(files[0], work)
        step.add("calls", work)
        step.commit("advance")
    found = run("lake", "compact", str(copy), "--size", "1GB")
    assert (found.code, found.err) == (0, "")
    assert found.out == f"{copy}: commit 3; 2 files merged into 1\n"
    assert rows(copy, "calls") == sorted(before * 2, key=str)
    found = run("lake", "compact", str(copy))
    assert found.out == f"{copy}: no small files to merge\n"
    assert json.loads(run("lake", "compact", str(copy), "--json").out) is None


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_export(run: Run, lake: Path, tmp_path: Path, form: str) -> None:
    args = ("lake", "export", str(lake), str(tmp_path), "--format", form, "--table", "calls")
    found = run(*args)
    count = len(rows(lake, "calls"))
    assert (found.code, found.err) == (0, "")
    assert found.out == f"{tmp_path}/calls: 1 file, {count:,} rows; 1 added, 0 removed\n"
    (again,) = json.loads(run(*args, "--json").out)
    assert (again["table"], again["rows"], again["added"]) == ("calls", count, 0)


def test_an_export_of_what_is_not_there(run: Run, lake: Path, tmp_path: Path) -> None:
    args = ("lake", "export", str(lake), str(tmp_path), "--format", "delta")
    found = run(*args, "--table", "nope")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "unknown table 'nope'" in found.err
    assert list(tmp_path.iterdir()) == []


# -- verify ----------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `verify` is called with; the report it returns is `report`."""
    found: dict[str, Any] = {"report": Report("lake", 3, "1/4", 5, 1, 0, 2, {"calls": 1_200})}

    def verify(lake: str, **more: Any) -> Report:
        found.update(more, lake=lake)
        report: Report = found["report"]
        return report

    monkeypatch.setattr("wirelake.lake.verify.verify.verify", verify)
    return found


def test_verify_prints_what_was_compared(run: Run, asked: dict[str, Any]) -> None:
    found = run("lake", "verify", "lake", "--sample", "1/4", "--keys", "a.keys")
    assert (found.code, found.err) == (0, "")
    first, *_, last = found.out.splitlines()
    compared = "5 connections, 1 client, 0 tunnels, 2 minutes"
    assert first == f"lake: compared a sample of 1/4: {compared}"
    assert "  calls: 1,200 rows" in found.out.splitlines()
    assert last == "lake: no differences"
    assert (asked["lake"], asked["shares"], asked["keys"]) == ("lake", 4, ("a.keys",))


def test_verify_names_what_differs(run: Run, asked: dict[str, Any]) -> None:
    difference = Difference("calls", {"connection": 5, "message_id": None}, "parts", 2, 1)
    asked["report"].problems = ["source tap cannot be replayed: a.pcap does not exist"]
    asked["report"].add([difference])
    found = run("lake", "verify", "lake")
    assert (found.code, asked["shares"]) == (1, 16)
    assert found.out.splitlines()[-3:] == [
        "lake: 2 problems",
        "  source tap cannot be replayed: a.pcap does not exist",
        "  calls: connection=5 message_id=null: parts is 2; expected 1",
    ]


def test_verify_as_json(run: Run, asked: dict[str, Any]) -> None:
    asked["report"].add([Difference("calls", {"connection": 5}, "parts", 2, 1)])
    found = run("lake", "verify", "lake", "--full", "--json")
    assert (found.code, asked["shares"]) == (1, 1)
    said = json.loads(found.out)
    assert (said["ok"], said["rows"], said["connections"]) == (False, {"calls": 1_200}, 5)
    assert said["differences"] == [
        {"table": "calls", "key": {"connection": "5"}, "column": "parts", "lake": 2, "expected": 1}
    ]


def test_full_and_a_sample_conflict(run: Run) -> None:
    found = run("lake", "verify", "lake", "--full", "--sample", "1/4")
    assert (found.code, found.out) == (2, "")
    assert "--full conflicts with --sample" in found.err

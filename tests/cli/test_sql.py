"""`wirelake sql` and `wirelake report` over captures: the answers of a lake, and bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.capture.tcp_made import Call, write
from tests.lake.local_engine import run_here

from wirelake.cli.lake.command import SUBCOMMANDS
from wirelake.tables.paths import PUBLIC_TABLES

from .conftest import SOURCES, Run
from .simulated import captures_of, traffic

pytestmark = pytest.mark.slow

__all__ = ["traffic"]

QUERY = (
    "select protocol, target, count(*) as calls, max(latency_ns) as worst_ns from calls"
    " group by all order by all"
)


@pytest.fixture(scope="module")
def keys(traffic: Path) -> list[str]:
    return [part for path in sorted(traffic.glob("*.keys")) for part in ("--keys", str(path))]


@pytest.fixture(scope="module")
def lake(traffic: Path, keys: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lake") / "lake"
    run_here(lake, traffic, keys=keys[1::2], max_files=1, settle_s=0)
    return lake


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, in which every command leaves nothing."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


# -- the answers of a lake -------------------------------------------------------------------------


def test_a_query(run: Run, traffic: Path, lake: Path, keys: list[str]) -> None:
    wanted = run("lake", "sql", str(lake), QUERY)
    assert wanted.lines
    for files in ([str(traffic)], captures_of(traffic)):
        found = run("sql", *files, QUERY, *keys)
        assert (found.code, found.out) == (0, wanted.out)
        assert found.err.count("\n") == 1
        assert "faults (" in found.err
    found = run("sql", str(traffic), "-", *keys, "--json", stdin=QUERY.encode())
    assert found.out == wanted.out


def test_options_that_say_how_to_read(run: Run, traffic: Path) -> None:
    """A filter on the protocol is SQL; what decides how bytes are read is as for `read`."""
    files = captures_of(traffic)
    query = "select distinct protocol from messages"
    found = run("sql", *files, query, "--as", "comet", "--jobs", "1")
    assert {json.loads(line)["protocol"] for line in found.lines} <= {"comet"}
    query = "select count(*) as n from messages where comet.auth.token not like '***%'"
    assert run("sql", *files, query).lines == ['{"n":0}']
    assert run("sql", *files, query, "--reveal").lines != ['{"n":0}']


def test_the_report(run: Run, traffic: Path, lake: Path, keys: list[str], tmp_path: Path) -> None:
    wanted = json.loads(run("lake", "report", str(lake), "--json").out)
    page = tmp_path / "report.html"
    found = run("report", str(traffic), *keys, "--json", "--html", str(page))
    assert found.code == 0
    mine = json.loads(found.out)
    own = {"lake": traffic.name, "commit": None}
    own["command"] = ["wirelake", "sql", str(traffic), *keys]
    assert mine == wanted | own
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    found = run("report", str(traffic), *keys, "--since", "5m", "--top", "2")
    assert found.code == 0
    assert found.lines[0] == traffic.name


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_file(run: Run, traffic: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"out.{form}"
    found = run("sql", str(traffic), QUERY, "-o", str(out))
    assert (found.code, found.out) == (0, "")
    assert f"{out}: " in found.err
    assert out.exists()


def test_kept(run: Run, traffic: Path, tmp_path: Path) -> None:
    capture = tmp_path / "tap.pcap"
    shutil.copyfile(min(traffic.glob("*.pcap")), capture)
    wanted = run("sql", str(capture), QUERY)
    assert run("sql", str(capture), QUERY, "--keep") == wanted
    root = tmp_path / "tap.pcap.lake"
    commit = root / "_log" / f"{1:020}.json"
    made_ns = commit.stat().st_mtime_ns
    for more in ([], ["--keep"]):
        assert run("sql", str(capture), QUERY, *more) == wanted
        assert run("report", str(capture), *more).code == 0
    assert commit.stat().st_mtime_ns == made_ns  # it was used, not made again
    # All commands of lakes work on it.
    assert run("lake", "sql", str(root), QUERY).out == wanted.out
    assert {"sql", "report", "status"} <= {*SUBCOMMANDS}
    assert run("lake", "status", str(root)).code == 0
    os.utime(capture, ns=(0, 0))
    assert run("sql", str(capture), QUERY) == wanted
    assert commit.stat().st_mtime_ns == made_ns
    assert run("sql", str(capture), QUERY, "--keep") == wanted
    assert commit.stat().st_mtime_ns != made_ns


def test_a_damaged_kept_lake(run: Run, traffic: Path, tmp_path: Path) -> None:
    capture = tmp_path / "tap.pcap"
    shutil.copyfile(min(traffic.glob("*.pcap")), capture)
    wanted = run("sql", str(capture), QUERY, "--keep")
    for path in (tmp_path / "tap.pcap.lake").glob("calls/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-1])
    found = run("sql", str(capture), QUERY, "--keep")
    assert (found.code, found.out) == (1, "")
    assert found.err.count("\n") == 1
    assert f"or delete {tmp_path / 'tap.pcap.lake'}: it is created again" in found.err
    found = run("sql", str(capture), QUERY)  # the captures have the answer all the same
    assert (found.code, found.out) == (0, wanted.out)
    assert "; not used\n" in found.err
    shutil.rmtree(tmp_path / "tap.pcap.lake")
    assert run("sql", str(capture), QUERY, "--keep") == wanted


def test_kept_for_the_parent_folder(
    run: Run, traffic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "captures" / "below"
    below.mkdir(parents=True)
    shutil.copy(min(traffic.glob("*.pcap")), below.parent)
    monkeypatch.chdir(below)
    assert run("sql", "..", QUERY, "--keep").code == 0
    assert list(below.iterdir()) == []
    assert (tmp_path / "captures.lake").is_dir()


def test_keys_from_a_pipe_are_refused(run: Run, traffic: Path, keys: list[str]) -> None:
    # They would be read once; a second source of captures would stay sealed without a word.
    reader, writer = os.pipe()
    try:
        os.write(writer, Path(keys[1]).read_bytes()[:1000])
        os.close(writer)
        found = run("sql", str(traffic), QUERY, "--keys", f"/dev/fd/{reader}")
    finally:
        os.close(reader)
    assert (found.code, found.out) == (2, "")
    assert found.err == f"wirelake: /dev/fd/{reader}: keys are read several times: give a file\n"


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select nope from calls", "nope"),
        ("selec 1", "Parser Error"),
        ("from no_such_table", "no_such_table"),
        (" ", "empty query"),
        ("/* nothing */", "empty query"),
    ],
)
def test_a_wrong_query_is_reported_before_anything_is_read(
    run: Run, tmp_path: Path, query: str, words: str
) -> None:
    capture = tmp_path / "tap.pcap"
    capture.write_bytes(b"")
    found = run("sql", str(capture), query)
    assert (found.code, found.out) == (2, "")
    assert words in found.err.splitlines()[0]


def test_a_query_that_fails_in_the_middle(run: Run, traffic: Path, tmp_path: Path) -> None:
    query = (
        "select case when n < 400000 then n else error('at ' || n)::bigint end as n"
        " from (select row_number() over () as n from calls, range(2000))"
    )
    for command in (["sql", str(traffic)], ["lake", "sql", str(_lake_of(traffic, tmp_path))]):
        found = run(*command, f"set threads = 1; {query}")
        assert found.code == 1
        assert "at 400000" in found.err
        rows = [json.loads(line)["n"] for line in found.lines]  # whole lines
        assert rows == list(range(1, len(rows) + 1)) != []
        words = f"wirelake: the output is incomplete: it ends after {len(rows):,} rows\n"
        assert words in found.err
        out = tmp_path / "out.parquet"
        found = run(*command, query, "-o", str(out))
        assert (found.code, found.out, out.exists()) == (1, "", False)
        assert "incomplete" not in found.err


def _lake_of(traffic: Path, folder: Path) -> Path:
    run_here(folder / "lake", traffic, settle_s=0)
    return folder / "lake"


def test_a_capture_that_ends_in_a_packet(run: Run, traffic: Path, tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(min(traffic.glob("*.pcap")).read_bytes()[:-7])
    for command in (["sql", str(capture), QUERY], ["report", str(capture)]):
        found = run(*command)
        assert found.code == 0
        assert found.out
        words = f"wirelake: {capture}: ends within a packet; the result is of what comes before\n"
        assert words in found.err


UNKNOWN = (
    "wirelake: no message of a known protocol in web.pcap; --port PORT=PROTOCOL or --as PROTOCOL"
    " names it\n"
)


def test_a_capture_without_a_known_protocol(run: Run, tmp_path: Path) -> None:
    capture = tmp_path / "web.pcap"
    call = Call(server_port=80)
    call.open()
    call.say("c2s", b"GET / HTTP/1.1\r\n\r\n")
    call.say("s2c", b"HTTP/1.1 404 Not Found\r\n\r\n")
    write(capture, call.packets)
    for command in (["sql", str(capture), QUERY], ["report", str(capture)]):
        found = run(*command)
        assert (found.code, found.err) == (0, UNKNOWN)
    for jobs in ("1", "2"):
        for table in ("messages", "calls"):
            assert run("read", str(capture), "--table", table, "--jobs", jobs) == (0, "", UNKNOWN)
    assert run("read", str(capture), "--table", "coverage").err == ""
    write(capture, [])
    for command in (["sql", str(capture), QUERY], ["read", str(capture)]):
        assert run(*command) == (0, "", "wirelake: no packets in web.pcap\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sql", "missing.pcap", "select 1"], "missing.pcap: No such file or directory"),
        (["report", "missing.pcap"], "missing.pcap: No such file or directory"),
        (["report", "tap.pcap", "--html", "no/such/r.html"], "no/such: no such folder"),
        (["report", "tap.pcap", "--html", "tap.pcap"], "output tap.pcap is also an input"),
        (["report", "tap.pcap", "--html", "."], ".: is a folder; expected a file"),
        (["sql", "tap.pcap", "select 1", "-o", "no/such.csv"], "no: no such folder"),
        (["sql", "tap.pcap", "select 1", "-o", "rows.xls"], "rows.xls: cannot infer the format"),
        (["sql", "tap.pcap", "select 1", "--json", "--format", "csv"], "--json conflicts"),
        (["sql", "tap.pcap", "tap.pcap", "select 1", "--keep"], "--keep needs one FILE"),
        (["sql", "tap.pcap", "select 1", "--as", "nix"], "unknown protocol 'nix'"),
        (["sql", "tap.pcap", "select 1", "--keys", "nix"], "nix"),
        (["sql", "tap.pcap"], "missing "),
    ],
)
def test_bad_usage(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tap.pcap").write_bytes(b"")
    found = run(*arguments)
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing(traffic: Path, temporary: Path, number: int) -> None:
    code = (
        "import os, sys\n"
        "from wirelake.lake import capture_lake\n"
        "make = capture_lake._make\n"
        "def slow(*given):\n"
        "    found = make(*given)\n"
        "    os.kill(os.getpid(), int(sys.argv[1]))\n"
        "    return found\n"
        "capture_lake._make = slow\n"
        "from wirelake.cli.main import main\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(number), "sql", str(traffic), "from calls"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCES, *sys.path])},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (128 + number, "", "")
    assert list(temporary.iterdir()) == []


def test_neither_spark_nor_java_is_needed(traffic: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules.update(pyspark=None)\n"
        "from wirelake.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    for arguments in (
        ["sql", str(traffic), "select count(*) as n from calls"],
        ["report", str(traffic), "--html", str(tmp_path / "r.html")],
    ):
        done: Any = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            env={
                **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
                "PYTHONPATH": os.pathsep.join([SOURCES, *sys.path]),
            },
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_every_table_can_be_asked_for(run: Run, traffic: Path) -> None:
    for name in PUBLIC_TABLES:
        found = run("sql", str(traffic), f"select count(*) as n from {name}")
        assert found.code == 0
        assert json.loads(found.out)["n"] > 0

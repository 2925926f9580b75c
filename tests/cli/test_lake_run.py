"""`wirelake lake run`: what it asks of the engine, and what it says afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from wirelake.lake.engine.run import Committed, Outcome
from wirelake.lake.engine.settings import DECODED, Settings
from wirelake.tables.inputs import Capture
from wirelake.tables.paths import LakeError
from wirelake.tables.snapshot import FORMAT, Input, Record

from .conftest import Run

FILES = {"source": "tap", "bytes": 2_000_000, "mtime_ns": 0}


def taken(number: int, fault: str | None = None) -> Input:
    return Input(sequence=number, path=f"/c/tap-{number}.pcap", fault=fault, **FILES)  # type: ignore[arg-type]


class Engine:
    """Stands in for the engine: remembers what it was asked, and commits once."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.outcome = Outcome(refused=[], waiting=[], rows={})
        self.error: Exception | None = None

    def __call__(self, lake: str, captures: str, **more: Any) -> Outcome:
        self.asked = {**more, "lake": lake, "captures": captures}
        if self.error is not None:
            raise self.error
        more["on_step"]("decode")
        more["on_step"]("forward:calls")
        if self.outcome.commits:
            record = Record(commit=7, format=FORMAT, schema=2, time="", kind="advance")
            more["committed"](Committed(record, []))
        return self.outcome


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    found = Engine()
    monkeypatch.setattr("wirelake.lake.engine.run.run", found)
    return found


ARGS = ("lake", "run", "--from", "captures", "--to", "lake")


# -- what is asked ---------------------------------------------------------------------------


def test_by_default(run: Run, engine: Engine) -> None:
    found = run(*ARGS)
    assert (found.code, found.err) == (0, "")
    asked = engine.asked
    assert (asked["lake"], asked["captures"]) == ("lake", "captures")
    assert asked["settings"] is None  # a lake keeps those that it has
    assert not asked["stream"]
    assert (asked["trigger_s"], asked["lateness_s"], asked["settle_s"]) == (10, 600, 10)
    assert asked["max_files"] is asked["max_bytes"] is None
    assert asked["fsync"]
    assert (asked["compact_files"], asked["retention"]) == (64, {})


def test_every_option(run: Run, engine: Engine) -> None:
    more = (
        "--stream --trigger 5 --max-files 3 --max-bytes 1GB --lateness 1h --settle 0 --no-fsync"
        " --as comet --port 99=tny --dialect comet=hipush --keys a.keys --keys b.keys --reveal"
        " --tables calls,latency_minutes --compact-files 0 --keep calls=90d --keep messages=7d"
        " --source-pattern (?P<source>tap).*"
    )
    assert run(*ARGS, *more.split()).code == 0
    asked = engine.asked
    assert asked["stream"]
    assert not asked["fsync"]
    assert asked["compact_files"] == 0
    assert asked["retention"] == {"calls": 90 * 86_400, "messages": 7 * 86_400}
    assert (asked["trigger_s"], asked["lateness_s"], asked["settle_s"]) == (5, 3_600, 0)
    assert (asked["max_files"], asked["max_bytes"]) == (3, 1_000_000_000)
    assert asked["keys"] == ("a.keys", "b.keys")
    settings: Settings = asked["settings"]
    assert (settings.force_protocol, settings.dialects, settings.reveal) == (
        "comet", {"comet": "hipush"}, True
    )  # fmt: skip
    assert settings.ports is not None
    assert settings.ports[99] == "tny"
    assert settings.tables == (*DECODED, "calls", "latency_minutes")
    assert settings.source_pattern == "(?P<source>tap).*"


def test_all_tables_by_name_are_asked_for(run: Run, engine: Engine) -> None:
    assert run(*ARGS, "--tables", ",".join(Settings().tables)).code == 0
    assert engine.asked["settings"] == Settings()


def test_spark_is_started_as_asked(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: dict[str, Any] = {}

    class Session:
        stopped = False

        def stop(self) -> None:
            self.stopped = True

    session = Session()

    def start(app: str, **options: Any) -> Session:
        started.update(options, app=app)
        return session

    def run_with_spark(*_: Any, **more: Any) -> Outcome:
        assert more["spark"]() is session
        return engine.outcome

    monkeypatch.setattr("wirelake.lake.session", start)
    monkeypatch.setattr("wirelake.lake.engine.run.run", run_with_spark)
    found = run(*ARGS, "--master", "local[3]", "--conf", "spark.a=b", "--conf", "spark.c=d=e")
    assert (found.code, found.err) == (0, "")
    assert started == {
        "app": "wirelake lake run", "master": "local[3]", "remote": None,
        "spark.a": "b", "spark.c": "d=e",
    }  # fmt: skip
    assert session.stopped


def test_a_remote_spark_needs_no_java(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise AssertionError

    monkeypatch.setattr("wirelake.lake.spark.java.find_java", none)
    assert run(*ARGS, "--remote", "sc://head:15002").code == 0
    assert engine.asked["lake"] == "lake"


# -- what is said ----------------------------------------------------------------------------


def test_nothing_to_do(run: Run, engine: Engine) -> None:
    engine.outcome.waiting = [waiting(5)]
    assert run(*ARGS).lines == [
        "lake: no new captures",
        "  waiting: 1 capture",
        "    /c/tap-5.pcap: number 4",
    ]


def test_recordings_left_out_are_counted(run: Run, engine: Engine) -> None:
    engine.outcome.open = [waiting(5)[0], waiting(6)[0]]
    size = sum(each.bytes for each in engine.outcome.open)
    text = f"  still open: 2 recordings, {size:,} bytes, not read;"
    assert run(*ARGS).lines[1:] == [
        f"{text} --include-open reads those that no recorder is writing"
    ]
    assert [each["path"] for each in json.loads(run(*ARGS, "--json").out)["open"]] == [
        "/c/tap-5.pcap",
        "/c/tap-6.pcap",
    ]
    assert run(*ARGS, "--include-open").code == 0
    assert engine.asked["include_open"] is True
    assert run(*ARGS, "--include-open", "--stream").code == 2


def waiting(number: int) -> tuple[Capture, str]:
    return Capture(sequence=number, path=f"/c/tap-{number}.pcap", **FILES), f"number {number - 1}"  # type: ignore[arg-type]


def test_the_outcome(run: Run, engine: Engine) -> None:
    engine.outcome = Outcome(
        commits=1,
        files=2,
        refused=[taken(1, "late_file")],
        waiting=[waiting(number) for number in range(20, 32)],
        rows={"messages": 1_234, "latency_minutes": 5},
        bytes=4_000_000,
        seconds=2.0,
    )
    found = run(*ARGS)
    assert found.code == 0
    assert found.lines[:5] == [
        "lake: commit 7; 2 captures read, 4.0 MB in 2.0 s (2.0 MB/s)",
        "  refused: 1 capture",
        "    /c/tap-1.pcap: late_file",
        "  waiting: 12 captures",
        "    /c/tap-20.pcap: number 19",
    ]
    assert found.lines[14:] == [
        "    and 2 more",
        "  rows added:",
        "    messages                  1,234",
        "    latency_minutes               5",
    ]
    data = json.loads(run(*ARGS, "--json").out)
    assert (data["commit"], data["files"], data["bytes"]) == (7, 2, 4_000_000)
    assert data["refused"] == [{"path": "/c/tap-1.pcap", "fault": "late_file"}]
    assert len(data["waiting"]) == 12
    assert data["rows"] == {"messages": 1_234, "latency_minutes": 5}


# -- what can go wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (LakeError("lake: locked by process 5"), 2, "lake: locked by process 5"),
        (OSError(28, "No space left on device", "lake/x"), 2, "lake/x: No space left on device"),
        (
            RuntimeError("Traceback\n  File x\nValueError: bad.keys, line 2: not JSON\nat y\n"),
            1,
            "Spark failed: ValueError: bad.keys, line 2: not JSON; set WIRELAKE_DEBUG=1",
        ),
        (ConnectionRefusedError(111, "Connection refused"), 1, "Spark has ended: its Java process"),
        (Py4JNetworkError("Answer from Java side is empty"), 1, "Spark has ended"),
        (Py4JError("Error while sending or receiving"), 1, "Spark has ended"),
    ],
)
def test_failures(run: Run, engine: Engine, error: Exception, code: int, said: str) -> None:
    engine.error = error
    found = run(*ARGS)
    assert (found.code, found.out) == (code, "")
    assert found.err.startswith(f"wirelake: {said}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tables", "calls,nope"], "unknown table 'nope'"),
        (["--tables", ","], "empty list of tables"),
        (["--conf", "x"], "invalid --conf 'x'; expected NAME=VALUE"),
        (["--master", "a", "--remote", "b"], "--master conflicts with --remote"),
        (["--max-bytes", "much"], "'much'; expected a number"),
        (["--trigger", "soon"], "'soon'; expected seconds"),
        (["--port", "x=comet"], "expected PORT=PROTOCOL"),
        (["--as", "nope"], "nope"),
        (["--keep", "nope=5d"], "unknown table 'nope'"),
        (["--keep", "calls=long"], "invalid --keep 'long'; expected seconds"),
    ],
)
def test_bad_usage(run: Run, engine: Engine, more: list[str], said: str) -> None:
    found = run(*ARGS, *more)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert engine.asked == {}


def test_no_folder_of_captures(run: Run, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    found = run("lake", "run", "--from", str(tmp_path / "nothing"), "--to", str(lake))
    assert (found.code, found.out) == (2, "")
    assert "no such folder of captures" in found.err
    assert not lake.exists()

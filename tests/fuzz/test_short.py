"""A short run of the real thing, in processes of its own; `make soak` runs the long one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz import soak as fuzzing
from tests.fuzz.targets import BrokenPromiseError, Target

SOAK = Path(__file__).with_name("soak.py")
EXECUTIONS = 5_000


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    record = folder / "record.json"
    done = subprocess.run(
        [sys.executable, str(SOAK), "--json", str(record), "--work", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert record.exists(), done.stderr
    found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return done.returncode, found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("soak")
    code, found = run(folder, "--executions", str(EXECUTIONS), "--jobs", "2")
    found["code"] = code
    return found


PROTOCOLS = ["esnp", "tny", "relay", "magline", "comet"]


def test_all_is_well(report: dict[str, Any]) -> None:
    assert sorted(report["protocols"]) == sorted(PROTOCOLS)
    assert report["ok"], report
    assert report["code"] == 0


@pytest.mark.parametrize("name", PROTOCOLS)
def test_only_documented_errors(report: dict[str, Any], name: str) -> None:
    record = report["protocols"][name]
    assert record["crashes"] == []
    assert record["finished"]
    assert record["executions"] == EXECUTIONS
    assert len(record["codes"]) >= 4


@pytest.mark.parametrize("name", PROTOCOLS)
def test_at_least_half_get_past_the_head(report: dict[str, Any], name: str) -> None:
    record = report["protocols"][name]
    assert record["past_head"] >= EXECUTIONS / 2
    assert record["share_past_head"] == round(record["past_head"] / EXECUTIONS, 4)
    assert record["messages"] > 1000


@pytest.mark.parametrize("name", PROTOCOLS)
def test_coverage_guides(report: dict[str, Any], name: str) -> None:
    record = report["protocols"][name]
    guided = importlib.util.find_spec("atheris") is not None
    assert record["engine"] == ("atheris" if guided else "mutations")
    if guided:
        assert record["coverage"] > 100
        assert record["corpus"] > 20


def test_a_limit_of_seconds_ends_it(tmp_path: Path) -> None:
    code, found = run(
        tmp_path, "--executions", "100000000", "--seconds-limit", "1", "--protocols", "magline"
    )
    record = found["protocols"]["magline"]
    assert record["finished"]
    assert 0 < record["executions"] < 100_000_000
    assert code == 0


@pytest.mark.parametrize(
    ("script", "origin"),
    [("raise SystemExit(3)", "exit code 3"), ("", "exit code 0")],
)
def test_a_process_that_exits_early_is_a_finding(
    script: str, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "engine.py"
    engine.write_text(f"print('last words')\n{script}\n", encoding="utf-8")
    monkeypatch.setattr(fuzzing, "ENGINE", engine)
    record = fuzzing.fuzz("magline", 10, 0, tmp_path / "work")
    assert record["crashes"] == [{"origin": origin, "error": "last words", "hex": ""}]
    assert record["share_past_head"] == 0
    assert record["executions"] == 0


def test_the_input_that_killed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tmp_path / "engine.py"
    lines = ["import sys", "open(sys.argv[4] + '/timeout-1', 'wb').write(b'abc')", "sys.exit(70)"]
    engine.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(fuzzing, "ENGINE", engine)
    (crash,) = fuzzing.fuzz("magline", 10, 0, tmp_path / "work")["crashes"]
    assert crash["hex"] == b"abc".hex()


def test_a_costly_input_is_a_finding(tmp_path: Path) -> None:
    for folder in ("corpus", "seeds"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one").write_bytes(b"abc")

    class Dear(Target):
        def measure_all(self, data: bytes) -> None:
            raise BrokenPromiseError(f"too much for {len(data)} bytes")

    crash = {"origin": "measured", "error": "too much for 3 bytes", "hex": "616263"}
    assert fuzzing._costly(Dear("magline"), tmp_path) == [crash, crash]
    assert fuzzing._costly(Target("magline"), tmp_path) == []

"""A whole run: the same for the same seed, whoever does the work; and its command."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from wirelake.cli.main import main
from wirelake.traffic import SimulateError, Summary, simulate
from wirelake.traffic import plan as planning

pytestmark = pytest.mark.slow


def _digest(folder: Path) -> dict[str, str]:
    """Every file of a run, by its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _small(folder: Path, **other: object) -> Summary:
    asked = {"size": 120_000, "seed": 3, "jobs": 1, **other}
    return simulate(folder, **asked)  # type: ignore[arg-type]


def test_a_seed_gives_the_same_run_with_any_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_SHARD_BYTES", 40_000)
    _small(tmp_path / "one", faults=0.005)
    _small(tmp_path / "two", faults=0.005, jobs=2)
    _small(tmp_path / "other", faults=0.005, seed=4)
    one, two, other = (_digest(tmp_path / name) for name in ("one", "two", "other"))
    assert len(one) > 12
    assert one == two
    assert one.keys() == other.keys()
    assert all(one[name] != other[name] for name in one if not name.endswith("tunnels.parquet"))


def test_a_run_leaves_captures_and_truth_and_nothing_else(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    summary = _small(tmp_path / "run", progress=lambda done, total: seen.append((done, total)))
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        *(f"edge-a-0000000{n}.pcapng" for n in (0, 1)),
        *(f"tap-a-0000000{n}.pcap" for n in (0, 1)),
        *("tap-a-0000.keys", "truth", "truth.json"),
    }
    tables = {path.name for path in (tmp_path / "run" / "truth").iterdir()}
    assert {"calls.parquet", "faults.parquet", "message_counts.parquet"} <= tables
    assert not any(name.startswith(".") for name in tables)
    captures = list((tmp_path / "run").glob("*.pcap*"))
    assert summary.bytes == sum(path.stat().st_size for path in captures)
    assert seen[-1] == (summary.bytes, 120_000)


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    _small(tmp_path / "run", style="recorder", protocols=["esnp"])
    asked = json.loads((tmp_path / "run" / "truth.json").read_text("utf-8"))
    assert {target["protocol"] for target in asked["targets"]} == {"esnp"}
    assert asked["asked"] == {
        "seed": 3,
        "style": "recorder",
        "protocols": ["esnp"],
        "faults": 0.0,
    }
    assert not list((tmp_path / "run").glob("tap-*"))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("precious")
    with pytest.raises(SimulateError, match="not empty"):
        _small(tmp_path / "run")
    assert (tmp_path / "run" / "mine").read_text() == "precious"
    _small(tmp_path / "run", force=True, protocols=["esnp"])
    assert not (tmp_path / "run" / "mine").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulateError, match="not a directory"):
        _small(tmp_path / "file")


def test_jobs_are_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(SimulateError, match="at least 1"):
        _small(tmp_path / "run", jobs=0)
    assert not (tmp_path / "run").exists()


# -- the command ---------------------------------------------------------------------------------


def test_the_command_prints_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    asked = ["simulate", "--out", out, "--size", "60KB", "--protocols", "esnp,tny", "--jobs", "1"]
    assert main([*asked, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["files"] == 4
    assert summary["faults"] == {}
    assert main(asked) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*asked, "--force"]) == 0
    text = capsys.readouterr().out
    assert "4 captures" in text
    assert "faults: none" in text


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--size", "huge"], "200MB"),
        (["--protocols", "comet,http"], "expected one of comet, esnp, magline, relay, tny"),
        (["--style", "x"], "recorder, tcpdump, both"),
        (["--faults", "2"], "expected 0 to 0.01"),
        (["--jobs", "0"], "at least 1"),
    ],
)
def test_the_command_explains_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], words: str
) -> None:
    assert main(["simulate", "--out", str(tmp_path / "run"), *asked]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["simulate", "--out", str(tmp_path / "file" / "run")]) == 2
    assert capsys.readouterr().err.count("\n") == 1

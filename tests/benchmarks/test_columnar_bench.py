"""The benchmark of kernels: both sides do the same, and a difference would be noticed.

No assertion here is about time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.columnar import main
from benchmarks.columnar_c import SOURCES, library
from benchmarks.columnar_contenders import Bench, DisagreementError
from benchmarks.columnar_corpora import spoiled, stream
from benchmarks.columnar_report import Result, record, rules, table
from benchmarks.columnar_sealing import Sealing
from benchmarks.corpus import PROTOCOLS, corpus
from benchmarks.timing import Timing

pytestmark = pytest.mark.soak
"""A benchmark that breaks is seen when it is run; no user depends on it."""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_kernels_and_c_write_the_same(name: str) -> None:
    clean = stream(name, 600)
    bench = Bench(name, clean)
    assert bench.check() == 0
    assert bench.scan("kernel") == bench.scan("C") == 600
    given_up = [Bench(name, spoiled(clean, seed)).check() for seed in range(3)]
    assert all(given_up), "spoiled messages are to be found"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_difference_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(name, stream(name, 100))
    decode = bench.decode_stage

    def wrong(side: str, place: int) -> int:
        n_bad = decode(side, place)
        if side == "C":
            bench._slices[place].columns[0][:1] += 1
        return n_bad

    monkeypatch.setattr(bench, "decode_stage", wrong)
    with pytest.raises(DisagreementError, match=name):
        bench.check()


def test_every_c_file_is_used_and_compiles_without_a_warning() -> None:
    load = set(SOURCES.glob("hub_load*.c"))  # one program together: benchmarks/hub_load.py
    assert {path.stem for path in set(SOURCES.glob("*.c")) - load} == set(PROTOCOLS)
    for name in PROTOCOLS:
        library.cache_clear()
        assert library(name).scan() is not None


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_stream_is_made_of_the_corpus(name: str) -> None:
    found = stream(name, 100)
    expected = corpus(name, 100)
    frames = [
        found.data[start:stop].tobytes()
        for start, stop in zip(found.starts, found.stops, strict=True)
    ]
    assert frames == [sample.data for sample in expected.samples]
    assert found.run_starts[0] == 0
    assert found.run_stops[-1] == len(found.data)
    assert np.array_equal(found.run_starts[1:], found.run_stops[:-1])
    assert np.median(found.stops - found.starts) <= 200


def test_opening_in_batches_is_opening_one_by_one() -> None:
    sealing = Sealing(300)
    sealing.check()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "one_by_one", lambda: [b""] * 300)
        with pytest.raises(RuntimeError, match="differ"):
            sealing.check()


def invented(kernel_us: float, c_us: float) -> Result:
    """A result with times that were not measured."""
    timings = {"kernel": Timing(kernel_us, kernel_us), "C": Timing(c_us, c_us)}
    operations = {"scan": timings, "decode message": timings, "both": timings}
    return Result(10, 80.0, 800, 1, operations, Timing(0.008, 0.008))


def test_rules_are_judged() -> None:
    judged = {(rule.kind, rule.what): rule for rule in rules({"tny": invented(0.05, 0.035)})}
    assert judged["required", "tny scan and decode: speed of C"].found == 0.7
    assert judged["required", "tny scan and decode: speed of C"].holds
    assert not judged["target", "tny scan and decode: speed of C"].holds
    assert judged["required", "the C: M tny messages/s"].found == 28.6
    assert judged["required", "the C: bytes/s of memcpy (or this)"].holds
    slow = list(rules({"tny": invented(0.1, 0.05)}))
    assert [rule.holds for rule in slow] == [False, False, False, False]
    text = table({"tny": invented(0.1, 0.05)}, {"batched": Timing(0.3, 0.3)})
    assert "MISSED" in text
    assert "not yet" in text
    assert "300.0" in text


def test_the_record_can_be_written() -> None:
    found = record({"tny": invented(0.05, 0.04)}, {}, {"messages": 10})
    assert json.loads(json.dumps(found))["results"]["tny"]["ratios"]["both"] == 0.8


def test_the_command_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results" / "columnar.json"
    options = ["--messages", "500", "--seconds", "0.01", "--rounds", "2"]
    assert main(["--json", str(out), *options, "--protocols", "magline"]) == 0
    assert "magline both" in capsys.readouterr().out
    written = json.loads(out.read_text(encoding="utf-8"))
    assert set(written["results"]["magline"]["timings"]) == {"scan", "decode frame", "both"}
    assert set(written["decryption"]) == {"batched", "one by one"}
    assert written["settings"]["messages"] == 500

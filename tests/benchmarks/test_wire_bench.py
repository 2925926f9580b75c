"""The benchmark compares like with like: its corpus is sound, and all contenders agree on it.

No assertion here is about time.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.contenders import contenders
from benchmarks.corpus import PROTOCOLS, SIZE, corpus
from benchmarks.report import COLUMNS, record, rules, table
from benchmarks.startup import Startup, startup
from benchmarks.timing import Timing, race
from benchmarks.wire import main

CONTENDERS = list(COLUMNS)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_corpus_matches_its_description(name: str) -> None:
    found = corpus(name)
    assert len(found.samples) == SIZE
    assert statistics.median(len(sample.data) for sample in found.samples) <= 200
    for sample in found.samples:
        decoded = found.protocol.decode(sample.data, direction=sample.direction)
        assert decoded == (sample.message, len(sample.data))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_corpus_is_the_same_every_time(name: str) -> None:
    assert corpus(name) == corpus(name)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_corpus_has_every_message_type(name: str) -> None:
    found = corpus(name)
    body = found.protocol.model().body
    if body is None:  # rows, not a body: the kinds that the corpus is about
        kinds = {type(row).__name__ for sample in found.samples for row in sample.message.rows}
        assert {"MessageId", "SourceMessageId", "Header", "Data", "Payload", "Error"} <= kinds
        return
    stored = [getattr(sample.message, body.name, sample.message) for sample in found.samples]
    assert {type(value) for value in stored} == {a.layout.cls for a in body.alternatives}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_contenders_decode_the_same_values(name: str) -> None:
    everyone = contenders(name, corpus(name, size=100))
    assert [contender.name for contender in everyone] == CONTENDERS
    assert [c.name for c in everyone if c.encode is None] == ["kaitai"]
    for contender in everyone:
        contender.check()
        contender.decode()
        if contender.encode is not None:
            contender.encode()


def test_a_contender_that_reads_less_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from construct import Byte, Bytes, Struct, Switch, this  # type: ignore[import-untyped]

    from benchmarks import construct_layouts

    short = Struct("length" / Bytes(2), "type" / Byte, "body" / Switch(this.type, {}))
    monkeypatch.setitem(construct_layouts.FORMATS, "comet", {"c2s": short, "s2c": short})
    ours, _, construct, *_ = contenders("comet", corpus("comet", size=100))
    ours.check()
    with pytest.raises((AssertionError, AttributeError)):
        construct.check()


def test_contenders_take_turns() -> None:
    order: list[str] = []
    passes = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    found = race(passes, messages=1, seconds=0.0, rounds=4)
    assert order[4:] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert set(found) == {"a", "b"}
    assert all(0 <= timing.best_us <= timing.median_us for timing in found.values())


def invented() -> dict[str, dict[str, dict[str, Timing]]]:
    """Figures for one protocol: Construct is exactly ten times slower, Kaitai twice."""
    decode = {name: Timing(1.0, 1.1) for name in CONTENDERS}
    decode |= {"construct": Timing(10.0, 11.0), "kaitai": Timing(2.0, 2.2)}
    encode = {name: timing for name, timing in decode.items() if name != "kaitai"}
    return {"comet": {"decode": decode, "encode": encode}}


def test_floors_and_aims_are_judged() -> None:
    started = {"wirelake --help": Startup(61.0, 40.0), "python -c pass": Startup(20.0, 15.0)}
    judged = {rule.what: rule for rule in rules(invented(), started)}
    assert judged["comet decode: speed of Construct"].holds
    assert judged["comet encode: speed of Construct"].found == 10.0
    assert not judged["comet decode: speed of Kaitai"].holds
    assert judged["comet encode: time of msgpack as array"].kind == "target"
    assert not judged["wirelake --help: time of python -c pass"].holds
    text = table(invented(), started)
    assert "MISSED" in text
    assert "holds" in text
    assert "not timed" in table(invented(), {})


def test_both_commands_start() -> None:
    found = startup(1)
    assert list(found) == ["wirelake --help", "python -c pass"]
    assert all(times.wall_ms > 0 for times in found.values())


def test_record_names_no_machine() -> None:
    import getpass
    import platform

    found = json.dumps(record(invented(), {}, {"comet": corpus("comet", 10)}, {"seconds": 1.0}))
    assert platform.node() not in found
    assert str(Path.home()) not in found
    assert getpass.getuser() not in found or len(getpass.getuser()) < 5
    assert json.loads(found)["versions"]["construct"]


def test_the_command_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results" / "wire.json"
    options = [
        "--seconds",
        "0.01",
        "--rounds",
        "2",
        "--protocols",
        "comet",
        "--startup-runs",
        "0",
    ]
    assert main(["--json", str(out), *options]) == 0
    assert "comet decode" in capsys.readouterr().out
    written = json.loads(out.read_text(encoding="utf-8"))
    assert set(written["results"]["comet"]["decode"]) == set(CONTENDERS)
    assert "kaitai" not in written["results"]["comet"]["encode"]

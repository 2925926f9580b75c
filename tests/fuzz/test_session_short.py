"""A short soak of every protocol's sessions; `make soak` runs the long one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.fuzz import session_soak, subject_esnp
from tests.fuzz.hostile import Attacker, spoil
from tests.fuzz.session_soak import MAKERS, main, run_chunk, soak
from tests.fuzz.subject import Subject
from tests.fuzz.trial import Tally, Trial

from wirelake.protocols.sansio import Closed, Failed, Session, Side
from wirelake.wire.errors import CODES

INPUTS = 5_000


@pytest.mark.parametrize("protocol", MAKERS)
def test_no_input_breaks_a_session(protocol: str) -> None:
    found = soak(protocol, INPUTS)
    assert found["crashes"] == []
    assert found["crash_count"] == 0
    assert found["inputs"] == INPUTS
    assert found["handled_share"] >= 0.5, "most inputs should get behind the decoder"
    assert set(found["codes"]) <= set(CODES)
    roles = {state.split(":")[0] for state in found["states"]}
    assert roles == {"client", "server"}
    assert len(found["states"]) >= 6
    assert any(state.endswith("busy") for state in found["states"])


def test_a_seed_gives_the_same_run() -> None:
    work = (7, "comet", 3, 400)
    assert run_chunk(work) == run_chunk(work)
    assert run_chunk(work) != run_chunk((8, "comet", 3, 400))


def test_workers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_soak, "CHUNK", 300)
    one, two = (soak("esnp", 900, workers=workers) for workers in (1, 2))
    assert {**one, "seconds": 0, "inputs_per_s": 0} == {**two, "seconds": 0, "inputs_per_s": 0}


# -- what a soak would notice -----------------------------------------------------------------


def _raises(session: Session) -> None:  # noqa: ARG001
    raise KeyError("a mistake in a session")


def _speaks_up(session: Session) -> None:
    session._emit(Failed("no_such_code", Side.REMOTE, fatal=False))


def _goes_on(session: Session) -> None:
    session._close("done", Side.LOCAL)
    session._emit(Failed("idle", Side.REMOTE))


def _without_reason(session: Session) -> None:
    session._close("", Side.LOCAL)


def _not_over(session: Session) -> None:
    session._fail("idle")


def _writes_much(session: Session) -> None:
    session._write(bytes(1_000_000))


def _holds_much(session: Session) -> None:
    session._held += bytes(100_000)


def _too_many_timers(session: Session) -> None:
    for number in range(20):
        session.timers.set(f"timer {number}", 1e9)


def _ends_twice(session: Session) -> None:
    session._close("done", Side.LOCAL)
    session._emit(Closed("again", Side.LOCAL))


@pytest.mark.parametrize(
    "fault",
    [
        _raises,
        _speaks_up,
        _goes_on,
        _without_reason,
        _not_over,
        _writes_much,
        _holds_much,
        _too_many_timers,
        _ends_twice,
    ],
)
def test_a_faulty_session_is_noticed(fault: Callable[[Session], None]) -> None:
    tally = Tally()
    for number in range(5):
        Trial(f"0 esnp 0 {number}", lambda rng: _faulty(rng, fault), tally).run()
    assert tally.crash_count
    crash = tally.crashes[0]
    assert crash.steps[-1][0] == "receive"
    assert crash.what


def _faulty(rng: Random, fault: Callable[[Session], None]) -> Subject:
    subject = subject_esnp.make(rng)
    inner = subject.sessions[0]._handle

    def handle(*given: object) -> None:
        inner(*given)  # type: ignore[arg-type]
        fault(subject.sessions[0])

    subject.sessions[0]._handle = handle  # type: ignore[method-assign, assignment]
    return subject


def test_a_crash_is_reported_and_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(MAKERS, "esnp", lambda rng: _faulty(rng, _raises))
    record = tmp_path / "deep" / "sessions.json"
    asked = ["--inputs", "50", "--protocols", "esnp", "--workers", "1", "--json", str(record)]
    assert main(asked) == 1
    found = json.loads(record.read_text("utf-8"))["protocols"]["esnp"]
    assert found["crash_count"] >= 1
    crash = found["crashes"][0]
    assert "a mistake in a session" in crash["what"]
    assert bytes.fromhex(crash["steps"][-1][3])
    capsys.readouterr()
    assert main(["--replay", crash["key"]]) == 1
    assert crash["steps"][-1][3] in capsys.readouterr().out


def test_a_clean_run_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inputs", "40", "--protocols", "comet,relay", "--workers", "1"]) == 0
    assert capsys.readouterr().out.count("0 crashes") == 2
    with pytest.raises(SystemExit):
        main(["--protocols", "smtp"])


# -- the attacker -----------------------------------------------------------------------------


def test_spoiling_changes_most_inputs_and_takes_any_bytes() -> None:
    rng = Random(1)
    changed = sum(
        spoil(rng, b"a frame of some bytes") != b"a frame of some bytes" for _ in range(500)
    )
    assert changed > 450
    assert spoil(rng, b"") == b""
    assert all(isinstance(spoil(rng, b"\0"), bytes) for _ in range(200))


def test_attackers_send_many_kinds_of_input() -> None:
    attacker = Attacker(Random(2), lambda: b"frame.")
    said = {attacker.next() for _ in range(400)}
    assert {b"frame.", b"frame.frame."} <= said
    assert any(data and b"frame.".startswith(data) and data != b"frame." for data in said)
    assert len(said) > 80
    assert b"" not in said

"""A few kills of the hub under traffic; `make soak` does a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hub_kills.killing import run_sweep_with_kills, run_with_crashes, run_with_kills
from tests.hub_kills.ledger import Ledger, Piece


@pytest.mark.both_stores
def test_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    judgement = run_with_kills(tmp_path, kills=5, seed=20)
    assert judgement.problems == []
    assert judgement.confirmed > 50
    assert judgement.delivered > judgement.confirmed


def test_nothing_confirmed_is_lost_when_postgresql_crashes(tmp_path: Path) -> None:
    judgement = run_with_crashes(tmp_path, kills=2, seed=20)
    assert judgement.problems == []
    assert judgement.confirmed > 20


@pytest.mark.both_stores
def test_the_sweep_under_load_loses_nothing_and_keeps_the_quota(tmp_path: Path) -> None:
    judgement = run_sweep_with_kills(tmp_path, kills=2, seed=4)
    assert judgement.problems == []
    assert judgement.confirmed > 2_000


_ONE, _TWO = Piece("keyed", 1, topic="@t"), Piece("keyed", 2, topic="@t")
_ID_1, _ID_2 = "m000000100000001", "m000000000000002"


def _ledger(*arrivals: tuple[str, Piece]) -> list[str]:
    ledger = Ledger()
    ledger.subscribed("c", "@t")
    for piece, id in ((_ONE, _ID_1), (_TWO, _ID_2)):  # noqa: A001
        ledger.trying(piece)
        ledger.confirmed(piece, id)
    for id, piece in arrivals:  # noqa: A001
        ledger.arrived("c", id, piece.content)
    return ledger.judge().problems


def test_the_ledger_accepts_repetitions() -> None:
    assert _ledger((_ID_1, _ONE), (_ID_2, _TWO), (_ID_1, _ONE)) == []


@pytest.mark.parametrize(
    ("arrivals", "said"),
    [
        pytest.param([(_ID_1, _ONE)], "never got", id="lost"),
        pytest.param([(_ID_2, _TWO), (_ID_1, _ONE)], "after", id="out of order"),
        pytest.param([(_ID_1, _ONE), (_ID_2, _TWO), ("m000000f00000002", _TWO)], "ids", id="twice"),
        pytest.param(
            [(_ID_1, _ONE), (_ID_2, _TWO), (_ID_2, Piece("nobody", 1))], "nobody", id="invented"
        ),
        pytest.param(
            [(_ID_1, _ONE), (_ID_2, _TWO), ("p", Piece("keyed", 1, client="d"))],
            "got",
            id="somebody else's",
        ),
    ],
)
def test_the_ledger_detects_errors(arrivals: list[tuple[str, Piece]], said: str) -> None:
    problems = _ledger(*arrivals)
    assert problems
    assert said in " ".join(problems)

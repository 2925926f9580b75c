"""What folds save: it goes to whichever share it belongs to, and foreign bytes are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.columnar.folding import windows_of
from tests.columnar.folding_scenes import window_of
from tests.records.scenes import ask

from wirelake.capture.record.recorder import Recorder
from wirelake.columnar.fold import Fold, FoldState, TunnelFold
from wirelake.columnar.fold.event_builder import id_hash, id_hashes
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.records.rows import Opened
from wirelake.traffic import simulate

HASHES = {1: 10, 2: 11, 3: 12}


def _saved() -> FoldState:
    """Three connections, each with an open call; the last one waits."""
    fold = Fold()
    events = [Opened(each, each) for each in HASHES]
    asked = [ask(9, 7, connection=each) for each in HASHES]
    list(fold.window(window_of([*events, *asked], {3: 5})))
    return FoldState.from_bytes(fold.save(HASHES).to_bytes())


def _left(fold: Fold) -> set[tuple[str, Any]]:
    return {
        (table, row["connection"]) for table, batch in fold.finish() for row in batch.to_pylist()
    }


@pytest.mark.parametrize("shares", [1, 2, 3, 5])
def test_each_connection_goes_to_its_share(shares: int) -> None:
    state = _saved()
    for share in range(shares):
        mine = [each for each, number in HASHES.items() if number % shares == share]
        wanted = {(table, each) for table in ("calls", "connections") for each in mine}
        assert _left(Fold(share=share, shares=shares, state=[state])) == wanted


def test_a_state_serves_more_than_once() -> None:
    state = _saved()
    before = state.to_bytes()
    assert _left(Fold(state=[state])) == _left(Fold(state=[state]))
    assert state.to_bytes() == before


def test_the_hash_of_an_id_is_that_of_the_front_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, source="edge")
    numbers = [1, 77, (1 << 63) - 1, 0x0123456789ABCDEF]
    for number in numbers:
        recorder.open(number, ("10.0.0.1", 50_000), ("10.0.0.2", 80), "comet", 0)
    recorder.stop()
    pipeline = CapturePipeline(sorted(tmp_path.glob("*.pcapng")), tables=("connections",))
    for window in pipeline.windows(last=False):
        list(window)
    assert pipeline.save().hashes() == {number: id_hash(number) for number in numbers}
    assert id_hashes(np.array(numbers)).tolist() == [id_hash(number) for number in numbers]


def test_little_state_is_kept_when_all_connections_have_ended(tmp_path: Path) -> None:
    simulate(tmp_path, size=300_000, seed=2, jobs=1)
    fold = Fold()
    for window in windows_of(sorted(map(str, tmp_path.glob("*.pcap*")))):
        list(fold.window(window))
    known = fold.save({}).memory
    assert not (known.connections["closed_ns"].to_numpy() >= 0).any()
    known.check()


def test_the_state_of_another_fold_is_refused() -> None:
    with pytest.raises(ValueError, match="expected state of kind 'fold', found b'tunnels'"):
        FoldState.from_bytes(TunnelFold().save())
    with pytest.raises(ValueError, match="expected the state of share 1 of 2, found share 0 of 2"):
        TunnelFold(1, 2, TunnelFold(0, 2).save())

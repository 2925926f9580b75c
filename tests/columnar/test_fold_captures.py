"""Over simulated captures folds give the rows of the engines, in however many steps and shares."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.capture.frames_made import talk
from tests.capture.tcp_made import T0, Call, write
from tests.columnar.folding import (
    Steps,
    Window,
    differences,
    engine_rows,
    fold_rows,
    read_rows,
    windows_of,
)
from tests.columnar.steps import split
from tests.lake.lakes import columnar_rows, reference_rows, unlike

from wirelake.protocols import registry
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow


def _simulated(folder: Path, style: str, faults: float, size: int, seed: int) -> list[Window]:
    simulate(folder, size=size, seed=seed, faults=faults, style=style, jobs=1)
    files = sorted(str(path) for path in folder.glob("*.pcap*"))
    keys = sorted(str(path) for path in folder.glob("*.keys"))
    return windows_of(files, keys=keys, window_bytes=100_000)


@pytest.mark.parametrize(
    ("faults", "style"),
    [
        (0.01, "recorder"),
        (0.0, "tcpdump"),
        pytest.param(0.0, "recorder", marks=pytest.mark.soak),
        pytest.param(0.01, "tcpdump", marks=pytest.mark.soak),
    ],
)
def test_the_rows_are_those_of_the_engines(tmp_path: Path, style: str, faults: float) -> None:
    windows = _simulated(tmp_path, style, faults, size=1_000_000, seed=3)
    assert len(windows) > 10
    [given] = fold_rows(windows, [(len(windows), 1)])
    wanted = engine_rows(windows)
    assert all(wanted.values())
    assert differences(wanted, given) == []
    assert differences(wanted, read_rows(windows)) == []


@pytest.mark.parametrize("style", ["recorder", "tcpdump"])
def test_cut_into_steps_with_other_shares_each(tmp_path: Path, style: str) -> None:
    windows = _simulated(tmp_path, style, 0.01, size=1_000_000, seed=4)
    chance = random.Random(5)
    cuts = sorted(chance.sample(range(1, len(windows)), 5))
    steps = [(cut, chance.randint(1, 4)) for cut in [*cuts, len(windows)]]
    for (stop, _), given in zip(steps, fold_rows(windows, steps), strict=True):
        assert differences(engine_rows(windows[:stop]), given) == []


@pytest.mark.parametrize("style", ["recorder", "tcpdump"])
def test_with_pipelines_that_go_on(tmp_path: Path, style: str) -> None:
    simulate(tmp_path, size=400_000, seed=6, faults=0.01, style=style, jobs=1)
    keys = sorted(str(path) for path in tmp_path.glob("*.keys"))
    chance = random.Random(7)
    first, *_ = sorted(tmp_path.glob("*.pcap*"))
    taken, files = Steps(), list[str]()
    for path in split(first, 4, chance):
        files.append(path)
        given = taken.files([path], chance.randint(1, 3), keys=keys, window_bytes=60_000)
        assert differences(engine_rows(windows_of(files, keys=keys)), given) == []


@pytest.mark.parametrize("seed", range(16))
def test_ends_of_streams_at_one_time(tmp_path: Path, seed: int) -> None:
    """All packets have one time: only the order of messages tells requests from answers."""
    rng = random.Random(seed)
    protocol = ["comet", "tny", "magline", "esnp"][seed % 4]
    port = registry.find(protocol).port
    assert port is not None
    call = Call(port)
    said = list(talk(protocol, 4))
    rng.shuffle(said)
    for way, frame in said:
        if rng.random() < 0.2:
            call.lose(way, 5)
        call.say(way, frame)
    packets = [replace(each, ts_ns=T0) for each in call.packets]
    path = write(tmp_path / "one.pcap", packets)
    assert unlike(columnar_rows([path], []), reference_rows([path], [])) == []

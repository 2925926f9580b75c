"""`wirehouse demo`: what it prints comes from Spark and is the truth, and it cleans up."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wirehouse.cli import demo, demo_figures
from wirehouse.cli.demo_buoys import SECTION as BUOYS
from wirehouse.cli.demo_figures import SECTIONS, Figures, Findings, Truth
from wirehouse.lake.java import JavaError
from wirehouse.traffic import simulate

from .conftest import Run

ALL = (*SECTIONS, BUOYS)


def test_every_figure_equals_the_truth(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = run("demo", "--size", "400kB", "--seed", "2", "--faults", "0.01")
    assert (found.code, found.err) == (0, "")
    assert "All figures equal the truth: " in found.out
    for section in ALL:
        assert section.title in found.out
    assert "shop/checkout" in found.out
    assert "Santa Rosa" in found.out
    assert not list(tmp_path.glob("wirehouse-demo-*"))


# -- with a Spark that says what the test wants --------------------------------------------------


class FakeSpark:
    """Answers each query with the truth, but for what a test alters."""

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]]):
        self._answers = answers
        self.stopped = False

    @property
    def read(self) -> FakeSpark:
        return self

    def sql(self, query: str) -> FakeSpark:
        found = FakeSpark(self._answers)
        found._rows = self._answers[query]
        return found

    def collect(self) -> list[tuple[Any, ...]]:
        return self._rows

    def stop(self) -> None:
        self.stopped = True

    def _same(self, *_: str) -> FakeSpark:
        return self

    _rows: list[tuple[Any, ...]]
    format = option = load = cache = createOrReplaceTempView = _same  # noqa: N815 - Spark's


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated folder."""
    folder = tmp_path_factory.mktemp("demo") / "captures"
    simulate(folder, size="200kB", seed=3, jobs=1)
    return folder


@pytest.fixture
def answers(kept: Path) -> dict[str, list[tuple[Any, ...]]]:
    """By query: the rows that are right."""
    truth = Truth(kept)
    return {
        section.query: [(*key, *values) for key, values in section.truth(truth).items()]
        for section in ALL
    }


@pytest.fixture
def fake(
    kept: Path, answers: dict[str, list[tuple[Any, ...]]], monkeypatch: pytest.MonkeyPatch
) -> FakeSpark:
    """The demo runs with this Spark, on that folder."""
    found = FakeSpark(answers)

    @contextmanager
    def no_kernels() -> Iterator[Any]:
        yield type("Done", (), {"wait": lambda _: None})()

    monkeypatch.setattr("wirehouse.lake.session", lambda _: found)
    monkeypatch.setattr("wirehouse.traffic.simulate", lambda *_, **__: summary(kept))
    monkeypatch.setattr(demo, "_kernels", no_kernels)
    return found


def summary(folder: Path) -> Any:
    return type("Summary", (), json.loads((folder / "truth.json").read_text()))


def test_the_right_answers_pass(run: Run, kept: Path, fake: FakeSpark) -> None:
    found = run("demo", "--keep", str(kept))
    assert (found.code, found.err) == (0, "")
    count = sum(len(row) for section in ALL for row in section.truth(Truth(kept)).values())
    assert f"All figures equal the truth: {count} of {count}." in found.out
    assert fake.stopped


def test_the_first_difference_is_named(
    run: Run, kept: Path, fake: FakeSpark, answers: dict[str, list[tuple[Any, ...]]]
) -> None:
    rows = answers[SECTIONS[2].query]
    outcome, count = rows[0]
    rows[0] = (outcome, count + 1)
    found = run("demo", "--keep", str(kept))
    assert found.code == 1
    assert found.err == (
        f"wirehouse: not the truth: Deliveries by outcome, {outcome}, notifications:"
        f" {count + 1} in Spark, {count} in truth\n"
    )
    assert "All figures" not in found.out
    assert fake.stopped


def test_wrong_rows_of_the_example_protocol_are_named(
    run: Run, kept: Path, fake: FakeSpark, answers: dict[str, list[tuple[Any, ...]]]
) -> None:
    answers[BUOYS.query] = []
    found = run("demo", "--keep", str(kept))
    assert found.code == 1
    assert found.err == (
        "wirehouse: not the truth: weather: a protocol of one's own, Old Tom: missing in Spark"
        " (and 2 more)\n"
    )
    assert fake.stopped


def test_a_failing_query_is_one_line(
    run: Run, kept: Path, fake: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: str) -> None:
        raise RuntimeError("Traceback\n  File x\nValueError: bad.keys, line 2: not JSON\nat y\n")

    monkeypatch.setattr(demo_figures, "compute", fail)
    found = run("demo", "--keep", str(kept))
    assert found.code == 1
    assert found.err == (
        "wirehouse: Spark failed: ValueError: bad.keys, line 2: not JSON;"
        " WIREHOUSE_DEBUG=1 shows everything\n"
    )
    assert fake.stopped


def test_spark_that_does_not_start_is_one_line(
    run: Run, kept: Path, fake: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    monkeypatch.setattr("wirehouse.lake.session", fail)
    found = run("demo", "--keep", str(kept))
    assert found.code == 1
    assert "Spark does not start: [JAVA_GATEWAY_EXITED] Java gateway" in found.err
    assert not fake.stopped


def test_without_java_it_says_so_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise JavaError("Spark needs Java, and there is none: install it")

    monkeypatch.setattr("wirehouse.lake.java.find_java", none)
    found = run("demo")
    assert (found.code, found.out) == (2, "")
    assert found.err == "wirehouse: Spark needs Java, and there is none: install it\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--size", "big"], "size"), (["--size", "0"], "size"), (["--faults", "2"], "faults")],
)
def test_bad_usage(run: Run, arguments: list[str], said: str) -> None:
    found = run("demo", *arguments)
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert said in found.err


def test_a_folder_to_keep_must_be_empty(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = run("demo", "--keep", str(tmp_path))
    assert found.code == 2
    assert "not empty" in found.err


# -- comparing -----------------------------------------------------------------------------------


def test_differences() -> None:
    section = SECTIONS[0]
    truth: Figures = {("a", "x"): (1, 1, 0, 5, 9), ("a", "y"): (1, 0, 0, None, None)}
    found: Figures = {("a", "x"): (1, 1, 0, 6, 9), (None, "z"): (1, 0, 0, None, None)}

    def wrong(figures: Figures) -> list[str]:
        return Findings(Any, [(section, figures, truth)]).differences()

    assert wrong(dict(truth)) == []
    assert wrong(found) == [
        "Calls by target, without z: in Spark, but not in the truth",
        "Calls by target, a x, p50_ns: 6 in Spark, 5 in truth",
        "Calls by target, a y: missing in Spark",
    ]

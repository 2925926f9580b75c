"""The runner of vector files: all pass, altered ones fail, and nothing ends in a traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wirelake.conformance.runner import ADAPTERS, Report, Suite, load, main

from . import mutation
from .excuses import EXCUSES
from .mutation import MutationReport

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "vectors"
FILES = [FOLDER / f"{protocol}.jsonl" for protocol in ADAPTERS]
GOOD = {
    "name": "empty",
    "protocol": "esnp",
    "origin": "hand-derived",
    "notes": "",
    "revision": "lines",
    "hex": "00000000",
    "expect": {"rows": []},
}

Runner = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    """Runs vectors (objects, or lines of text) and returns the exit code and the lines."""

    def runner(*vectors: dict[str, Any] | str, mutate: bool = False) -> tuple[int, list[str]]:
        file = tmp_path / "some.jsonl"
        lines = [v if isinstance(v, str) else json.dumps(v) for v in vectors]
        file.write_text("\n".join(lines), encoding="utf-8")
        out: list[str] = []
        return (mutation.main if mutate else main)([file], out=out.append), out

    return runner


def count(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_passes(file: Path) -> None:
    out: list[str] = []
    assert main([file], out=out.append) == 0
    assert out == [f"{count(file)} passed, 0 failed, 0 skipped"]


@pytest.fixture(scope="module")
def altered() -> MutationReport:
    """What comes out when everything is altered."""
    suite = load(FILES)
    return mutation.check(suite, suite.cases)


def test_every_alteration_is_noticed_or_excused(altered: MutationReport) -> None:
    assert altered.failures == []
    assert altered.tried == altered.caught + altered.excused.total()
    assert altered.tried > 20_000
    assert altered.excused.total() < altered.tried / 20
    *_, summary, last = altered.lines()
    assert summary.startswith(f"alterations: {altered.tried} tried, {altered.caught} caught, ")
    assert summary.endswith(", 0 unnoticed")
    assert last == f"{sum(map(count, FILES))} passed, 0 failed, 0 skipped"


def test_every_excuse_is_needed(altered: MutationReport) -> None:
    known = {excuse.name for protocol in ADAPTERS for excuse in EXCUSES[protocol]}
    # These two are needed by kinds of vectors that the files have no example of.
    assert known - set(altered.excused) == {"esnp-nan-bits", "tny-unknown-field-not-mentioned"}


def test_reasons_why_a_vector_passes_are_noted() -> None:
    suite = load(FILES)
    notes = suite.check(suite.cases).notes
    assert sorted(notes.values()) == [1, 2, 10]


def test_every_vector_alone_finds_what_it_refers_to() -> None:
    """Files may be run by themselves: the handshakes that vectors refer to are known."""
    suite = load(FILES)
    for case in suite.cases:
        alone = Suite([case])
        alone.context.vectors = {case.protocol: [case.vector]}
        assert alone.check([case]).failures == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"expect": {"rows": [{"row": "FLAG"}]}}, "expect.rows: expected 1 items, got 0"),
        ({"hex": "0000000"}, "vector.hex: not hexadecimal"),
        ({"hex": "00"}, "need at least 3 more bytes"),
        ({"expect": {"rows": [], "colour": "red"}}, "expect.colour: unknown key"),
        ({"colour": "red"}, "vector.colour: unknown key"),
        (
            {"protocol": "smtp"},
            "unknown protocol 'smtp'; expected one of comet, esnp, magline, tny",
        ),
        ({"protocol": 5}, "unknown protocol 5; expected one of comet, esnp, magline, tny"),
        ({"name": 5}, "vector.name"),
    ],
)
def test_a_broken_vector_is_one_line(run: Runner, change: dict[str, Any], text: str) -> None:
    code, out = run(GOOD, {**GOOD, **change})
    assert code == 1
    assert len(out) == 2
    assert out[0].startswith("some.jsonl:2 ")
    assert text in out[0]
    assert out[1] == "1 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "some.jsonl:2: not JSON"),
        ("[" * 100_000, "some.jsonl:2: not JSON"),
        ("[]", "some.jsonl:2: not an object"),
        ("{}", "some.jsonl:2: has no name, protocol, hex, expect"),
        ('{"name":"n","protocol":"esnp","hex":""}', "has no expect"),
        ('{"name":"n","protocol":"esnp","hex":"","expect":[]}', "expect must be an object"),
        ('{"name":"n","protocol":"esnp","hex":5,"expect":{}}', "hex a string"),
    ],
)
def test_a_malformed_line_is_one_line(run: Runner, line: str, text: str) -> None:
    code, out = run(GOOD, line)
    assert code == 1
    assert len(out) == 2
    assert text in out[0]
    assert out[1] == "1 passed, 1 failed, 0 skipped"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary, empty = tmp_path / "binary", tmp_path / "empty"
    binary.write_bytes(b"\xff\xfe")
    empty.write_text("\n\n")
    out: list[str] = []
    assert main([tmp_path / "nowhere", tmp_path, binary, empty], out=out.append) == 2
    assert len(out) == 5
    assert all("\n" not in line for line in out)
    assert out[0] == f"cannot read {tmp_path / 'nowhere'}: No such file or directory"
    assert out[2] == f"cannot read {binary}: not UTF-8"
    assert out[3] == f"{empty}: contains no vectors"
    assert out[4] == "0 passed, 0 failed, 0 skipped"


def test_blank_lines_do_not_count(run: Runner) -> None:
    assert run("", GOOD, "", GOOD, "") == (0, ["2 passed, 0 failed, 0 skipped"])


def test_an_unnoticed_alteration_is_a_failure(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.conformance.esnp.run", lambda *_: None)
    code, out = run({**GOOD, "hex": "", "expect": {"rows": []}}, mutate=True)
    assert code == 1
    assert out == [
        "some.jsonl:1 empty: altered expect.rows, and it still passes",
        "alterations: 1 tried, 0 caught, 0 excused, 1 unnoticed",
        "0 passed, 1 failed, 0 skipped",
    ]


def test_a_defect_of_the_runner_is_one_line_and_never_counts_as_noticed(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(vector: dict[str, Any], context: object) -> None:
        del context
        if vector["expect"] != GOOD["expect"]:
            raise TypeError("two\nlines")

    monkeypatch.setattr("wirelake.conformance.esnp.run", fail)
    code, out = run({**GOOD, "hex": ""}, mutate=True)
    assert code == 1
    assert "altered expect.rows: internal error in the adapter: TypeError: two lines" in out[0]


def test_reports_add_up() -> None:
    suite = load(FILES)
    whole = suite.check(suite.cases)
    parts = Report()
    for start in range(0, len(suite.cases), 100):
        parts += suite.check(suite.cases[start : start + 100])
    assert parts == whole


@pytest.mark.parametrize("protocol", ADAPTERS)
def test_excuses_have_a_reason(protocol: str) -> None:
    for excuse in EXCUSES[protocol]:
        assert re.fullmatch(f"{protocol}-[a-z-]+", excuse.name)
        assert len(excuse.reason) > 20

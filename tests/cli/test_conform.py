"""`wirelake conform`: the files go to the runner, its exit code comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from wirelake.conformance import runner

from .conftest import Run


@pytest.mark.parametrize("code", [0, 1, 2])
def test_it_runs_the_vectors(run: Run, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls: list[Sequence[str]] = []

    def main(files: Sequence[str], out: object, *, as_json: bool) -> int:  # noqa: ARG001
        assert not as_json
        calls.append(list(files))
        return code

    monkeypatch.setattr(runner, "main", main)
    assert run("conform", "a.jsonl", "b.jsonl").code == code
    assert calls == [["a.jsonl", "b.jsonl"]]


def test_json(run: Run, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.jsonl"
    vectors.write_text('{"name": "n", "protocol": "x", "hex": "", "expect": {}}\n')
    found = run("conform", str(vectors), "no/such/file.jsonl", "--json")
    assert found.code == 2
    report = json.loads(found.out)
    assert (report["passed"], report["failed"], report["skipped"]) == (0, 1, 0)
    assert report["failures"][0].startswith("vectors.jsonl:1 n: unknown protocol 'x'; expected")
    assert report["unreadable"] == ["cannot read no/such/file.jsonl: No such file or directory"]


def test_a_missing_file_exits_with_2(run: Run) -> None:
    found = run("conform", "no/such/file.jsonl")
    assert found.code == 2
    assert found.lines[0] == "cannot read no/such/file.jsonl: No such file or directory"
    assert found.lines[-1] == "0 passed, 0 failed, 0 skipped"

"""`wirelake conform`: the files go to the runner, its exit code comes back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wirelake.conformance import runner

from .conftest import Run


@pytest.mark.parametrize("code", [0, 1, 2])
def test_it_runs_the_vectors(run: Run, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls: list[Sequence[str]] = []

    def main(files: Sequence[str]) -> int:
        calls.append(list(files))
        return code

    monkeypatch.setattr(runner, "main", main)
    assert run("conform", "a.jsonl", "b.jsonl").code == code
    assert calls == [["a.jsonl", "b.jsonl"]]


def test_a_missing_file_exits_with_2(run: Run) -> None:
    found = run("conform", "no/such/file.jsonl")
    assert found.code == 2
    assert found.lines[0] == "cannot read no/such/file.jsonl: No such file or directory"
    assert found.lines[-1] == "0 passed, 0 failed, 0 skipped"

"""`wirelake conform`: the files go to the runner, its exit code comes back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wirelake.conformance import runner

from .conftest import Run


@pytest.mark.parametrize("code", [0, 1])
def test_it_runs_the_vectors(run: Run, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls: list[Sequence[str]] = []

    def main(files: Sequence[str]) -> int:
        calls.append(list(files))
        return code

    monkeypatch.setattr(runner, "main", main)
    assert run("conform", "a.jsonl", "b.jsonl").code == code
    assert calls == [["a.jsonl", "b.jsonl"]]


def test_a_missing_file_is_a_failure(run: Run) -> None:
    found = run("conform", "no/such/file.jsonl")
    assert found.code == 1
    assert found.lines[0].startswith("no/such/file.jsonl: cannot be read")
    assert found.lines[-1] == "0 passed, 1 failed, 0 skipped"

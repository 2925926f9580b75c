"""`wirelake conform`: the files and the flag go to the runner, its exit code comes back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wirelake.protocols import conform

from .conftest import Run


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("mutate", [False, True])
def test_it_runs_the_vectors(
    run: Run, monkeypatch: pytest.MonkeyPatch, mutate: bool, code: int
) -> None:
    calls: list[tuple[Sequence[str], bool]] = []

    def main(files: Sequence[str], mutate: bool) -> int:
        calls.append((list(files), mutate))
        return code

    monkeypatch.setattr(conform, "main", main)
    found = run("conform", "a.jsonl", "b.jsonl", *(["--mutate"] if mutate else []))
    assert found.code == code
    assert calls == [(["a.jsonl", "b.jsonl"], mutate)]


def test_a_missing_file_is_a_failure(run: Run) -> None:
    found = run("conform", "no/such/file.jsonl")
    assert found.code == 1
    assert found.lines[0].startswith("no/such/file.jsonl: cannot be read")
    assert found.lines[-1] == "0 passed, 1 failed, 0 skipped"

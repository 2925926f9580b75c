"""`wirelake user`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wirelake.cli.main import main
from wirelake.hub.roles import Role


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["user", *args])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_add_list_rotate_remove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(tmp_path / "data"))
    code, token, _ = run(capsys, "add", "anna", "--role", "viewer", *data)
    assert code == 0
    assert len(token.strip()) == 44
    run(capsys, "add", "prometheus", "--role", "metrics", "--expires", "0", *data)
    anna, prometheus = run(capsys, "list", *data)[1].splitlines()
    assert anna.startswith("anna  viewer  expires 20")
    assert prometheus == "prometheus  metrics"
    rows = [json.loads(line) for line in run(capsys, "list", "--json", *data)[1].splitlines()]
    assert [(row["id"], row["role"]) for row in rows] == [
        ("anna", "viewer"),
        ("prometheus", "metrics"),
    ]
    assert token.strip() not in json.dumps(rows)
    code, fresh, _ = run(capsys, "rotate", "anna", "--overlap", "1d", *data)
    assert code == 0
    assert fresh != token
    assert run(capsys, "remove", "anna", *data) == (0, "", "")
    assert run(capsys, "list", *data)[1] == "prometheus  metrics\n"


@pytest.mark.parametrize(
    "args",
    [
        ("add", "anna", "--role", "viewer"),
        ("add", "", "--role", "viewer"),
        ("rotate", "ben"),
        ("remove", "ben"),
        ("add", "ben", "--role", "viewer", "--expires", "1000000d"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    data = ("--data", str(tmp_path))
    run(capsys, "add", "anna", "--role", "viewer", *data)
    code, output, errors = run(capsys, *args, *data)
    assert (code, output) == (2, "")
    assert errors.startswith("wirelake: ")
    assert errors.count("\n") == 1


def test_help_lists_the_roles(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, "--help")
    assert code == 0
    for role in Role:
        assert f"  {role.label:<8}  {role.meaning}\n" in output
    code, _, errors = run(capsys, "add", "anna", "--role", "boss")
    assert code == 2
    assert "boss" in errors

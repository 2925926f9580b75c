"""`wirelake client`."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from wirelake.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["client", *args])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_add_list_rotate_remove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(tmp_path / "data"))
    code, token, _ = run(capsys, "add", "anna", *data)
    assert code == 0
    assert len(token.strip()) == 44
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    run(capsys, "add", "ben", *data)
    assert run(capsys, "list", *data)[1] == "anna\nben\n"
    rows = [json.loads(line) for line in run(capsys, "list", "--json", *data)[1].splitlines()]
    assert [row["id"] for row in rows] == ["anna", "ben"]
    assert token.strip() not in json.dumps(rows)
    code, fresh, _ = run(capsys, "rotate", "anna", *data)
    assert code == 0
    assert fresh != token
    assert run(capsys, "remove", "anna", *data) == (0, "", "")
    assert run(capsys, "list", *data)[1] == "ben\n"


def test_tokens_that_expire(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(tmp_path))
    assert run(capsys, "add", "anna", "--expires", "90d", *data)[0] == 0
    shown = run(capsys, "list", *data)[1]
    assert re.fullmatch(r"anna  expires 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", shown)
    code, _, _ = run(capsys, "rotate", "anna", "--overlap", "1h", *data)
    assert code == 0
    row = json.loads(run(capsys, "list", "--json", *data)[1])
    assert row["expires_ms"] == 0
    assert row["old_expires_ms"] > row["created_ms"]
    code, output, errors = run(capsys, "rotate", "anna", "--overlap", "soon", *data)
    assert (code, output) == (2, "")
    assert "'soon'" in errors


@pytest.mark.parametrize(
    "args", [("add", "anna"), ("add", ""), ("add", "~x"), ("rotate", "ben"), ("remove", "ben")]
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, str]
) -> None:
    data = ("--data", str(tmp_path))
    run(capsys, "add", "anna", *data)
    code, output, errors = run(capsys, *args, *data)
    assert (code, output) == (2, "")
    assert errors.startswith("wirelake: ")
    assert errors.count("\n") == 1


def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    code, _, errors = run(capsys, "add", "~x", "--data", str(data))
    assert (code, "invalid client id" in errors) == (2, True)
    assert not data.exists()
    data.mkdir()
    for args in (("list",), ("rotate", "anna"), ("remove", "anna")):
        code, _, errors = run(capsys, *args, "--data", str(data))
        assert code == 2
        assert "not the data directory of a hub" in errors
        assert list(data.iterdir()) == []


def test_a_hub_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run(capsys, "list", "--data", str(tmp_path / "nowhere"))
    assert code == 2
    assert "no such directory" in errors
    assert not (tmp_path / "nowhere").exists()


def test_the_configuration_names_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(f'[store]\npath = "{tmp_path / "other.sqlite3"}"\n')
    place = ("--data", str(tmp_path / "data"), "--config", str(config))
    assert run(capsys, "add", "anna", *place)[0] == 0
    assert (tmp_path / "other.sqlite3").exists()
    config.write_text("[store]\npth = 1\n")
    code, _, errors = run(capsys, "list", *place)
    assert code == 2
    assert "pth" in errors

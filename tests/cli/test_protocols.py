"""`wirelake protocols`: lists, layouts, reference pages, Kaitai files."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from wirelake.protocols import registry
from wirelake.protocols.registry import BUILT_IN

from .conftest import Run


@pytest.fixture(autouse=True)
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is installed does not matter here."""
    monkeypatch.setattr(registry, "_points", list)


def test_the_list(run: Run) -> None:
    found = run("protocols")
    assert found.code == 0
    assert [line.split()[0] for line in found.lines] == list(BUILT_IN)
    assert "comet     comet: mobile push  (seed, hipush)" in found.lines


def test_the_list_as_json(run: Run) -> None:
    found = {each["name"]: each for each in map(json.loads, run("protocols", "--json").lines)}
    assert list(found) == list(BUILT_IN)
    assert found["comet"]["directed"] is True
    assert "auth" in found["comet"]["layouts"]


def test_a_broken_package_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("thermo", "no_such_module:P", registry.GROUP)]
    monkeypatch.setattr(registry, "_points", lambda: points)
    found = run("protocols")
    assert found.code == 0
    assert len(found.lines) == len(BUILT_IN)
    assert found.err.count("\n") == 1
    assert "does not load: ModuleNotFoundError" in found.err
    used = run("decode", "thermo", "--hex", "00")
    assert used.code == 1
    assert used.err.count("\n") == 1


# -- show ------------------------------------------------------------------------------------


def test_show_a_layout(run: Run) -> None:
    found = run("protocols", "show", "comet.auth")
    assert found.code == 0
    assert found.lines[0] == "comet.auth  dialect seed  auth消息体{type=0}"
    assert "A client signs on; the answer is auth_success or error." in found.lines
    assert any(line.startswith("     0  2 + n  client_id  UTF-8 text") for line in found.lines)
    assert any("token" in line and line.endswith("secret") for line in found.lines)


def test_show_a_protocol(run: Run) -> None:
    found = run("protocols", "show", "magline")
    assert "0x0009       fin" in found.out
    assert "Layouts: resume, syn" in found.out


@pytest.mark.parametrize("name", BUILT_IN)
def test_show_describes_the_keys_of_decode(run: Run, name: str) -> None:
    found = run("protocols", "show", name)
    sealed = registry.find(name).opener is not None
    assert ("\nKeys of wirelake decode --keys: {" in found.out) == sealed


def test_show_in_a_dialect(run: Run) -> None:
    seed = run("protocols", "show", "tny.message").out
    upstream = run("protocols", "show", "tny.message", "--dialect", "upstream").out
    assert "forward_header " in seed
    assert "  headers " in upstream


def test_show_as_json(run: Run) -> None:
    found = json.loads(run("protocols", "show", "comet.auth", "--json").out)
    assert [field["name"] for field in found["fields"]] == ["client_id", "token"]
    assert [field["secret"] for field in found["fields"]] == [False, True]
    frame = json.loads(run("protocols", "show", "comet", "--json").out)
    assert {"tag": 0, "direction": "s2c", "layout": "ok"} in frame["alternatives"]


def test_show_a_layout_without_fields(run: Run) -> None:
    assert "No fields." in run("protocols", "show", "comet.heartbeat").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nope", "expected one of esnp, tny"),
        ("comet.nope", "unknown layout 'nope' of comet; expected one of frame, auth"),
        ("", "unknown protocol"),
    ],
)
def test_show_what_is_not_there(run: Run, name: str, words: str) -> None:
    found = run("protocols", "show", name)
    assert (found.code, found.out) == (2, "")
    assert words in found.err


# -- files -----------------------------------------------------------------------------------


def test_reference(run: Run, tmp_path: Path) -> None:
    page = run("protocols", "reference", "comet")
    assert page.out.startswith("# comet: mobile push\n")
    folder = tmp_path / "new" / "pages"
    found = run("protocols", "reference", "-o", str(folder))
    assert found.code == 0
    names = {f"{name}.md" for name in (*BUILT_IN, "errors")}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "comet.md").read_text(encoding="utf-8") == page.out


def test_ksy(run: Run, tmp_path: Path) -> None:
    assert run("protocols", "ksy", "tny", "--dialect", "upstream").out.count("meta:") == 1
    found = run("protocols", "ksy", "comet", "-o", str(tmp_path))
    assert found.code == 0
    names = ["comet_c2s", "comet_hipush_c2s", "comet_hipush_s2c", "comet_s2c"]
    assert sorted(path.stem for path in tmp_path.iterdir()) == names


def test_output_that_is_no_folder(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for command in ("reference", "ksy"):
        found = run("protocols", command, "comet", "-o", str(file))
        assert found.code == 2
        assert "not a folder" in found.err

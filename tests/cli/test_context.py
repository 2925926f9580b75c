"""Saved contexts: private files, used where a command has no URL."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Run
from .hub_in_thread import CLIENT, Hubs, hubs_in_thread

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("WIRELAKE_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config" / "wirelake"


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hubs]:
    with hubs_in_thread(tmp_path_factory.mktemp("hubs")) as found:
        yield found


def test_a_context_replaces_url_and_token(run: Run, hubs: Hubs, home: Path) -> None:
    url = f"esnp://{hubs.places['esnp']}"
    saved = ("--url", url, "--id", CLIENT, "--token-file", str(hubs.token_file))
    admin = ("--admin", f"http://{hubs.places['admin']}")
    admin += ("--admin-token-file", str(hubs.admin_token_file))
    found = run("context", "add", "edge", *saved, *admin)
    file = home / "contexts" / "edge.json"
    assert found == (0, f"{file}, in use\n", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "current").stat().st_mode) == 0o600
    assert run("call", "test/add", "a=1", "b=2") == (0, "c = 3\n", "")
    assert run("ping", "--count", "1").code == 0
    assert run("publish", "@news", "rain").out.endswith("no subscriber: nobody receives it\n")
    assert run("publish", "--client", CLIENT, "http://a").out.endswith(f" for client {CLIENT}\n")
    shown = run("subscribe", "@news", "--count", "1")
    assert shown.out.endswith("  -  http://a\n")
    place = hubs.places["esnp"]
    stop = "press Ctrl-C to stop"
    assert shown.err == f"wirelake: subscribed to @news at {place} as {CLIENT}; {stop}\n"
    assert json.loads(run("top", "--once", "--json", "--interval", "0.1").out)["topic_count"] == 1


def test_a_url_takes_precedence_and_the_token_stays(run: Run, hubs: Hubs) -> None:
    url = f"esnp://{hubs.places['esnp']}"
    saved = ("--url", url, "--id", CLIENT, "--token-file", str(hubs.token_file))
    assert run("context", "add", "edge", *saved).code == 0
    found = run("call", f"{url}/test/add", "a=1", "b=2")
    assert (found.code, found.err) == (
        1,
        "wirelake: auth required; give --id and --token-file\n",
    )
    conflict = run("call", f"{url}/test/add", "--context", "edge")
    assert (conflict.code, "conflicts" in conflict.err) == (2, True)
    other = run("call", "test/add", "--id", "someone-else")
    assert (other.code, "--id requires a token" in other.err) == (2, True)


def test_contexts_are_listed_used_and_removed(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("token").write_text("throw-away-secret\n")
    for name in ("one", "two"):
        saved = ("--url", f"tny://{name}:1", "--id", name, "--token-file", "token")
        assert run("context", "add", name, *saved).code == 0
    assert run("context", "list").out.splitlines() == [
        "* one          tny://one:1 as one",
        "  two          tny://two:1 as two",
    ]
    assert run("context", "use", "two") == (0, "", "")
    lines = run("context", "list", "--json")
    assert "throw-away-secret" not in lines.out
    assert [json.loads(line)["in_use"] for line in lines.out.splitlines()] == [False, True]
    monkeypatch.setenv("WIRELAKE_CONTEXT", "one")
    assert run("context", "list").out.startswith("* one")
    monkeypatch.delenv("WIRELAKE_CONTEXT")
    assert run("context", "remove", "two") == (0, "", "")
    assert not (home / "current").exists()
    assert run("context", "list").out == "  one          tny://one:1 as one\n"
    again = run("context", "add", "one", "--url", "tny://one:2")
    assert (again.code, "already exists; --replace changes it" in again.err) == (2, True)
    assert run("context", "add", "one", "--url", "tny://one:2", "--replace", "--use").code == 0
    assert json.loads((home / "contexts" / "one.json").read_text()) == {"url": "tny://one:2"}


def test_a_file_that_others_can_read_is_refused(run: Run, home: Path) -> None:
    assert run("context", "add", "one", "--url", "tny://127.0.0.1:1").code == 0
    file = home / "contexts" / "one.json"
    file.chmod(0o644)
    found = run("ping")
    assert (found.code, found.out) == (2, "")
    assert f"{file}: other users can read this file; run chmod 600" in found.err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("add", "x"), "missing --url or --admin"),
        (("add", "x", "--url", "gopher://h"), "expected a URL with one of"),
        (("add", "x", "--url", "tny://h:1/1002"), "a context has a server, not a target"),
        (("add", "x", "--url", "tny://h", "--id", "a"), "--id and --token-file require each other"),
        (("add", "../x", "--url", "tny://h"), "invalid context name '../x'"),
        (("add", "x", "--admin", "tny://h"), "expected the hub's admin address"),
        (("add", "x", "--url", "tny://h", "--admin-token-file", "t"), "requires --admin"),
        (("add", "x", "--url", "tny://h", "--id", "a", "--token-file", "t"), "no such file"),
        (("use", "../../x"), "unknown context '../../x'"),
        (("remove", "x"), "unknown context 'x'"),
        (("lst",), "did you mean list?"),
    ],
)
def test_mistakes(run: Run, home: Path, args: tuple[str, ...], text: str) -> None:
    found = run("context", *args)
    assert (found.code, found.out) == (2, "")
    assert text in found.err
    assert found.err.count("\n") == 1
    assert not home.exists()


def test_a_broken_file_can_be_removed(run: Run, home: Path) -> None:
    assert run("context", "add", "one", "--url", "tny://127.0.0.1:1").code == 0
    (home / "contexts" / "one.json").write_text("[1")
    assert "not a saved context" in run("ping").err
    assert run("context", "remove", "one") == (0, "", "")

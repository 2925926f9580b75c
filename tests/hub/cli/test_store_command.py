"""`--store` of `wirelake hub`, `client` and `user`, and `wirelake hub store`."""

from __future__ import annotations

import builtins
import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hub.cli.started_hub import hub_process, wirelake
from tests.postgres_server import PASSWORD, shared_server, started_server

from wirelake.cli.main import main
from wirelake.hub.config import ConfigError, make_config
from wirelake.hub.store import StoreError, open_database, shown
from wirelake.hub.store.postgres_schema import VERSION

pytestmark = pytest.mark.slow


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    said = capsys.readouterr()
    assert PASSWORD not in said.out + said.err
    return code, said.out, said.err


@pytest.fixture
def url(postgres: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store without its password, which is in the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return postgres.replace(f":{PASSWORD}@", "@")


@pytest.mark.parametrize("kind", ["client", "user"])
@pytest.mark.parametrize("place", ["option", "table", "short"])
def test_accounts(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, place: str
) -> None:
    if place == "option":
        where = ["--store", url]
    else:
        config = tmp_path / "hub.toml"
        text = f'store = "{url}"\n' if place == "short" else f'[store]\npath = "{url}"\n'
        config.write_text(text)
        where = ["--config", str(config)]
    where += ["--data", str(tmp_path / "data")]
    role = ["--role", "viewer"] if kind == "user" else []
    code, token, errors = run(capsys, kind, "add", "anna", *role, *where)
    assert (code, len(token.strip()), errors) == (0, 44, "")
    assert run(capsys, kind, "list", *where)[1].startswith("anna")
    code, fresh, _ = run(capsys, kind, "rotate", "anna", *where)
    assert code == 0
    assert fresh != token
    code, _, errors = run(capsys, kind, "add", "anna", *role, *where)
    assert code == 2
    assert "already exists" in errors
    assert run(capsys, kind, "remove", "anna", *where) == (0, "", "")
    code, _, errors = run(capsys, kind, "remove", "anna", *where)
    assert code == 2
    assert f"unknown {kind} 'anna'" in errors
    assert run(capsys, kind, "list", *where) == (0, "", "")
    assert not (tmp_path / "data").exists()


def test_a_password_on_the_command_line_is_warned_of(
    postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, errors = run(capsys, "client", "list", "--store", postgres)
    assert (code, output) == (0, "")
    assert "other users can see the password" in errors
    bad = postgres.replace("/hub_", "/no_")
    code, _, errors = run(capsys, "client", "list", "--store", bad)
    assert code == 2
    assert shown(bad) in errors
    assert "does not exist; create it" in errors


def test_migrate(capsys: pytest.CaptureFixture[str]) -> None:
    server = shared_server()
    name = server.new_database()
    url = server.url(name)
    try:
        for what in ("created", "up to date"):
            code, output, _ = run(capsys, "hub", "store", "migrate", "--store", url)
            assert (code, output) == (0, f"{shown(url)}: {what}, format {VERSION}\n")
    finally:
        server.drop_database(name)
    code, _, errors = run(capsys, "hub", "store", "migrate", "--store", "hub.sqlite3")
    assert code == 2
    assert "hub.sqlite3: not the address of a PostgreSQL database" in errors


def test_copy(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(tmp_path)]
    run(capsys, "client", "add", "anna", *data)
    code, output, errors = run(capsys, "hub", "store", "copy", *data, "--store", url, "--json")
    assert (code, errors) == (0, "")
    rows = {row["name"]: row["rows"] for row in map(json.loads, output.splitlines())}
    assert (rows["clients"], rows["log"]) == (1, 0)
    assert run(capsys, "client", "list", "--store", url)[1] == "anna\n"
    code, output, errors = run(capsys, "hub", "store", "copy", *data, "--store", url)
    assert (code, output) == (2, "")
    assert "it has a store already (table clients is not empty)" in errors
    nowhere = ["--data", str(tmp_path / "nothing")]
    code, _, errors = run(capsys, "hub", "store", "copy", *nowhere, "--store", url)
    assert code == 2
    assert "no such file; give the hub's data directory with --data" in errors


def test_a_setting_that_is_neither() -> None:
    with pytest.raises(ConfigError, match="store"):
        make_config({"store": 5})
    assert make_config({"store": "hub.db"}).store.path == "hub.db"


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return real(name, *args, **kwargs)

    for name in [each for each in sys.modules if each.startswith("wirelake.hub.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    import wirelake.hub.store

    monkeypatch.delattr(wirelake.hub.store, "postgres", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StoreError, match=r"missing optional dependency psycopg: .*\[postgres\]"):
        open_database("postgresql://h/d")


def test_a_hub_with_its_store_in_postgresql(url: str, tmp_path: Path) -> None:
    assert wirelake("client", "add", "anna", "--store", url).stdout
    ids: list[str] = []
    (tmp_path / "two").mkdir()
    with (
        hub_process(tmp_path, "--store", url) as hub,
        hub_process(tmp_path / "two", "--store", url) as second,
    ):
        for n in range(6):
            each = (hub, second)[n % 2]
            body = {"client": "anna", "content": f"text {n}"}
            ids.append(_publish(*each.address("admin"), each.data, body))
        _, errors = hub.end(signal.SIGKILL)
        assert PASSWORD not in errors
        page = json.loads(_get(*second.address("admin"), second.data, "/v1/inbox/anna"))
        assert ids == [each["id"] for each in page["notifications"]], page
        assert second.end()[0] == 0
    with hub_process(tmp_path, "--store", url) as hub:
        host, port = hub.address("admin")
        page = json.loads(_get(host, port, hub.data, "/v1/inbox/anna"))
        assert ids == [each["id"] for each in page["notifications"]], page
        state = _get(host, port, hub.data, "/varz")
        assert PASSWORD not in state
        assert json.loads(state)["store_failures"] == {}
        assert hub.end()[0] == 0
    assert not (tmp_path / "data" / "hub.sqlite3").exists()


def test_a_hub_outlives_a_crash_of_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with started_server(safe=True) as server:
        url = server.url("postgres", password="")
        assert wirelake("client", "add", "anna", "--store", url).stdout
        with hub_process(tmp_path, "--store", url) as hub:
            host, port = hub.address("admin")
            body = {"client": "anna", "content": "text"}
            ids = [_publish(host, port, hub.data, body)]
            server.stop(signal.SIGKILL)
            status, text = _refused(lambda: _publish(host, port, hub.data, body))
            assert (status, json.loads(text)["error"]) == (503, "storage_failed")
            assert _refused(lambda: _get(host, port, hub.data, "/readyz"))[0] == 503
            server.start()
            ids.append(_publish(host, port, hub.data, body))
            assert _get(host, port, hub.data, "/readyz")
            page = json.loads(_get(host, port, hub.data, "/v1/inbox/anna"))
            assert ids == [each["id"] for each in page["notifications"]]
            code, errors = hub.end()
            assert code == 0
            assert PASSWORD not in errors
            assert "cannot write the store: " in errors
            assert "Traceback" not in errors
            assert not [line for line in errors.splitlines() if not line[:4].isdigit()], errors


def _refused(request: Callable[[], str]) -> tuple[int, str]:
    """Return status and body of an answer that is an error."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        request()
    with caught.value as answer:
        return answer.code, answer.read().decode()


def _request(host: str, port: int, data: Path, path: str, body: Any = None) -> str:
    request = urllib.request.Request(
        f"http://{host}:{port}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {(data / 'admin.token').read_text().strip()}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def _get(host: str, port: int, data: Path, path: str) -> str:
    return _request(host, port, data, path)


def _publish(host: str, port: int, data: Path, body: dict[str, Any]) -> str:
    answer = json.loads(_request(host, port, data, "/v1/publish", body))
    id_: str = answer["id"]
    return id_

"""postgresql.yaml of Compose: its schema, and its scripts with a real PostgreSQL and NATS."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.hub.certificates import make_certificate
from tests.hub.cli.started_hub import hub_process, wirelake
from tests.postgres_server import PASSWORD, Server, binaries, started_server

from .shipped import DEPLOY, IMAGES, POSTGRESQL, documents, here, options
from .test_compose import FILE as BASE
from .test_compose import conforms
from .test_shipped_configs import ask

FOLDER = DEPLOY / "compose"
FILE = FOLDER / "postgresql.yaml"
WHOLE: dict[str, Any] = documents(FILE)[0]
SERVICES: dict[str, dict[str, Any]] = WHOLE["services"]

pytestmark = pytest.mark.slow


# -- the file --------------------------------------------------------------------------------------


def test_file_conforms_to_the_schema(tmp_path: Path) -> None:
    assert conforms(FILE)
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text(encoding="utf-8").replace("shm_size:", "shmsize:"))
    assert not conforms(wrong)


def test_only_the_hub_is_changed() -> None:
    base = documents(BASE)[0]
    assert SERVICES.keys() & base["services"].keys() == {"hub"}
    assert set(SERVICES["hub"]) == {"command", "environment", "secrets", "depends_on"}
    before, after = options(base["services"]["hub"]["command"]), options(SERVICES["hub"]["command"])
    assert {name for name in after if after[name] != before[name]} == {"store"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"hub"}))
def test_services_have_few_privileges_and_no_ports(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["user"].split(":")[0]) > 0
    assert "ports" not in service
    assert "healthcheck" in service


def test_services_start_in_order() -> None:
    assert SERVICES["migrate"]["depends_on"]["postgresql"]["condition"] == "service_healthy"
    wanted = SERVICES["hub"]["depends_on"]
    assert wanted["migrate"]["condition"] == "service_completed_successfully"
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["migrate"]["image"] in IMAGES
    assert SERVICES["nats"]["profiles"] == ["nats"]


def test_secrets_are_files_that_are_not_shipped(tmp_path: Path) -> None:
    subprocess.run(["sh", FOLDER / "make-secrets.sh", tmp_path / "secrets"], check=True)
    written = {path.name for path in (tmp_path / "secrets").iterdir()}
    assert {each["file"] for each in WHOLE["secrets"].values()} == {
        f"secrets/{name}" for name in written
    }
    used = {name for each in SERVICES.values() for name in each.get("secrets", ())}
    assert used == set(WHOLE["secrets"]) == written
    for each in SERVICES.values():
        for value in each.get("environment", {}).values():
            if "/run/secrets/" in value:
                assert Path(value).name in each["secrets"]
    assert "deploy/compose/secrets/" in (DEPLOY.parent / ".gitignore").read_text().splitlines()
    # No secret of the hub's owner is in the hub's container.
    assert SERVICES["hub"]["secrets"] == ["postgresql-hub-service"]


def test_secrets_are_random_closed_to_others_and_not_replaced(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        subprocess.run(["sh", FOLDER / "make-secrets.sh", folder], check=True)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first = {path.name: path.read_bytes() for path in folders[0].iterdir()}
    passwords = {first[f"postgresql-{name}"] for name in ("superuser", "owner", "hub")}
    assert {len(each) for each in passwords} == {48}
    assert len(passwords) == 3
    for name, content in first.items():
        assert (folders[1] / name).read_bytes() != content
    subprocess.run(["sh", FOLDER / "make-secrets.sh", folders[0]], check=True)
    assert {path.name: path.read_bytes() for path in folders[0].iterdir()} == first


def test_nats_accepts_its_configuration_and_requires_the_password(tmp_path: Path) -> None:
    subprocess.run(["sh", FOLDER / "make-secrets.sh", tmp_path / "run" / "secrets"], check=True)
    config = tmp_path / "etc" / "nats" / "nats.conf"
    config.parent.mkdir(parents=True)
    config.write_bytes((FOLDER / "nats.conf").read_bytes())
    assert f"./{config.name}:/etc/nats/{config.name}:ro" in SERVICES["nats"]["volumes"]
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    command = ["nats-server", "-t", "-c", config]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    (tmp_path / "run" / "secrets" / "nats-users").unlink()
    assert subprocess.run(command, check=False, capture_output=True, env=environment).returncode


# -- with PostgreSQL -------------------------------------------------------------------------------


def prepared(server: Server, folder: Path) -> Path:
    """Do what the image of PostgreSQL does with a new volume; return the folder of the secrets."""
    secrets = folder / "secrets"
    subprocess.run(["sh", FOLDER / "make-secrets.sh", secrets], check=True)
    server.execute("CREATE DATABASE wirelake TEMPLATE template0 ENCODING 'UTF8'")
    connection = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGPASSWORD": PASSWORD}
    path = f"{binaries()}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", FOLDER / "postgresql-roles.sh"],
        env={"PATH": path, **connection, "POSTGRES_DB": "wirelake", "SECRETS": str(secrets)},
        check=True,
        timeout=60,
    )
    for name in ("owner", "hub"):
        file = secrets / f"postgresql-{name}-service"
        text = file.read_text()
        assert "host=postgresql\n" in text  # the name of the service
        file.write_text(text.replace("host=postgresql", f"host=127.0.0.1\nport={server.port}"))
    return secrets


def change_password(server: Server, secrets: Path) -> None:
    """Change the password of the hub's role, and end its sessions."""
    old = (secrets / "postgresql-hub").read_text()
    new = "throw-away-password-of-a-test"
    server.execute(f"ALTER ROLE wirelake_hub PASSWORD '{new}'")
    for each in ("postgresql-hub", "postgresql-hub-service"):
        (secrets / each).write_text((secrets / each).read_text().replace(old, new))
    ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    assert server.execute(f"{ended} WHERE usename = 'wirelake_hub'")


@pytest.mark.parametrize("name", ["compose", "kubernetes"])
def test_a_hub_starts_with_the_roles_and_the_service_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started_server() as server:
        secrets = prepared(server, tmp_path)
        monkeypatch.setenv("PGSERVICEFILE", str(secrets / "postgresql-owner-service"))
        made = wirelake(*SERVICES["migrate"]["command"])
        assert made.returncode == 0, made.stderr
        monkeypatch.setenv("PGSERVICEFILE", str(secrets / "postgresql-hub-service"))
        if name == "compose":
            config, scheme = here(FOLDER / "hub.toml", tmp_path), "http"
            words = ["--store", options(SERVICES["hub"]["command"])["store"]]
        else:
            certificate = make_certificate(tmp_path)
            config, scheme = here(POSTGRESQL, tmp_path, certificate.settings), "https"
            words = []
        with hub_process(tmp_path, *words, config=config) as hub:
            assert ask(hub, "/readyz", scheme=scheme) == ""
            server.stop()
            assert "/readyz answers 503" in ask(hub, "/readyz", scheme=scheme)
            assert ask(hub, "/healthz", scheme=scheme) == ""
            server.start()
            assert ask(hub, "/readyz", scheme=scheme) == ""
            change_password(server, secrets)
            assert ask(hub, "/readyz", scheme=scheme) == ""
            assert not list(hub.data.glob("*.sqlite3"))
            assert hub.end()[0] == 0
        password = (secrets / "postgresql-hub").read_text()
        url = server.url("wirelake", user="wirelake_hub", password=password)
        with psycopg.connect(url) as hub_role, pytest.raises(psycopg.errors.InsufficientPrivilege):
            hub_role.execute("DROP TABLE wirelake.log")

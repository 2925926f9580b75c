"""A private PostgreSQL server for tests: one per process of tests, started when it is needed.

The binaries are those of the Debian package. PostgreSQL refuses to run as root, so root starts it
as another user. Its files are in a folder of its own, which is deleted at the end; when the process
of the tests is killed, the kernel ends the server (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

__all__ = [
    "PASSWORD",
    "Server",
    "binaries",
    "hub_database",
    "shared_server",
    "started_server",
    "stop_shared",
]

PASSWORD = "throw-away-password"
"""Of the superuser; for tests only."""
USER = "postgres"
_DEADLINE_S = 60.0
_UNSAFE = {"fsync": "off", "full_page_writes": "off"}
"""For tests that are not about durability."""


def binaries() -> Path:
    """The folder of initdb and postgres."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[-3])
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    assert path, "no PostgreSQL server is installed; run `make system`"
    return Path(path).parent


class Server:
    """A server in a folder."""

    def __init__(self, folder: Path, **settings: str):
        self.folder = folder
        self.data = folder / "data"
        self.port = _free_port()
        self.settings: dict[str, str] = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(folder),
            "shared_buffers": "32MB",
            "max_connections": "60",
            "max_wal_size": "256MB",
            "autovacuum_naptime": "1min",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    @property
    def pid(self) -> int:
        """The process of the server."""
        assert self.process is not None
        return self.process.pid

    def create(self) -> None:
        """Create the cluster; every connection needs the password."""
        os.chmod(self.folder, 0o755)
        if _user() is not None:
            shutil.chown(self.folder, _user())
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if _user() is not None:
            shutil.chown(secret, _user())
        subprocess.run(
            [
                *(binaries() / "initdb", "-D", self.data, "-U", USER, "--encoding=UTF8"),
                *("--locale=C.UTF-8", "-A", "scram-sha-256", "--pwfile", secret, "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=_user(),
        )

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = [
            part for key, value in self.settings.items() for part in ("-c", f"{key}={value}")
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [binaries() / "postgres", "-D", self.data, "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=_user(),
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - it calls one function of C
            )
        until = time.monotonic() + _DEADLINE_S
        while True:
            assert self.process.poll() is None, (self.folder / "log").read_text()[-4000:]
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.folder / "log").read_text()[-4000:]
                time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all sessions, SIGKILL is a crash."""
        if self.process is None:
            return
        if number == signal.SIGKILL:
            _kill_with_children(self.process.pid)
        else:
            self.process.send_signal(number)
        self.process.wait(_DEADLINE_S)
        self.process = None

    def use_tls(self, certificate: Path, key: Path) -> None:
        """Accept TLS from now on."""
        for name, source in (("server.crt", certificate), ("server.key", key)):
            shutil.copy(source, self.data / name)
            os.chmod(self.data / name, 0o600)
            if _user() is not None:
                shutil.chown(self.data / name, _user())
        self.execute("ALTER SYSTEM SET ssl = on")
        self.stop()
        self.start()

    @contextmanager
    def standby(self) -> Iterator[Server]:
        """A standby that every commit waits for."""
        folder = Path(tempfile.mkdtemp(prefix="wirelake-postgres-"))
        standby = Server(folder, **_UNSAFE)
        try:
            os.chmod(folder, 0o755)
            if _user() is not None:
                shutil.chown(folder, _user())
            source = self.url("postgres")
            subprocess.run(
                [
                    binaries() / "pg_basebackup",
                    "-d",
                    source,
                    "-D",
                    standby.data,
                    "-R",
                    "-c",
                    "fast",
                ],
                check=True,
                capture_output=True,
                cwd=folder,
                user=_user(),
            )
            standby.start()
            self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.execute("SELECT pg_reload_conf()")
            yield standby
        finally:
            standby.stop()
            shutil.rmtree(folder)

    def url(self, database: str, user: str = USER, password: str = PASSWORD, **more: Any) -> str:
        """The address of a database."""
        query = "&".join(f"{key}={value}" for key, value in more.items())
        port = more.pop("at_port", self.port)
        login = f"{user}:{password}" if password else user
        return f"postgresql://{login}@127.0.0.1:{port}/{database}" + (f"?{query}" if query else "")

    def execute(self, query: str, database: str = "postgres") -> list[Any]:
        """Execute a statement as the superuser."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(query)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def new_database(self, template: str = "template1") -> str:
        """Create a database and return its name."""
        self._databases += 1
        name = f"hub_{self._databases}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, and end its sessions."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def started_server(*, safe: bool = False, **settings: str) -> Iterator[Server]:
    """A server for one test or module; `safe` for tests of durability."""
    folder = Path(tempfile.mkdtemp(prefix="wirelake-postgres-"))
    server = Server(folder, **({} if safe else _UNSAFE), **settings)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


_shared: list[Any] = []


def shared_server() -> Server:
    """The server that all tests of this process share; it has a database `prepared` with the tables
    of a hub."""
    if not _shared:
        context = started_server()
        server = context.__enter__()
        _shared[:] = [server, context]
        server.execute("CREATE DATABASE prepared")
        from wirelake.hub.store.postgres import PostgresDatabase

        PostgresDatabase(server.url("prepared")).close()
    return _shared[0]


def stop_shared() -> None:
    """Stop it at the end of all tests."""
    if _shared:
        _, context = _shared
        _shared.clear()
        context.__exit__(None, None, None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _user() -> str | None:
    """The user that runs the server; None: the one that runs the tests."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _end_with_parent() -> None:
    # After the change of the user, which would reset it.
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _kill_with_children(pid: int) -> None:
    """Kill a server as a power failure would: no process of it does anything more."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(pid, signal.SIGKILL)
    for each in children:
        with suppress(ProcessLookupError):
            os.kill(int(each), signal.SIGKILL)


@contextmanager
def hub_database() -> Iterator[str]:
    """The address of a new database with the tables of a hub."""
    server = shared_server()
    name = server.new_database("prepared")
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)

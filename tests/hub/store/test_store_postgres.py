"""What is particular to PostgreSQL: crashes and failovers of the server, rights, TLS, secrets."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.adversity.proxy import FAIR, Proxy
from tests.hub.certificates import make_certificate
from tests.postgres_server import PASSWORD, Server, binaries, shared_server, started_server

from wirelake.hub.errors import HubError
from wirelake.hub.store import postgres as module
from wirelake.hub.store import postgres_schema as schema
from wirelake.hub.store.addresses import shown
from wirelake.hub.store.interface import (
    AddAccount,
    AddDeadLetters,
    Append,
    Appended,
    Claim,
    Delete,
    DeleteAcked,
    ExpireKeys,
    InboxRow,
    KeyRow,
    NewKey,
    Notify,
    PruneDeadLetters,
    Redrive,
    Release,
    RemoveAccount,
    RemoveKeys,
    RemoveTopics,
    RotateAccount,
    SaveInboxes,
    SaveTransient,
    SetChecks,
    Source,
    StoreError,
    Unsubscribe,
)
from wirelake.hub.store.postgres import Membership, PostgresDatabase
from wirelake.hub.store.postgres_connection import Session

from .databases import DAY_MS, NOW_MS, Box, publish, subscribe

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pg(postgres: str) -> Iterator[Box]:
    """A database with one client, ann, that subscribes to @a."""
    box = Box(lambda: PostgresDatabase(postgres))
    box.client("ann", "@a")
    yield box
    box.close()


def execute(url: str, query: str) -> list[Any]:
    """Execute a statement as the superuser."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = wirelake")
        cursor = connection.execute(query)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def other_sessions(url: str, what: str) -> list[Any]:
    """Call a function for the process of each session of the hub in this database."""
    return execute(
        url,
        f"SELECT {what} FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND application_name = 'wirelake'",
    )


def at_log_insert(url: str, body: str, *, at_commit: bool = False) -> None:
    """Do something whenever a row is added to the log, or at its commit."""
    execute(url, f"CREATE FUNCTION wirelake.act() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    kind = "CONSTRAINT TRIGGER" if at_commit else "TRIGGER"
    when = "DEFERRABLE INITIALLY DEFERRED" if at_commit else ""
    execute(
        url,
        f"CREATE {kind} act AFTER INSERT ON log {when} FOR EACH ROW EXECUTE FUNCTION act()",
    )


def failed(work: Callable[[], Any]) -> HubError:
    with pytest.raises(HubError) as caught:
        work()
    assert isinstance(caught.value.__cause__, Exception)
    return caught.value


# -- statements ------------------------------------------------------------------------------------


def test_a_batch_of_a_thousand_publishes_is_a_handful_of_statements(
    pg: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    query = module._query

    def counted(connection: Any, text: str, *values: Any) -> Any:
        statements.append(text)
        return query(connection, text, *values)

    monkeypatch.setattr(module, "_query", counted)
    results = pg.write(
        *(
            publish("@a", key=NewKey("ann", f"k{n}", b"d", NOW_MS + DAY_MS, True))
            for n in range(900)
        ),
        *(publish(to="ann") for _ in range(100)),
    )
    assert len(results) == 1_000
    assert len(statements) <= 10, statements


def test_no_statement_reads_a_whole_table(postgres: str) -> None:
    # On a new database, without statistics.
    box = Box(lambda: PostgresDatabase(postgres))
    ann, bob = box.client("ann", "@a", "@b"), box.client("bob", "@a")
    database = box.database
    for round_ in range(8):  # the plans of prepared statements change after the fifth execution
        key = NewKey("ann", f"k{round_}", b"d", NOW_MS + round_, True)
        numbers = box.published(
            *(publish("@a") for _ in range(100)), publish(to="ann"), publish("@a", key=key)
        )
        (temporary,) = box.write(subscribe(0, f"@c{round_}", "@a", id_=f"~{round_}"))
        box.write(
            SaveInboxes((InboxRow(ann, 5, b"s", 1), InboxRow(bob, 5, b"s", 1))),
            AddDeadLetters(((ann, numbers[0], "r", 1), (bob, numbers[0], "r", 1)), (numbers[0],)),
            SetChecks(((ann, 1, 500),)),
            Delete(tuple(numbers[1:3])),
            DeleteAcked(1, numbers[9], 5),
            ExpireKeys(NOW_MS + round_ - 1, 10),
            Unsubscribe(temporary.client, (temporary.rows[0].topic,)),
            RemoveAccount("client", f"~{round_}"),
            RemoveTopics(10),
        )
        places = [each.place for each in database.dead(1, ann)]
        box.write(Redrive(tuple(places), NOW_MS, NOW_MS))
        sources = [Source(1, 0), Source(-ann, 0)]
        database.numbers(sources, 1 << 60, 10)
        database.count(sources, 1 << 60)
        database.entries(numbers)
        database.targets(numbers)
        database.expired(NOW_MS, 10)
        database.lagging(1, 1 << 60, 0, 10)
        database.needed(1, 0, 10)
        database.due(1, 10)
        database.checks(ann)
        database.load_client(ann)
        database.client("ann")
        database.clients_with(["ann", "bob"])
        database.topic("@a")
        database.topics(0, 10)
        database.dead(10, None, numbers)
    box.close()
    query = (
        "SELECT relname, seq_scan, idx_scan FROM pg_stat_user_tables WHERE schemaname = 'wirelake'"
        " AND relname NOT IN ('log_tail', 'store', 'migrations', 'users')"
    )
    # A session reports its statistics at its end.
    until = time.monotonic() + 30
    scans: dict[str, tuple[int, int]] = {}
    while not scans.get("log", (0, 0))[1]:
        assert time.monotonic() < until
        scans = {name: (whole, by_index) for name, whole, by_index in execute(postgres, query)}
    assert {name: whole for name, (whole, _) in scans.items() if whole} == {}


def test_names_that_no_text_can_be_fail_nothing(pg: Box) -> None:
    odd = NewKey("ann", "\ud800", b"d", NOW_MS + DAY_MS, True)
    stored, to_nobody, again = pg.write(
        publish("@a", key=odd), publish(to="\udcff"), publish("@a", key=odd)
    )
    assert isinstance(stored, Appended)
    assert to_nobody.code == "not_found"
    assert isinstance(again, KeyRow)
    assert again.key == "\ud800"
    assert pg.database.client("\udcff") is pg.database.topic("@\udcff") is None


def test_a_key_whose_publisher_is_not_known_is_found_by_all(pg: Box, postgres: str) -> None:
    execute(
        postgres,
        f"INSERT INTO publisher_keys VALUES ('', 'k', '', 5, false, 1, {NOW_MS + DAY_MS})",
    )
    known = pg.one(publish("@a", key=NewKey("ann", "k", b"d", NOW_MS + DAY_MS, True)))
    assert isinstance(known, KeyRow)
    assert (known.number, known.digest) == (5, b"")


def test_a_confirmed_publish_is_synchronous_whatever_the_server_says(postgres: str) -> None:
    execute(postgres, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off',"
                      " current_database()); END $$")  # fmt: skip
    with closing(PostgresDatabase(postgres)) as database:
        connection = database._connection
        assert connection is not None
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_reader_cannot_write(pg: Box, postgres: str) -> None:
    with closing(PostgresDatabase(postgres, session=Session(read_only=True), create=False)) as it:
        assert it.last_number() == pg.database.last_number()
        assert failed(lambda: it.write([publish("@a")])).code == "storage_failed"


# -- lost connections ------------------------------------------------------------------------------


def test_sessions_that_the_server_ended_are_replaced(pg: Box, postgres: str) -> None:
    (first,) = pg.published(publish("@a"))
    other_sessions(postgres, "pg_terminate_backend(pid, 10000)")
    assert pg.database.last_number() == first
    other_sessions(postgres, "pg_terminate_backend(pid, 10000)")
    assert pg.published(publish("@a")) == [first + 1]
    other_sessions(postgres, "pg_terminate_backend(pid, 10000)")
    # All of this batch is sent together with COMMIT.
    assert pg.write(SetChecks(((1, 1, 5),)), SaveTransient(9)) == [None, None]
    assert pg.database.last_transient() == 9
    pg.database.check()


def test_a_deadlock_or_a_conflict_is_tried_again(pg: Box, postgres: str) -> None:
    execute(postgres, "CREATE SEQUENCE wirelake.times")
    at_log_insert(
        postgres,
        "BEGIN IF nextval('wirelake.times') < 3 THEN RAISE 'again' USING ERRCODE = '40P01';"
        " END IF; RETURN NULL; END",
    )
    (number,) = pg.published(publish("@a"))
    assert pg.stored(pg.topic("@a")) == [number]
    execute(postgres, "ALTER SEQUENCE wirelake.times RESTART MINVALUE -100 START -100")
    assert failed(lambda: pg.write(publish("@a"))).code == "storage_failed"


def test_a_server_that_became_read_only_is_left(pg: Box, postgres: str) -> None:
    ((pid,),) = other_sessions(postgres, "pid")
    at_log_insert(
        postgres,
        f"BEGIN IF pg_backend_pid() = {pid} THEN RAISE 'no' USING ERRCODE = '25006'; END IF;"
        " RETURN NULL; END",
    )
    assert len(pg.published(publish("@a"))) == 1
    assert other_sessions(postgres, "pid") != [(pid,)]


def test_an_error_of_the_server_is_the_cause_and_the_next_batch_succeeds(
    pg: Box, postgres: str
) -> None:
    at_log_insert(postgres, "BEGIN RAISE 'of the disk' USING ERRCODE = '53100'; END")
    before = pg.database.last_number()
    error = failed(lambda: pg.write(AddAccount("client", "bob", b"b", 0), publish("@a")))
    assert error.code == "storage_full"
    assert "of the disk" in str(error.__cause__)
    assert pg.database.client("bob") is None
    execute(postgres, "DROP TRIGGER act ON log")
    assert pg.published(publish("@a"))[0] > before


def test_a_slow_commit_is_waited_for(pg: Box, postgres: str) -> None:
    at_log_insert(postgres, "BEGIN PERFORM pg_sleep(2); RETURN NULL; END", at_commit=True)
    (number,) = pg.published(publish("@a"))
    assert pg.stored(pg.topic("@a")) == [number]


def test_a_connection_that_is_lost_during_the_commit_is_a_failure_and_not_repeated(
    pg: Box, postgres: str
) -> None:
    at_log_insert(
        postgres,
        "BEGIN PERFORM pg_advisory_lock(77); PERFORM pg_advisory_unlock(77); RETURN NULL; END",
        at_commit=True,
    )
    proxy = Proxy(lambda: ("127.0.0.1", shared_server().port), FAIR, 1)
    through = postgres.replace(str(shared_server().port), str(proxy.address[1]))
    with psycopg.connect(postgres, autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(77)")
        database = PostgresDatabase(through)
        errors: list[HubError] = []
        thread = threading.Thread(
            target=lambda: errors.append(failed(lambda: database.write([publish("@a")])))
        )
        thread.start()
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not gate.execute(waiting).fetchall():
            pass
        proxy.stop()  # the server executes COMMIT, and cannot tell anybody
        thread.join()
        gate.execute("SELECT pg_advisory_unlock(77)")
    assert [each.code for each in errors] == ["storage_failed"]
    database.close()
    with closing(PostgresDatabase(postgres)) as again:
        # Behind the lock of the tail, which the other transaction has until its end.
        again.write([AddAccount("client", "bob", b"b", 0)])
    assert len(pg.stored(pg.topic("@a"))) == 1


def test_a_session_that_does_not_answer_is_given_up(pg: Box, postgres: str) -> None:
    database = PostgresDatabase(postgres, session=Session(call_s=0.3))
    connection = database._connection
    assert connection is not None
    backend = connection.info.backend_pid
    os.kill(backend, signal.SIGSTOP)
    try:
        assert len(database.write([publish("@a")])) == 1
        assert connection.closed
        assert len(pg.stored(pg.topic("@a"))) == 1
    finally:
        os.kill(backend, signal.SIGCONT)
    database.close()


def test_a_statement_that_takes_too_long_is_ended(postgres: str) -> None:
    database = PostgresDatabase(postgres, session=Session(statement_s=0.2))
    with psycopg.connect(postgres) as other:
        other.execute("SELECT * FROM wirelake.log_tail FOR UPDATE")
        error = failed(lambda: database.write([publish("@a")]))
    assert "statement timeout" in str(error.__cause__)
    assert len(database.write([publish("@a")])) == 1
    database.close()


# -- the server ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that syncs its files, and that tests may crash."""
    with started_server(safe=True) as server:
        yield server


def test_nothing_confirmed_is_lost_when_the_server_is_killed(own: Server) -> None:
    url = own.url(own.new_database())
    database = PostgresDatabase(url)
    database.write([AddAccount("client", "ann", b"a", 0), subscribe(1, "@a")])
    confirmed: list[int] = []

    def work(stop: threading.Event, enough: threading.Event) -> None:
        target = len(confirmed) + 1_000
        while not stop.is_set():
            with suppress(HubError):
                batch = database.write([publish("@a", b"x" * 500) for _ in range(50)])
                confirmed.extend(each.number for each in batch)
            if len(confirmed) > target:
                enough.set()

    for _ in range(3):
        stop, enough = threading.Event(), threading.Event()
        thread = threading.Thread(target=work, args=(stop, enough))
        thread.start()
        assert enough.wait(60)
        own.stop(signal.SIGKILL)
        stop.set()
        thread.join()
        failed(database.last_number)
        own.start()
        # The same object, without a restart of the hub.
        confirmed += [each.number for each in database.write([publish("@a")])]
        assert set(confirmed) <= set(Box(lambda: database).stored(1))
    assert confirmed == sorted(set(confirmed))
    database.close()


def test_a_stop_for_maintenance_in_the_middle_of_writes(own: Server) -> None:
    url = own.url(own.new_database())
    database = PostgresDatabase(url)
    database.write([AddAccount("client", "ann", b"a", 0), subscribe(1, "@a")])
    own.stop()
    assert failed(lambda: database.write([publish("@a")])).code == "storage_failed"
    assert failed(lambda: database.client("ann")).code == "storage_failed"
    own.start()
    assert database.client("ann") is not None
    assert len(database.write([publish("@a")])) == 1
    database.close()


def test_a_server_that_does_not_answer_is_given_up(own: Server) -> None:
    url = own.url(own.new_database(), connect_timeout=2)
    database = PostgresDatabase(url, session=Session(call_s=0.3))
    children = Path(f"/proc/{own.pid}/task/{own.pid}/children").read_text().split()
    processes = [own.pid, *map(int, children)]
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        assert failed(database.last_number).code == "storage_failed"
        assert "timeout" in str(failed(lambda: database.write([publish("@a")])).__cause__)
    finally:
        for each in reversed(processes):
            os.kill(each, signal.SIGCONT)
    assert len(database.write([publish("@a")])) == 1
    database.close()


def test_a_full_disk(own: Server) -> None:
    disk = own.folder / "small"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting is not permitted")
    try:
        subprocess.run(["chown", "postgres", disk], check=True)
        own.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        name = own.new_database()
        database = PostgresDatabase(own.url(name))
        database.write([AddAccount("client", "ann", b"a", 0), subscribe(1, "@a")])
        own.execute("ALTER TABLE wirelake.log SET TABLESPACE small", name)
        stored: list[int] = []

        def fill() -> None:
            for _ in range(100):
                batch = database.write([publish("@a", os.urandom(1_000)) for _ in range(100)])
                stored.extend(each.number for each in batch)

        assert failed(fill).code == "storage_full"
        assert Box(lambda: database).stored(1) == stored
        # Other tables can be written; the log can when there is space.
        database.write([AddAccount("client", "bob", b"b", 0)])
        subprocess.run(["mount", "-o", "remount,size=60m", disk], check=True)
        assert len(database.write([publish("@a")])) == 1
        database.close()
        own.execute(f"DROP DATABASE {name} WITH (FORCE)")
        own.execute("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_one_of_two_hosts_is_down(postgres: str) -> None:
    with ClosedPort() as dead:
        both = postgres.replace("@127.0.0.1:", f"@127.0.0.1:{dead},127.0.0.1:")
        with closing(PostgresDatabase(both)) as database:
            assert database.last_number() == 0
        neither = re.sub(r"127\.0\.0\.1:\d+/", f"127.0.0.1:{dead}/", both)
        with pytest.raises(StoreError, match=r"refused.*; does the server run"):
            PostgresDatabase(neither)


class ClosedPort:
    """A port that nobody listens on, and that nobody else gets meanwhile."""

    def __enter__(self) -> int:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_a_failover_to_a_standby_loses_nothing_that_was_confirmed() -> None:
    with started_server() as primary, primary.standby() as standby:
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
        url = primary.url("postgres").replace(f"127.0.0.1:{primary.port}", hosts)
        # The standby is first in the address, and accepts no writes.
        database = PostgresDatabase(url)
        database.write([AddAccount("client", "ann", b"a", 0), subscribe(1, "@a")])
        confirmed = [each.number for each in database.write([publish("@a")] * 50)]
        primary.stop(signal.SIGKILL)
        assert failed(lambda: database.write([publish("@a")])).code == "storage_failed"
        standby.execute("SELECT pg_promote()")
        confirmed += [each.number for each in database.write([publish("@a")])]
        assert Box(lambda: database).stored(1) == confirmed
        database.close()


def test_another_store_at_the_same_address_is_noticed(own: Server) -> None:
    name, other = own.new_database(), own.new_database()
    database = PostgresDatabase(own.url(name))
    reader = PostgresDatabase(own.url(name), create=False)
    reader.check()
    PostgresDatabase(own.url(other)).close()
    own.drop_database(name)
    own.execute(f"ALTER DATABASE {other} RENAME TO {name}")
    with pytest.raises(StoreError, match="replaced by another store"):
        reader.check()
    assert "replaced by another store" in str(
        failed(lambda: database.write([publish("@a")])).__cause__
    )


def test_a_copy_keeps_hubs_out_and_hubs_keep_it_out(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLAIM_S", 0.2)
    first = PostgresDatabase(postgres, hub=True)
    second = PostgresDatabase(postgres, hub=True)
    with psycopg.connect(postgres, autocommit=True, row_factory=None) as copying:
        assert not schema.take_hub_lock(copying)  # type: ignore[arg-type]
        first.close()
        second.close()
        assert schema.take_hub_lock(copying, 5.0)  # type: ignore[arg-type]
        with pytest.raises(StoreError, match="a store is being copied to this database"):
            PostgresDatabase(postgres, hub=True)
        # `wirelake client add` and the like need no lock.
        PostgresDatabase(postgres).close()
    PostgresDatabase(postgres, hub=True).close()


def test_a_hub_that_was_killed_frees_the_store(postgres: str) -> None:
    code = (
        "import os, sys, signal\n"
        "from wirelake.hub.store.postgres import PostgresDatabase\n"
        "database = PostgresDatabase(sys.argv[1], hub=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, postgres], check=False)
    assert ended.returncode == -signal.SIGKILL
    with psycopg.connect(postgres, autocommit=True, row_factory=None) as copying:
        assert schema.take_hub_lock(copying, 5.0)  # type: ignore[arg-type]


# -- TLS -------------------------------------------------------------------------------------------


def test_tls_with_a_certificate_of_the_right_authority(tmp_path: Path) -> None:
    certificate, other = make_certificate(tmp_path), make_certificate(tmp_path, "other")
    with started_server() as server:
        server.use_tls(certificate.certificate, certificate.key)
        trusted = server.url("postgres", sslmode="verify-full", sslrootcert=certificate.certificate)
        with closing(PostgresDatabase(trusted)) as database:
            connection = database._connection
            assert connection is not None
            assert connection.pgconn.ssl_in_use
        wrong = server.url("postgres", sslmode="verify-full", sslrootcert=other.certificate)
        with pytest.raises(StoreError, match="check sslrootcert and sslmode"):
            PostgresDatabase(wrong)
        by_name = trusted.replace("127.0.0.1", "localhost")
        PostgresDatabase(by_name).close()
    with pytest.raises(StoreError, match="check ssl"):
        PostgresDatabase(shared_server().url("postgres", sslmode="require"))


# -- the start -------------------------------------------------------------------------------------


@pytest.fixture
def empty() -> Iterator[str]:
    """The name of a database without tables."""
    server = shared_server()
    name = server.new_database()
    yield name
    server.drop_database(name)


def test_hubs_that_start_at_the_same_time_create_the_tables_once(empty: str) -> None:
    url = shared_server().url(empty)
    gate = threading.Barrier(6)
    failures: list[BaseException] = []

    def start() -> None:
        gate.wait()
        try:
            PostgresDatabase(url).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert execute(url, "SELECT count(*) FROM migrations") == [(schema.VERSION,)]
    assert execute(url, "SELECT count(*) FROM log_tail") == [(1,)]


def test_upgrades_keep_what_there_is(
    pg: Box, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pg.published(publish("@a", b"before"))
    now = len(schema.MIGRATIONS)
    steps = (
        *schema.MIGRATIONS,
        "ALTER TABLE log ADD COLUMN more bigint NOT NULL DEFAULT 5; CREATE TABLE two (x int);",
        "ALTER TABLE two ADD COLUMN y int; SELECT 1 / 0;",
    )

    def released(count: int) -> None:
        monkeypatch.setattr(schema, "MIGRATIONS", steps[:count])
        for each in (schema, module):
            monkeypatch.setattr(each, "VERSION", count)

    released(now + 2)
    with pytest.raises(StoreError, match=r"cannot upgrade .*division by zero; nothing was changed"):
        PostgresDatabase(postgres)
    # The first step is done, the second has left nothing.
    assert execute(postgres, "SELECT max(number) FROM migrations") == [(now + 1,)]
    assert execute(postgres, "SELECT * FROM two") == []
    with pytest.raises(StoreError, match="missing or older; run `wirelake hub store migrate"):
        PostgresDatabase(postgres, create=False)
    released(now + 1)
    with closing(PostgresDatabase(postgres)) as database:
        assert database.entries(numbers)[0].content == b"before"
        assert len(database.write([publish("@a")])) == 1
    # A hub of the old version goes on, and says that it must be restarted.
    monkeypatch.undo()
    with pytest.raises(StoreError, match="upgraded by a newer Wirelake"):
        pg.database.check()
    with pytest.raises(StoreError, match=rf"newer Wirelake \(format {now + 1}, supported {now}\)"):
        PostgresDatabase(postgres)


def test_a_schema_of_another_program_is_refused_and_not_changed(empty: str) -> None:
    url = shared_server().url(empty)
    execute(url, "CREATE SCHEMA wirelake CREATE TABLE log (x int)")
    with pytest.raises(StoreError, match="not the store of a hub"):
        PostgresDatabase(url)
    assert execute(url, "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace ="
                        " 'wirelake'::regnamespace") == [(1,)]  # fmt: skip


def test_a_database_in_another_encoding_is_refused() -> None:
    server = shared_server()
    server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(StoreError, match="not UTF8; create it with"):
            PostgresDatabase(server.url("latin"))
    finally:
        server.drop_database("latin")


def test_what_cannot_be_connected_to_is_one_clear_line(empty: str) -> None:
    server = shared_server()
    cases = {
        server.url("nowhere"): 'database "nowhere" does not exist; create it',
        server.url(empty, password="wrong"): "password authentication failed.*PGPASSWORD",
        server.url(empty, password=""): "no password supplied; give the password in PGPASSWORD",
        server.url(empty, user="nobody"): "password authentication failed",
        f"postgresql://x@127.0.0.1:1/{empty}": "refused.*; does the server run",
        "postgresql://x@no.such.host.invalid/x": "check the host of the address",
        "postgresql://x@h/d?sslmod=require": "invalid address; expected postgresql://",
        "postgresql://x@h:port/d": "check the host of the address",
    }
    for url, text in cases.items():
        with pytest.raises(StoreError, match=text) as caught:
            PostgresDatabase(url)
        assert "\n" not in str(caught.value)


# -- rights ----------------------------------------------------------------------------------------


@pytest.fixture
def roles(empty: str) -> Iterator[tuple[str, str]]:
    """The addresses of a database for the roles of the guide: owner and hub."""
    text = (ROOT / "docs/guides/postgresql.md").read_text()
    first, second = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)[:2]
    server = shared_server()
    named = {"wirelake_owner": f"owner_{empty}", "wirelake_hub": f"hub_{empty}"}
    for role, name in named.items():
        first, second = first.replace(role, name), second.replace(role, name)
    first = re.sub(r"'\.\.\.'", f"'{PASSWORD}'", first)
    # CREATE DATABASE cannot be executed together with others, and ours exists.
    server.execute(re.sub(r"CREATE DATABASE.*?;", "", first, flags=re.DOTALL))
    server.execute(f"ALTER DATABASE {empty} OWNER TO {named['wirelake_owner']}")
    execute(server.url(empty), second.replace("DATABASE wirelake ", f"DATABASE {empty} "))
    yield (
        server.url(empty, user=named["wirelake_owner"]),
        server.url(empty, user=named["wirelake_hub"]),
    )
    server.drop_database(empty)
    for name in named.values():
        server.execute(f"DROP ROLE {name}")


def test_a_backup_is_restored_with_its_rights(roles: tuple[str, str], tmp_path: Path) -> None:
    owner, hub = roles
    PostgresDatabase(owner).close()
    box = Box(lambda: PostgresDatabase(hub))
    box.client("ann", "@a")
    numbers = box.published(publish("@a", b"\0\xff"), publish("@a", "🌊".encode()))
    guide = (ROOT / "docs/guides/postgresql.md").read_text()
    for command in ("pg_dump", "pg_restore"):
        (line,) = re.findall(rf"^{command} .*", guide, re.MULTILINE)
        line = line.replace("postgresql://wirelake_owner@db.example.com/wirelake", owner)
        subprocess.run(
            [binaries() / command, *line.split()[1:]], check=True, cwd=tmp_path, timeout=60
        )
        if command == "pg_dump":
            box.published(publish("@a"))
            box.close()
    box = Box(lambda: PostgresDatabase(hub))
    assert box.stored(1) == numbers
    assert box.contents(numbers) == [b"\0\xff", "🌊".encode()]
    assert box.published(publish("@a")) == [numbers[-1] + 1]
    # Tables of later versions are granted to the hub as well.
    execute(owner, "CREATE TABLE more (x int)")
    execute(hub, "SELECT * FROM more")
    box.close()


def test_the_roles_of_the_guide_are_enough(
    roles: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, hub = roles
    with pytest.raises(StoreError, match=r"permission denied.*migrate --store URL` as the role"):
        PostgresDatabase(hub)
    PostgresDatabase(owner).close()
    box = Box(lambda: PostgresDatabase(hub))
    ann = box.client("ann", "@a")
    numbers = box.published(publish("@a"), publish("@a"), publish(to="ann"))
    assert len(box.write(
        publish("@a", key=NewKey("ann", "k", b"d", NOW_MS, True)),
        subscribe(0, "@a", "@b", id_="~1"),
        Claim(ann, take=True),
        Release((ann,)),
        Notify("hello"),
        SaveInboxes((InboxRow(ann, 1, b"", 1),)),
        Delete(tuple(numbers[1:])),
        DeleteAcked(1, 5, 5),
        AddDeadLetters(((ann, numbers[0], "r", 1),), (numbers[0],)),
        SetChecks(((ann, 1, 5),)),
        RemoveKeys("bob"),
        ExpireKeys(NOW_MS, 10),
        Redrive((1,), NOW_MS, NOW_MS),
        PruneDeadLetters(5, 5),
        AddAccount("user", "u", b"u", 0, 0, "viewer"),
        RotateAccount("user", "u", b"v", 0, 5),
        SaveTransient(5),
        Unsubscribe(ann, (1,)),
        RemoveAccount("client", "~1"),
        RemoveAccount("client", "ann"),
        RemoveTopics(100),
    )) == 21  # fmt: skip
    Membership(hub, "one", lambda _: None, lambda _: None).stop()
    box.database.check()
    assert box.database.size().database > 0
    for statement in (
        "CREATE TABLE wirelake.more (x int)",
        "DROP TABLE wirelake.log",
        "TRUNCATE wirelake.log",
        "ALTER TABLE wirelake.log ADD COLUMN x int",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(hub, statement)
    # The hub's role may also wait for an upgrade.
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE more (x int);"))
    monkeypatch.setattr(schema, "VERSION", len(schema.MIGRATIONS))
    with pytest.raises(StoreError, match="as the role that owns them"):
        PostgresDatabase(hub)
    PostgresDatabase(owner).close()
    execute(hub, "SELECT * FROM more")
    box.close()


# -- secrets ---------------------------------------------------------------------------------------

SECRET = "throw-away/se?cr@t"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://ann@h1:1,h2/db?sslmode=verify-full&sslrootcert=/ca.crt", None),
        ("postgresql://ann:secret@h/db", "postgresql://ann:***@h/db"),
        ("POSTGRES://ann:se:cr@et@h/db?sslmode=require", "POSTGRES://ann:***@h/db?sslmode=require"),
        ("postgresql://ann:se/cret@h/db", "postgresql://ann:***@h/db"),
        ("postgresql://ann:se?cret@h/db", "postgresql://ann:***@h/db"),
        ("postgresql://h/db?password=secret", "postgresql://h/db?password=***"),
        ("postgresql://h/db?p%61ssword=secret&port=1", "postgresql://h/db?p%61ssword=***&port=1"),
        ("postgresql://h/db?pasword=secret", "postgresql://h/db?pasword=***"),
        ("postgresql://h/db?sslpassword=secret", "postgresql://h/db?sslpassword=***"),
        ("postgresql://h/db?password=secret@x", "postgresql://h:***@x"),
        ("postgresql://h/db&password=secret", "postgresql://h/db&password=***"),
        ("postgresql:///db?user=ann&password=secret", "postgresql:///db?user=ann&password=***"),
        ("/data/hub.sqlite3", None),
    ],
)
def test_addresses_are_shown_without_passwords(url: str, expected: str | None) -> None:
    assert shown(url) == (expected or url)


def test_a_password_is_never_shown(
    empty: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    server = shared_server()
    quoted = "throw-away%2Fse%3Fcr%40t"
    role = f"ann_{empty}"
    server.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'")
    texts: list[str] = []
    for password in (SECRET, quoted):
        for place in (
            f"127.0.0.1:{server.port}/{empty}",
            f"127.0.0.1:{server.port}/nowhere",
            f"127.0.0.1:{server.port}/{empty}?sslmode=require",
            f"127.0.0.1:1/{empty}",
            f"127.0.0.1:bad/{empty}",
        ):
            for url in (
                f"postgresql://{role}:{password}@{place}",
                f"postgresql://{role}:wrong@{place}?password={password}",
                f"postgresql://{role}@{place}&password={password}",
            ):
                texts += _texts_of(url)
    texts += [caplog.text, *capfd.readouterr()]
    assert any("permission denied" in each for each in texts), texts
    for each in texts:
        assert "se?cr" not in each
        assert "cr@t" not in each
        assert "%3Fcr" not in each
        assert SECRET not in each
    server.execute(f"DROP ROLE {role}")


def _texts_of(url: str) -> list[str]:
    """Everything that an error of a start says, with its causes and its traceback."""
    try:
        PostgresDatabase(url).close()
    except StoreError as error:
        return ["".join(traceback.format_exception(error)), repr(error)]
    return []


def test_the_guide_names_every_table(postgres: str) -> None:
    found = execute(postgres, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace ="
                              " 'wirelake'::regnamespace")  # fmt: skip
    created = set(re.findall(r"CREATE TABLE (\w+)", " ".join(schema.MIGRATIONS))) | {"migrations"}
    assert {name for (name,) in found} == created


def test_an_operation_that_nobody_knows_is_an_error(pg: Box) -> None:
    class Unknown(Append, frozen=True):
        """No database can execute it."""

    error = failed(lambda: pg.write(Unknown("@a", None, b"", 0, 0, 0)))
    assert isinstance(error.__cause__, KeyError)

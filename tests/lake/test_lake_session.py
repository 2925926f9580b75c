"""Sessions: their settings, and an unchanged process environment."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from wirelake.lake import session
from wirelake.lake.spark.daemon import TASKS
from wirelake.lake.spark.session import SessionError, settings


def test_a_session_has_the_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.master") == "local[2,4]"
    for name, value in settings("local[2]").items():
        assert spark.conf.get(name) == value


def test_there_is_one_session_at_a_time(spark: SparkSession) -> None:
    before = dict(os.environ)
    again = session(**{"spark.sql.shuffle.partitions": "3"})
    assert again.conf.get("spark.app.name") == spark.conf.get("spark.app.name")
    assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    assert dict(os.environ) == before


def test_an_error_of_a_query_is_raised_and_not_printed(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    session()
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql("select nothing from values (1) as t (one)")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.range(1).select("nothing")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("spark")
def test_a_jvm_that_is_gone_is_not_reported_by_threads_of_pyspark(
    capfd: pytest.CaptureFixture[str],
) -> None:
    session()
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error(None, None, ("127.0.0.1", 1))  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")


def test_only_a_local_session_is_bound_to_this_machine() -> None:
    assert settings("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert settings("local-cluster[2,1,1024]")["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in settings("spark://head:7077")


def test_python_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert settings("local[2]")["spark.pyspark.python"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert settings("local[2]")["spark.pyspark.python"] == "/opt/python"


def test_spark_ui_is_off_by_default() -> None:
    assert settings("local[2]")["spark.ui.enabled"] == "false"
    assert settings("local[2]", ui=True)["spark.ui.enabled"] == "true"


@pytest.mark.parametrize("master", ["foo", "local[", "spark://", "http://head:7077", "Yarn"])
def test_an_invalid_master_is_refused_before_java_starts(master: str) -> None:
    with pytest.raises(SessionError, match=r"^invalid master .*; expected local, local\[4\],"):
        session(master=master)


@pytest.mark.parametrize("remote", ["foo", "sc://", "sc://127.0.0.1:x", "http://127.0.0.1"])
def test_an_invalid_remote_is_refused(remote: str) -> None:
    with pytest.raises(SessionError, match=r"^invalid remote .*; expected an address such as sc:"):
        session(remote=remote)


def test_a_server_that_does_not_answer_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # Spark would try again for one minute, and for ten.
    with pytest.raises(SessionError, match=f"no Spark master answers at 127.0.0.1:{port}: Conn"):
        session(master=f"spark://127.0.0.1:{port}")
    with pytest.raises(SessionError, match=f"no Spark Connect server answers at 127.0.0.1:{port}"):
        session(remote=f"sc://127.0.0.1:{port}")


def test_what_needs_no_spark_does_not_import_it() -> None:
    program = (
        "import sys, wirelake.lake; from wirelake.lake import session;"
        "assert callable(session);"
        "assert not [name for name in sys.modules if name.startswith('pyspark')];"
        "from wirelake.lake import WirelakeSource; assert 'pyspark' in sys.modules;"
        "print(WirelakeSource.name())"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "wirelake\n"


def test_package_exports_only_its_public_names() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from wirelake.lake import nothing")


def loaded(worker: str) -> list[str]:
    """What of the slow modules a daemon for these workers has loaded; it says nothing itself."""
    program = (
        "import sys; from wirelake.lake.spark.daemon import preload; preload(sys.argv[1]);"
        "sys.stderr.write(' '.join(sorted(set(sys.argv[2:]) & set(sys.modules))))"
    )
    slow = ("pandas", "wirelake.lake.datasource.source", "wirelake.columnar.read.warm")
    found = subprocess.run(
        [sys.executable, "-c", program, worker, *slow], capture_output=True, text=True, check=True
    )
    assert found.stdout == ""
    return found.stderr.split()


def test_the_daemon_of_tasks_has_everything_loaded() -> None:
    assert loaded(TASKS) == [
        "pandas",
        "wirelake.columnar.read.warm",
        "wirelake.lake.datasource.source",
    ]


def test_the_daemon_of_planners_has_what_planning_takes() -> None:
    assert loaded("pyspark.sql.worker.create_data_source") == ["wirelake.lake.datasource.source"]

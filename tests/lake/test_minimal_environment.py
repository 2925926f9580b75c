"""A lake in an empty environment, without Java on the path.

The captures are those of the example package: its protocol has rows in the lake like any other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.lake.buoys import record_buoys

from wirelake.tables.query import open_lake


def path_without_java(folder: Path) -> str:
    """A folder with every program of this machine that is not called java."""
    folder.mkdir()
    for place in map(Path, ("/bin", "/usr/bin")):
        for program in place.iterdir():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


def test_an_emptied_environment_is_enough(tmp_path: Path) -> None:
    record_buoys(tmp_path / "captures")
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "wirelake.cli", "lake", "run", "--from", "captures"]
    environment = {
        "PATH": path_without_java(tmp_path / "bin"),
        "HOME": str(tmp_path),
        "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"],  # halves the CPU time of the JVM
    }
    compiled = tmp_path / ".cache" / "wirelake"
    compiled.parent.mkdir()
    compiled.symlink_to(os.environ["WIRELAKE_CACHE"])
    done = subprocess.run(
        [*command, "--to", str(lake)],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    with open_lake(lake) as db:
        found = db.sql(
            "select weather.hello.name from messages where name = 'hello' order by 1"
        ).fetchall()
        assert [row[0] for row in found] == ["Old Tom", "Santa Rosa", "Windward"]
        assert db.sql("select count(*) from messages where name = 'report'").fetchall() == [(24,)]
        assert db.sql("select count(*) from connections").fetchall() == [(3,)]
        assert db.sql("select sum(messages) from traffic_minutes").fetchall() == [(27,)]

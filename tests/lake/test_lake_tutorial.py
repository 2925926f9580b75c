"""The guide from captures to a chart is true, and so are the questions on the pages of tables.

All commands of the guide are run in their order, on less traffic. The lake that they make is held
against the truth of the simulation, and is then asked what the pages of tables ask.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wirehouse.cli.main import main
from wirehouse.columnar.read import ReadOptions, read_batches
from wirehouse.records.page_texts import EXAMPLES, MADE
from wirehouse.records.schema import schema
from wirehouse.tables.query import open_lake

from .lakes import counted, differing, untrue

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "lake.md").read_text("utf-8")
CHINESE = (DOCS / "zh" / "guides" / "lake.md").read_text("utf-8")
CARE = (DOCS / "guides" / "lake-operations.md").read_text("utf-8")
SMALLER = {"--size 20MB": "--size 2MB", "--stream": "--stream --settle 1"}
TAKEN = re.compile(r"^lake: commit \d+; \d+ captures? taken", re.MULTILINE)


def blocks(language: str, page: str = GUIDE) -> list[str]:
    """The blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands(page: str = GUIDE) -> list[str]:
    """What is typed, in its order."""
    return re.findall(r"^\$ (.*)$", "".join(blocks("console", page)), re.MULTILINE)


def execute(command: str) -> None:
    """Does what somebody types."""
    for words, fewer in SMALLER.items():
        command = command.replace(words, fewer)
    name, *arguments = shlex.split(command)
    if name == "wirehouse":
        assert main(arguments) == 0, command
    else:
        subprocess.run([name, *arguments], check=True)


def stream(command: str, meanwhile: str) -> None:
    """Does it, with something that happens in another terminal, until there is another commit."""
    before = commits()
    over = threading.Event()

    def other_terminal() -> None:
        execute(meanwhile)
        while not over.is_set():
            if commits() > before:
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.1)

    other = threading.Thread(target=other_terminal)
    other.start()
    try:
        execute(command)
    finally:
        over.set()
        other.join()


def commits() -> set[str]:
    return set(os.listdir("lake/_log"))


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which everything was done that the guide does."""
    here = Path.cwd()
    folder = tmp_path_factory.mktemp("tutorial")
    os.chdir(folder)
    try:
        with (folder / "said.txt").open("w", encoding="utf-8") as said, redirect_stdout(said):
            todo = iter(commands())
            for command in todo:
                if "--stream" in command:
                    stream(command, next(todo))
                else:
                    execute(command)
        yield folder
    finally:
        os.chdir(here)


def test_the_lake_is_true_and_is_told_as_in_the_guide(tutorial: Path) -> None:
    assert untrue(tutorial / "lake", tutorial / "traffic") == []
    assert TAKEN.findall((tutorial / "said.txt").read_text("utf-8"))[:2] == TAKEN.findall(GUIDE)
    assert b"plotly" in (tutorial / "report.html").read_bytes()


def test_python_runs(tutorial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    try:
        exec("\n".join(blocks("python")), names)
    finally:
        if "spark" in names:
            names["spark"].stop()  # type: ignore[attr-defined]
    assert (tutorial / "traffic.html").stat().st_size > 100_000
    assert "acked" in capsys.readouterr().out


def test_every_question_has_an_answer(tutorial: Path) -> None:
    captures = sorted((tutorial / "captures").glob("*.pcap*"))
    batches = read_batches(captures, ReadOptions(table="packets"))
    pq.write_table(pa.Table.from_batches(batches, schema("packets")), "packets.parquet")
    with open_lake(tutorial / "lake") as db:
        for name, examples in EXAMPLES.items():
            for example in examples:
                found = db.sql(example.sql).fetchall()
                assert found, f"{name}: {example.question}"


def test_roll_ups_are_what_their_pages_say(tutorial: Path) -> None:
    with open_lake(tutorial / "lake") as db:
        for name, made in MADE.items():
            given, wanted = (db.sql(each).to_arrow_table() for each in (f"FROM {name}", made.sql))
            assert given.num_rows, name
            assert wanted.schema.names == schema(name).names
            assert differing(counted(given), counted(wanted), name) == []


def test_a_lake_is_looked_after(
    tutorial: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tutorial / "copy"
    copy.mkdir()
    shutil.copytree(tutorial / "lake", copy / "lake")
    for name in ("captures", "traffic"):
        (copy / name).symlink_to(tutorial / name)
    monkeypatch.chdir(copy)
    with open_lake("lake") as db:
        [(calls,)] = db.sql("SELECT count(*) FROM calls").fetchall()
    done = [command.split()[2] for command in commands(CARE)]
    assert set(done) == {"status", "sql", "verify", "compact", "expire", "export"}
    for command in commands(CARE):
        execute(command)
    capsys.readouterr()
    exec("\n".join(blocks("python", CARE)), {})
    assert capsys.readouterr().out.split() == [str(calls), str(calls)]


def test_the_chinese_one_is_the_same() -> None:
    assert commands(CHINESE) == commands()
    assert blocks("python", CHINESE) == blocks("python")

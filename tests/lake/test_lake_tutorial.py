"""The guide from captures to a chart is true, and so are the questions on the pages of tables.

All commands of the guide are run in their order, on less traffic. The lake that they make is held
against the truth of the simulation, and is then asked what the pages of tables ask.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wirehouse.cli.main import main
from wirehouse.columnar.read import ReadOptions, read_batches
from wirehouse.records.page_texts import EXAMPLES, MADE
from wirehouse.records.schema import schema
from wirehouse.tables.query import open_lake

from .lakes import counted, differing, untrue

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "lake.md").read_text("utf-8")
SMALLER = {"--size 20MB": "--size 2MB", "--stream": "--stream --settle 1"}
TAKEN = re.compile(r"^lake: commit \d+; \d+ captures? taken", re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def commands() -> list[str]:
    """What is typed, in its order."""
    return re.findall(r"^\$ (.*)$", "".join(blocks("console")), re.MULTILINE)


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


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_roll_up_is_what_its_page_says(tutorial: Path, name: str) -> None:
    with open_lake(tutorial / "lake") as db:
        given, made = (db.sql(each).to_arrow_table() for each in (f"FROM {name}", MADE[name].sql))
    assert given.num_rows
    assert made.schema.names == schema(name).names
    assert differing(counted(given), counted(made), name) == []


def test_a_question_that_makes_no_sense_fails(tutorial: Path) -> None:
    with open_lake(tutorial / "lake") as db, pytest.raises(duckdb.Error):
        db.sql("SELECT nothing FROM calls").fetchall()
